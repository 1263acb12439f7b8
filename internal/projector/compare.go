package projector

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/projector/fold"
)

// Difference is a member of the stored form in which two snapshots differ.
type Difference struct {
	Member      string // as fold.Snapshot.AppendHead writes it
	Stored, Now string // the first bytes of its values, "" for none
}

// compare returns the differences between a stored snapshot and another one of the same position. For finished messages it
// compares the hash in the head.
func compare(stored, now fold.Snapshot) (out []Difference) {
	was, is := headMembers(stored), headMembers(now)
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !bytes.Equal(was[name], is[name]) {
			out = append(out, Difference{Member: name, Stored: excerpt(was[name]), Now: excerpt(is[name])})
		}
	}
	return out
}

// headMembers returns the members of the stored form.
func headMembers(s fold.Snapshot) map[string][]byte {
	all := make(map[string][]byte)
	for name, value := range rawjson.Members(s.AppendHead(nil)) {
		all[string(name.Bytes())] = value
	}
	return all
}

func excerpt(value []byte) string {
	const maxExcerpt = 200
	return strings.ToValidUTF8(string(value[:min(len(value), maxExcerpt)]), "")
}

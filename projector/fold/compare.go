package fold

import (
	"bytes"
	"maps"
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// Difference is a member of the stored form in which two snapshots differ.
type Difference struct {
	Member      string // as AppendHead writes it
	Stored, Now string // the first bytes of its values, "" for none
}

// Compare returns the differences between a stored snapshot and another one of the same position. For finished messages it
// compares the hash in the head.
func Compare(stored, now Snapshot) []Difference {
	if bytes.Equal(stored.AppendHead(nil), now.AppendHead(nil)) {
		return nil
	}
	was, is := headMembers(stored), headMembers(now)
	names := maps.Clone(was)
	maps.Copy(names, is)
	var out []Difference
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !bytes.Equal(was[name], is[name]) {
			out = append(out, Difference{Member: name, Stored: excerpt(was[name]), Now: excerpt(is[name])})
		}
	}
	return out
}

// headMembers returns the members of the stored form.
func headMembers(s Snapshot) map[string]chunk.Value {
	m, err := members(s.AppendHead(nil))
	if err != nil {
		panic("fold: a head that was just written cannot be read: " + err.Error())
	}
	return m
}

func excerpt(v chunk.Value) string { return clip(oneLine(string(v))) }

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
	Stored, Now string // the beginnings of its values, "" where there is none
}

// Compare tells in what a stored snapshot differs from another one of the same
// position. Of finished messages it compares the hash that the head has of them.
// What a version that kept less could not know is left out: see Partial.
func Compare(stored, now Snapshot) []Difference {
	if bytes.Equal(stored.AppendHead(nil), now.AppendHead(nil)) {
		return nil
	}
	was, is := headMembers(stored), headMembers(now)
	if Partial(stored, now) {
		for _, m := range []map[string]chunk.Value{was, is} {
			for _, newer := range []string{"created", "run", "records", "recordsSince", "past", "errors", "turn", "step"} {
				delete(m, newer)
			}
		}
	}
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

// Partial reports whether a stored snapshot was begun by a version of the code
// that kept less than now does: its chain begins later.
func Partial(stored, now Snapshot) bool { return stored.chain.Since > now.chain.Since }

// headMembers are the members of the stored form. What we wrote can be read.
func headMembers(s Snapshot) map[string]chunk.Value {
	m, err := members(s.AppendHead(nil))
	if err != nil {
		panic("fold: a head that was just written cannot be read: " + err.Error())
	}
	return m
}

func excerpt(v chunk.Value) string { return clip(oneLine(string(v))) }

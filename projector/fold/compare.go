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
// compares the hash in the head. It ignores members that an older version did not store: see StartedByOlderVersion.
func Compare(stored, now Snapshot) []Difference {
	now = now.withoutNewAnchors(&stored)
	if bytes.Equal(stored.AppendHead(nil), now.AppendHead(nil)) {
		return nil
	}
	was, is := headMembers(stored), headMembers(now)
	if chainStartsLater(stored, now) {
		for _, m := range []map[string]chunk.Value{was, is} {
			for _, newer := range []string{"created", "run", "records", "recordsSince", "past", "errors", "turn", "step"} {
				delete(m, newer)
			}
		}
	}
	if lacksSegments(stored, now) {
		for _, m := range []map[string]chunk.Value{was, is} {
			for _, name := range []string{"version", "packed", "tail", "finished", "segments", "chain", "generations", "dropped", "open", "turn", "step"} {
				delete(m, name)
			}
		}
	}
	if stored.messages.separate != now.messages.separate { // the same messages in other values
		for _, m := range []map[string]chunk.Value{was, is} {
			for _, name := range []string{"version", "packed", "tail"} {
				delete(m, name)
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

// withoutNewAnchors returns s without the anchors that a build before them did not store.
func (s Snapshot) withoutNewAnchors(stored *Snapshot) Snapshot {
	forget := func(s *Snapshot, stored *Snapshot) *Snapshot {
		if s == nil || stored == nil || stored.Anchor != 0 {
			return s
		}
		copied := *s
		copied.Anchor = 0
		return &copied
	}
	s.turn, s.step = forget(s.turn, stored.turn), forget(s.step, stored.step)
	return *forget(&s, stored)
}

// StartedByOlderVersion reports whether a stored snapshot was started by a version of the code that stored fewer members than
// now: its chain starts later. Or it stored a long turn as a whole, which now has segments.
func StartedByOlderVersion(stored, now Snapshot) bool {
	return chainStartsLater(stored, now) || lacksSegments(stored, now)
}

// lacksSegments reports whether stored was folded, at least in part, by a build that had no segments, and no bound of the
// dropped calls. The chain over the records still proves that both were folded from the same records.
func lacksSegments(stored, now Snapshot) bool {
	return stored.messages.segments < now.messages.segments || len(stored.messages.dropped) > maxDropped
}

func chainStartsLater(stored, now Snapshot) bool {
	return stored.chain.FirstOrdinal > now.chain.FirstOrdinal
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

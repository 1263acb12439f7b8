package observe

import (
	"cmp"
	"math"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

// ranges are ranges of ordinals in their order, which neither touch nor overlap.
type ranges []chunk.OrdinalRange

// rangesOf returns the ranges that a record removes: of earlier records.
func rangesOf(list []chunk.OrdinalRange, before chunk.Ordinal) (out ranges) {
	sorted := slices.SortedFunc(slices.Values(list), func(a, b chunk.OrdinalRange) int { return cmp.Compare(a.First, b.First) })
	for _, r := range sorted {
		r = chunk.OrdinalRange{First: max(r.First, 1), Last: min(r.Last, int64(before)-1)}
		if r.First > r.Last {
			continue
		}
		if n := len(out); n > 0 && r.First <= out[n-1].Last+1 {
			out[n-1].Last = max(out[n-1].Last, r.Last)
			continue
		}
		out = append(out, r)
	}
	return out
}

func (r ranges) has(o chunk.Ordinal) bool {
	i, found := slices.BinarySearchFunc(r, int64(o), func(r chunk.OrdinalRange, o int64) int { return cmp.Compare(r.First, o) })
	return found || i > 0 && int64(o) <= r[i-1].Last
}

// remove applies a cleanup: the state becomes that of the remaining entries, and the rows that differ are written again.
func (s *session) remove(b chunk.Truncated) {
	removed := rangesOf(b.Removed, s.f.rec.Ordinal)
	for _, r := range removed {
		g := row.Gap{Reason: row.Removed, FromOrdinal: r.First, ToOrdinal: r.Last}
		if b.FromSequence > 0 {
			g.FromSeq = &b.FromSequence
		}
		s.f.gap(g)
	}
	if len(removed) == 0 {
		return
	}
	was := s.state
	var rest []entry
	if first := s.entryFrom(removed[0].First); first < len(s.entries) {
		rest = s.rollBack(first)
	}
	s.quiet = true
	for i := range rest {
		if e := &rest[i]; e.remove(removed) {
			s.push(*e)
		}
	}
	s.quiet = false
	s.writeChanges(was, removed)
}

// entryFrom returns the index of the first entry with an ordinal or a later one. It need not be one that is removed: the log may have deleted those before they were read.
func (s *session) entryFrom(ordinal int64) int {
	i, _ := slices.BinarySearchFunc(s.entries, ordinal, func(e entry, first int64) int { return cmp.Compare(int64(e.last), first) })
	return i
}

// rollBack sets the state back to one before an entry, and returns the entries since then.
func (s *session) rollBack(entry int) []entry {
	i := len(s.saved) - 1
	for s.saved[i].entry > s.dropped+entry {
		i--
	}
	to := s.saved[i]
	if to.first == s.first {
		for n := len(s.items) - 1; n >= len(to.items); n-- {
			s.forgetCall(s.items[n])
		}
	}
	moved := to.first != s.first
	s.state = to.state
	s.items = slices.Clone(to.items)
	if moved {
		s.indexCalls()
	}
	s.saved = s.saved[:i]
	s.version++
	s.shed = min(s.shed, to.entry)
	rest := slices.Clone(s.entries[to.entry-s.dropped:])
	s.entries = s.entries[:to.entry-s.dropped]
	for i := range rest {
		s.content -= rest[i].contentBytes()
	}
	return rest
}

// forgetCall makes the call with the id of it that began before it the latest one.
func (s *session) forgetCall(it *item) {
	switch {
	case it.call == nil:
	case it.call.before > 0:
		s.byCall[it.call.key] = it.call.before
	default:
		delete(s.byCall, it.call.key)
	}
}

func (s *session) indexCalls() {
	clear(s.byCall)
	for n, it := range s.items {
		if it.call != nil {
			s.byCall[it.call.key] = ref(s.first + n + 1)
		}
	}
}

// remove removes records from e, and reports whether something remains.
func (e *entry) remove(removed ranges) bool {
	if e.pieces == nil || e.ordinal == e.last {
		return !removed.has(e.ordinal)
	}
	left, o, first := &pieces{}, e.ordinal, chunk.Ordinal(0)
	for shown, size := range e.pieces.each {
		if !removed.has(o) {
			left.add(shown, size)
			e.last = o
			if first == 0 {
				first = o
			}
		}
		o++
	}
	e.ordinal, e.pieces = first, left
	return first > 0
}

// writeChanges writes the rows that differ from those of an earlier state, and those that a removed record may have changed before: this Folder may have loaded the session
// from a log that has deleted it.
func (s *session) writeChanges(was state, removed ranges) {
	old, now := was.items, s.items
	if was.first == s.first {
		old, now = different(old, now)
	}
	before := make(map[string]*item, len(old))
	for _, it := range old {
		before[it.id] = it
	}
	emitted := s.writeUnsettled(removed)
	for _, it := range slices.Concat(s.trimmed, now) {
		if it.row == nil {
			continue
		}
		if b := before[it.id]; !emitted[it] && (b == nil && it.written > 0 || b != nil && b.written != it.written) {
			s.f.emit(it)
		}
		delete(before, it.id)
		if it.final {
			s.release(it)
		}
	}
	s.trimmed = nil
	s.endVanished(old, before, removed)
}

// writeUnsettled writes the rows that began before the last removed record, unless no later record has changed them since before the first one.
func (s *session) writeUnsettled(removed ranges) map[*item]bool {
	first, last := removed[0].First, removed[len(removed)-1].Last
	emitted := map[*item]bool{}
	nextRun := int64(math.MaxInt64)
	for _, it := range slices.Backward(s.items) {
		if it.row == nil {
			continue
		}
		settled := it.row.LastOrdinal
		if it.run != nil {
			settled, nextRun = nextRun, it.row.FirstOrdinal
		}
		if it.row.FirstOrdinal <= last && (!it.final || settled >= first) {
			emitted[it] = true
		}
	}
	for _, it := range s.items {
		if emitted[it] {
			s.f.emit(it)
		}
	}
	return emitted
}

// different returns the items of two states that they do not share. Most are shared.
func different(a, b []*item) (onlyA, onlyB []*item) {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			onlyA, onlyB = append(onlyA, a[i]), append(onlyB, b[i])
		}
	}
	return append(onlyA, a[n:]...), append(onlyB, b[n:]...)
}

// endVanished writes the waits as unknown that began in a record that stays, such as stream_paused, for a call that was removed: readers do not leave out their rows.
func (s *session) endVanished(items []*item, vanished map[string]*item, removed ranges) {
	s.e = &entry{ordinal: s.f.rec.Ordinal, at: s.f.time()}
	for _, it := range items {
		if vanished[it.id] == it && it.row != nil && it.written > 0 && !removed.has(chunk.Ordinal(it.row.FirstOrdinal)) {
			it = it.clone()
			s.end(it, row.Unknown)
			s.write(it)
		}
	}
	s.e = nil
}

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
	first, from := s.firstOf(removed), s.explain(removed)
	if from > 0 && (first < 0 || first > s.entryFrom(from)) {
		first = s.entryFrom(from)
	}
	if first < 0 {
		return
	}
	was := s.state
	var rest []entry
	if first < len(s.entries) {
		rest = s.rollBack(first)
	}
	s.quiet = true
	for i := range rest {
		if e := &rest[i]; e.remove(removed) {
			s.push(*e)
		}
	}
	s.quiet = false
	s.writeChanges(was, removed, from)
}

// maxMissing is the most ranges of missing records that a session keeps.
const maxMissing = 64

// miss notes the records between the last one and rec, if the log did not have them when the session was loaded. A cleanup may have deleted them before its record was
// read, and an earlier process may have stored rows that they have changed.
func (s *session) miss(rec chunk.Record) {
	loaded := s.loaded
	s.loaded = s.f.b == nil
	last := max(s.last, s.fenced)
	if !loaded || s.last == 0 || rec.Ordinal <= last+1 {
		return
	}
	s.missing = append(s.missing, chunk.OrdinalRange{First: int64(last) + 1, Last: int64(rec.Ordinal) - 1})
	if len(s.missing) > maxMissing {
		s.missing[1].First = s.missing[0].First
		s.missing = s.missing[1:]
	}
}

// explain forgets the missing records that a cleanup has removed. If rows are wanted, it returns the first missing one: the rows that it may have changed are written again,
// and so all are forgotten. Otherwise it returns 0.
func (s *session) explain(removed ranges) (from int64) {
	left := ranges{}
	for _, m := range s.missing {
		if !slices.ContainsFunc(removed, func(r chunk.OrdinalRange) bool { return r.First <= m.Last && m.First <= r.Last }) {
			left = append(left, m)
		}
	}
	if len(left) < len(s.missing) && s.f.b != nil {
		from, left = s.missing[0].First, nil
	}
	s.missing = left
	return from
}

// entryFrom returns the index of the first entry with an ordinal or a later one.
func (s *session) entryFrom(ordinal int64) int {
	i, _ := slices.BinarySearchFunc(s.entries, ordinal, func(e entry, first int64) int { return cmp.Compare(int64(e.last), first) })
	return i
}

// firstOf returns the index of the first entry that is removed, -1 for none.
func (s *session) firstOf(removed ranges) int {
	if len(removed) == 0 {
		return -1
	}
	i, _ := slices.BinarySearchFunc(s.entries, removed[0].First, func(e entry, first int64) int { return cmp.Compare(int64(e.last), first) })
	for ; i < len(s.entries); i++ {
		if e := &s.entries[i]; slices.ContainsFunc(removed, func(r chunk.OrdinalRange) bool { return r.First <= int64(e.last) && int64(e.ordinal) <= r.Last }) {
			return i
		}
	}
	return -1
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
	if to.last {
		i++
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

// writeChanges writes the rows that differ from those of an earlier state. If from is not 0, it also writes those that a missing record with this ordinal or a later one may
// have changed.
func (s *session) writeChanges(was state, removed ranges, from int64) {
	old, now := was.items, s.items
	if was.first == s.first {
		old, now = different(old, now)
	}
	before := make(map[string]*item, len(old))
	for _, it := range old {
		before[it.id] = it
	}
	var rewritten map[*item]bool
	if from > 0 {
		rewritten = s.rewriteSince(from)
	}
	for _, it := range slices.Concat(s.trimmed, now) {
		if it.row == nil {
			continue
		}
		if b := before[it.id]; !rewritten[it] && (b == nil && it.written > 0 || b != nil && b.written != it.written) {
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

// rewriteSince writes the rows, and returns their items, that were not final before a record.
func (s *session) rewriteSince(from int64) map[*item]bool {
	rewritten := map[*item]bool{}
	next := int64(math.MaxInt64) // the first record of the run after this one
	for _, it := range slices.Backward(slices.Concat(s.trimmed, s.items)) {
		if it.row == nil {
			continue
		}
		last := it.row.LastOrdinal
		if it.run != nil {
			last, next = next, it.row.FirstOrdinal
		}
		if !it.final || last >= from {
			rewritten[it] = true
			s.f.emit(it)
		}
	}
	return rewritten
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

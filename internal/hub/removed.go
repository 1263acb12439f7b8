package hub

import (
	"cmp"
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// removedBy returns the ordinals that a truncation record names, nil if it is malformed.
func removedBy(rec chunk.Record) []chunk.OrdinalRange {
	body, _ := chunk.BodyOf[chunk.Truncated](rec)
	return body.Removed
}

func (m *member) isRemoved(o chunk.Ordinal) bool { return m.hasRemoved(int64(o), int64(o)) }

// hasRemoved reports whether all ordinals of a range were removed.
func (m *member) hasRemoved(first, last int64) bool {
	i, _ := slices.BinarySearchFunc(m.removed, first, func(r chunk.OrdinalRange, o int64) int { return cmp.Compare(r.Last, o) })
	return i < len(m.removed) && m.removed[i].First <= first && last <= m.removed[i].Last
}

// remove adds removed ordinals, and reports whether any of them is new.
func (m *member) remove(ranges []chunk.OrdinalRange) (added bool) {
	if !slices.ContainsFunc(ranges, func(r chunk.OrdinalRange) bool { return r.First <= r.Last && !m.hasRemoved(r.First, r.Last) }) {
		return false
	}
	all := slices.Concat(m.removed, ranges)
	slices.SortFunc(all, func(a, b chunk.OrdinalRange) int { return cmp.Compare(a.First, b.First) })
	m.removed = all[:0]
	for _, r := range all {
		switch n := len(m.removed); {
		case r.First > r.Last:
		case n > 0 && r.First <= m.removed[n-1].Last:
			m.removed[n-1].Last = max(m.removed[n-1].Last, r.Last)
		default:
			m.removed = append(m.removed, r)
		}
	}
	return true
}

// applyTruncation handles a truncation record in a page that is being read. If it is new, its deletes may be in progress, or a later writer has to complete
// them; then neither memory nor this page may keep the records that it names.
func (t *topic) applyTruncation(rec chunk.Record, page []*segment) (grown int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	index := t.memberIndex(rec.Session.ID)
	m := &t.members[index]
	if !m.remove(removedBy(rec)) {
		return 0
	}
	holds := func(g *segment) bool {
		return slices.ContainsFunc(g.frames, func(f frame) bool { return f.index == index && m.isRemoved(f.ordinal) })
	}
	if len(t.reads) > 1 || slices.ContainsFunc(page, holds) {
		t.generation++ // the pages are read again without them
	}
	return t.dropRemoved(index, nil)
}

// dropRemoved drops the frames of a member that cleanups have removed: later readers must not get records that the log does not have. Everything else stays, so
// that the clients of a live answer read on, and get the truncation record. next is the frame that the feed adds after this, nil for none.
func (t *topic) dropRemoved(index uint32, next *frame) (grown int64) {
	r := removal{index: index, m: &t.members[index]}
	grown = r.drop(t.pages[t.ids[index]])
	grown += r.drop(t.tree)
	if next != nil {
		r.link(next)
	}
	if tail := t.tail(); !tail.open {
		t.tree = append(t.tree, &segment{from: tail.to, open: true})
	}
	return grown
}

// removal drops frames of a member from segments.
type removal struct {
	index   uint32
	m       *member
	pending bool  // the frames before the next one of the member were dropped …
	dropped frame // … and this is the last of them, with the link of the first
}

// drop replaces the segments that have removed frames, because clients may be reading them. Of an open segment the replacement is closed.
func (r *removal) drop(segments []*segment) (grown int64) {
	r.pending = false
	for i, g := range segments {
		if i > 0 && segments[i-1].to != g.from {
			r.pending = false // memory does not have what is between them
		}
		kept := r.without(g)
		if kept == nil {
			continue
		}
		grown += kept.memory - g.memory
		segments[i] = kept
	}
	return grown
}

// without returns a copy of a segment without the removed frames, nil if it has none.
func (r *removal) without(g *segment) *segment {
	frames, size, changed := 0, 0, false
	for i := range g.frames {
		f := &g.frames[i]
		isOwn := f.index == r.index
		changed = changed || isOwn && r.pending
		if isOwn && r.m.isRemoved(f.ordinal) {
			changed = true
			continue
		}
		frames++
		size += int(f.sessionEnd - f.off)
	}
	if !changed {
		return nil
	}
	kept := &segment{from: g.from, to: g.to, frames: make([]frame, 0, frames)}
	if g.open {
		kept.to = g.last()
	}
	kept.used.Store(g.used.Load())
	for _, f := range g.frames {
		if f.index == r.index {
			r.link(&f)
			if r.pending = r.m.isRemoved(f.ordinal); r.pending {
				r.dropped = f
				continue
			}
		}
		kept.add(f, &encoded{tree: g.wire[f.off:f.end], alone: g.wire[f.end:f.sessionEnd]}, size)
	}
	kept.memory = kept.size()
	return kept
}

// link makes a frame follow the frame before those that were dropped, for cursors that have none of them. It still follows each of them, for the other cursors.
func (r *removal) link(f *frame) {
	if !r.pending || f.after > r.dropped.ordinal {
		return
	}
	f.after = r.dropped.after
	f.flags |= r.dropped.flags & proved
	if r.dropped.prev != 0 {
		f.prev = r.dropped.prev
	}
}

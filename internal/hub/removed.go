package hub

import "github.com/tailrace/tailrace/chunk"

// removedBy returns the ordinals that a truncation record names, nil if it is malformed.
func removedBy(rec chunk.Record) []chunk.OrdinalRange {
	c, err := rec.Decode()
	if err != nil {
		return nil
	}
	body, ok := c.Body.(chunk.Truncated)
	if !ok {
		return nil
	}
	return body.Removed
}

// deletes reports whether rec is the deletion record of its session.
func deletes(rec chunk.Record) bool {
	if rec.Type != chunk.TypeStreamFailed {
		return false
	}
	c, err := rec.Decode()
	if err != nil {
		return false
	}
	b, ok := c.Body.(chunk.StreamFailed)
	return ok && b.ErrorDetail != nil && b.ErrorDetail.Code != nil && *b.ErrorDetail.Code == chunk.CodeSessionDeleted
}

func (m *member) isRemoved(o chunk.Ordinal) bool {
	for _, r := range m.removed {
		if r.First <= int64(o) && int64(o) <= r.Last {
			return true
		}
	}
	return false
}

// remove adds removed ordinals, and reports whether any of them is new.
func (m *member) remove(ranges []chunk.OrdinalRange) (added bool) {
	for _, r := range ranges {
		if !m.isRemoved(chunk.Ordinal(r.First)) || !m.isRemoved(chunk.Ordinal(r.Last)) {
			m.removed = append(m.removed, r)
			added = true
		}
	}
	return added
}

// holds reports whether one of the segments has a record of a member that was removed
// after it was added.
func holds(segments []*segment, index uint32, m *member) bool {
	for _, g := range segments {
		for i := range g.frames {
			if f := &g.frames[i]; f.index == index && m.isRemoved(f.ordinal) {
				return true
			}
		}
	}
	return false
}

// applyTruncation handles a truncation record in a page that is being read. If it is
// new, its deletes may be in progress, or a later writer has to complete them; then
// neither memory nor this page may keep the records that it names.
func (t *topic) applyTruncation(rec chunk.Record, page []*segment) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	index := t.memberIndex(rec.Session.ID)
	m := &t.members[index]
	if !m.remove(removedBy(rec)) {
		return 0
	}
	kept := holds(t.tree, index, m) || holds(t.pages[rec.Session.ID], index, m)
	if kept {
		return t.clear(t.tail().last())
	}
	if holds(page, index, m) {
		t.generation++ // the page is read again without them
	}
	return 0
}

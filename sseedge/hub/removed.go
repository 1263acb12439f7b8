package hub

import "github.com/tailrace/tailrace/chunk"

// removedBy reads the mark of a clean-up. One that cannot be read names nothing.
func removedBy(rec chunk.Record) []chunk.OrdinalRange {
	c, err := rec.Decode()
	if err != nil {
		return nil
	}
	mark, ok := c.Body.(chunk.Truncated)
	if !ok {
		return nil
	}
	return mark.Removed
}

// deletes reports whether a record is the last word of a session that is deleted.
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

// remove notes what a mark names, and tells whether that was news.
func (m *member) remove(ranges []chunk.OrdinalRange) (news bool) {
	for _, r := range ranges {
		if !m.isRemoved(chunk.Ordinal(r.First)) || !m.isRemoved(chunk.Ordinal(r.Last)) {
			m.removed = append(m.removed, r)
			news = true
		}
	}
	return news
}

// holds reports whether one of the segments has a record of a member that was
// removed since it was put there.
func holds(segments []*segment, who uint32, m *member) bool {
	for _, g := range segments {
		for i := range g.frames {
			if f := &g.frames[i]; f.who == who && m.isRemoved(f.ordinal) {
				return true
			}
		}
	}
	return false
}

// meetMark is called for the mark of a clean-up in a page that is being read. If
// it is news, its deletes may be under way, or wait for a writer to finish what
// another one began; then neither memory nor this page may keep what it names.
func (t *topic) meetMark(rec chunk.Record, page []*segment) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	who := t.who(rec.Session.ID)
	m := &t.members[who]
	if !m.remove(removedBy(rec)) {
		return 0
	}
	kept := holds(t.tree, who, m) || holds(t.pages[rec.Session.ID], who, m)
	if kept {
		return t.clear(t.tail().last())
	}
	if holds(page, who, m) {
		t.era++ // the page is read again, without them
	}
	return 0
}

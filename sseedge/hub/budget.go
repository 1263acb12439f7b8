package hub

import (
	"cmp"
	"slices"
)

// charge books what a topic has grown by, and makes room if that was too much.
// It is called without any lock held.
func (h *Hub) charge(grown int64) {
	if grown == 0 || h.bytes.Add(grown) <= h.cfg.Memory {
		return
	}
	if !h.shrinking.TryLock() {
		return // somebody is at it, and looks at the sum again at the end
	}
	defer h.shrinking.Unlock()
	h.shrink(h.cfg.Memory - h.cfg.Memory/10)
}

// candidate is a segment that may go.
type candidate struct {
	t    *topic
	g    *segment
	used int64
}

// shrink drops segments until no more than target bytes are left: closed ones
// first, by when they were last read, then open ones, which are closed for it.
// A cursor that stands in one finds a gap and reads the log.
func (h *Hub) shrink(target int64) {
	var closed, open []candidate
	var topics []*topic
	for _, p := range h.partitions {
		topics = p.all(topics)
	}
	for _, t := range topics {
		closed, open = t.candidates(closed, open)
	}
	byUse := func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.used, b.used), cmp.Compare(a.g.from, b.g.from))
	}
	slices.SortFunc(closed, byUse)
	slices.SortFunc(open, byUse)
	for _, c := range append(closed, open...) {
		if h.bytes.Load() <= target {
			return
		}
		h.bytes.Add(-c.t.evict(c.g))
		h.counters.evicted.Add(1)
	}
}

func (t *topic) candidates(closed, open []candidate) (c, o []candidate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, g := range t.tree {
		if g.open && len(g.frames) > 0 {
			open = append(open, candidate{t, g, g.used.Load()})
		} else if !g.open {
			closed = append(closed, candidate{t, g, g.used.Load()})
		}
	}
	for _, shelf := range t.pages {
		for _, g := range shelf {
			closed = append(closed, candidate{t, g, g.used.Load()})
		}
	}
	return closed, open
}

// evict takes a segment out and returns its weight, 0 when it is gone already.
func (t *topic) evict(g *segment) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.tree, g); i >= 0 {
		if g.open {
			t.tree = append(slices.Delete(t.tree, i, i+1), &segment{from: g.last(), open: true})
		} else {
			t.tree = slices.Delete(t.tree, i, i+1)
		}
		return g.weight
	}
	for id, shelf := range t.pages {
		if i := slices.Index(shelf, g); i >= 0 {
			if t.pages[id] = slices.Delete(shelf, i, i+1); len(shelf) == 1 {
				delete(t.pages, id)
			}
			return g.weight
		}
	}
	return 0
}

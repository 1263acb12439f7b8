package hub

import (
	"cmp"
	"slices"
)

// addMemory adds the growth of a topic to the total, and evicts segments if that
// exceeds MaxMemory. While another goroutine evicts, it waits: if it returned, the
// memory would grow for as long as that one is not scheduled, and stay too large if it
// has just found that enough was evicted. The caller must hold no lock, unless the topic
// has become smaller.
func (h *Hub) addMemory(grown int64) {
	if h.bytes.Add(grown) <= h.cfg.MaxMemory || grown <= 0 {
		return
	}
	h.shrinking.Lock()
	defer h.shrinking.Unlock()
	if h.bytes.Load() > h.cfg.MaxMemory {
		h.evict(h.cfg.MaxMemory - h.cfg.MaxMemory/10)
	}
}

// candidate is a segment that may be evicted.
type candidate struct {
	t    *topic
	g    *segment
	used int64
}

// evict drops segments until at most target bytes are left: closed segments first,
// least recently read first, then open ones, which are closed. A cursor in an evicted
// segment reads the log.
func (h *Hub) evict(target int64) {
	var closed, open []candidate
	var topics []*topic
	for _, p := range h.feeds.all() {
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
	for _, pages := range t.pages {
		for _, g := range pages {
			closed = append(closed, candidate{t, g, g.used.Load()})
		}
	}
	return closed, open
}

// evict removes a segment and returns its memory, 0 if it was removed already.
func (t *topic) evict(g *segment) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.tree, g); i >= 0 {
		if g.open {
			t.tree = append(slices.Delete(t.tree, i, i+1), &segment{from: g.last(), open: true})
		} else {
			t.tree = slices.Delete(t.tree, i, i+1)
		}
		return g.memory
	}
	for id, pages := range t.pages {
		if i := slices.Index(pages, g); i >= 0 {
			if t.pages[id] = slices.Delete(pages, i, i+1); len(pages) == 1 {
				delete(t.pages, id)
			}
			return g.memory
		}
	}
	return 0
}

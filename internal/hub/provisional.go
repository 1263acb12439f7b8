package hub

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// provisionalRoots has the roots with subscribers whose partition was not final when they subscribed: they had no record while the partitions grew.
type provisionalRoots struct {
	mu         sync.Mutex
	partitions map[chunk.Session]int
}

// provisionalInterval is how often the partition of such a root is asked for again.
const provisionalInterval = time.Second

// partition returns the partition of s from the log.
func (h *Hub) partition(ctx context.Context, s chunk.Session) (n int, final bool, err error) {
	n, final, err = h.feed.Partition(ctx, s)
	if err == nil && (n < 0 || n >= h.cfg.Partitions) {
		err = fmt.Errorf("session %s: partition %d out of range, want less than %d", s, n, h.cfg.Partitions)
	}
	return n, final, err
}

// addProvisional keeps the request of a cursor whose tree may begin in another partition. The cursor has its topic already: checkProvisional forgets roots
// without one.
func (h *Hub) addProvisional(n int, cur *Cursor, req Request) {
	cur.provisional = &req
	h.provisional.mu.Lock()
	defer h.provisional.mu.Unlock()
	if h.provisional.partitions == nil {
		h.provisional.partitions = make(map[chunk.Session]int)
	}
	h.provisional.partitions[req.Session.Tree()] = n
}

// watchProvisional checks the partitions of provisional roots at every interval.
func (h *Hub) watchProvisional(ctx context.Context) {
	ticker := time.NewTicker(provisionalInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			h.checkProvisional(ctx)
		}
	}
}

// checkProvisional forgets roots whose partition is final now, and moves the cursors of those that begin elsewhere: nothing would be delivered to them. While
// sessions still begin in a partition, it asks for one root of it.
func (h *Hub) checkProvisional(ctx context.Context) {
	h.provisional.mu.Lock()
	roots := maps.Clone(h.provisional.partitions)
	h.provisional.mu.Unlock()
	open := make(map[int]bool)
	for root, n := range roots {
		if open[n] {
			continue
		}
		now, final, err := n, true, error(nil)
		if h.isWatched(n, root) {
			now, final, err = h.partition(ctx, root)
		}
		if err != nil || !final && now == n {
			open[n] = true
			continue
		}
		h.provisional.mu.Lock()
		delete(h.provisional.partitions, root)
		h.provisional.mu.Unlock()
		if now != n {
			h.move(n, root)
		}
	}
}

// isWatched reports whether a root has topics in a partition.
func (h *Hub) isWatched(n int, root chunk.Session) bool {
	k := key{root.Tenant, root.Root}
	if h.roots != nil {
		return h.roots.isWatched(n, k)
	}
	p := h.partitions[n]
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.topics[k]) > 0
}

func (f *rootFeeds) isWatched(n int, k key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byRoot[k] != nil && f.byRoot[k].n == n
}

// move lets the cursors of a root in a partition subscribe again.
func (h *Hub) move(n int, root chunk.Session) {
	k := key{root.Tenant, root.Root}
	if h.roots != nil {
		h.roots.moveFrom(k, func(old int) bool { return old == n })
		return
	}
	p := h.partitions[n]
	p.mu.Lock()
	topics := p.topics[k]
	delete(p.topics, k)
	p.mu.Unlock()
	for _, t := range topics {
		t.drop(errMoved)
	}
}

// moveFrom ends the feed of a root if it is in a partition that the root leaves.
func (f *rootFeeds) moveFrom(k key, leaves func(n int) bool) {
	f.mu.Lock()
	p := f.byRoot[k]
	moves := p != nil && leaves(p.n)
	if moves {
		delete(f.byRoot, k)
		if p.cancel != nil {
			p.cancel()
		}
	}
	f.mu.Unlock()
	if moves {
		p.abandon(errMoved)
	}
}

// moveToPartition subscribes again, in the partition in which the tree begins. The cursor may have read records there, if they were stored while it subscribed.
func (c *Cursor) moveToPartition(ctx context.Context) error {
	if c.provisional == nil {
		return errMoved
	}
	req, h := *c.provisional, c.t.part.hub
	if c.last.Seq > req.After.Seq {
		req.After, req.Anchor = chunk.Position{Seq: c.last.Seq}, c.last.Anchor
	}
	next, err := h.Subscribe(ctx, req)
	if err != nil {
		return err
	}
	c.Close()
	*c = *next
	return nil
}

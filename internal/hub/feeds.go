package hub

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/flight"
	"github.com/tailrace/tailrace/internal/wait"
)

// feeds has the feed of each scope that has clients, or had some within FeedLinger.
type feeds struct {
	tips flight.Group[int, chunk.Tip] // by partition: feeds that start at the same time share a request

	mu      sync.Mutex // guards the fields below
	byScope map[Scope]*follower
	run     func(*follower) // starts a feed; nil before Run and after its end
	ended   bool            // Run ends
	reached bool            // the end of each stream was read once

	atStart []*follower // those of Feed.AtStart, also when they have been retired
}

// acquire returns the feed of a scope with one more subscriber, nil when Run ends.
func (f *feeds) acquire(h *Hub, scope Scope) *follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return nil
	}
	p := f.byScope[scope]
	if p == nil {
		p = f.add(h, scope)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.demand++
	return p
}

// add adds the feed of a scope. The caller holds the lock, except in New.
func (f *feeds) add(h *Hub, scope Scope) *follower {
	p := &follower{hub: h, scope: scope, topics: make(map[key][]*topic), start: make(chan struct{})}
	f.byScope[scope] = p
	if f.run != nil {
		f.run(p)
	}
	return p
}

// begin starts the feeds that exist, and later ones when they are added.
func (f *feeds) begin(run func(*follower)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.run = run
	for _, p := range f.byScope {
		run(p)
	}
}

// end keeps new feeds from being started.
func (f *feeds) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.run, f.ended = nil, true
}

// retire ends a feed that has had no subscriber since then, and removes its topics, under the locks under which a subscriber announces itself: one that arrives
// later gets another feed, waits until that has a position, and its topic starts there. A feed of Feed.AtStart that was not open yet stays.
func (f *feeds) retire(p *follower, since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.mu.Lock()
	if p.demand > 0 || p.idle.After(since) || f.byScope[p.scope] != p || !p.wasOpen && slices.Contains(f.atStart, p) {
		p.mu.Unlock()
		return
	}
	delete(f.byScope, p.scope)
	old := p.reset()
	p.broken, p.isOpen = nil, false
	p.mu.Unlock()
	if p.cancel != nil {
		p.cancel()
	}
	dropAll(old, errTopicReplaced)
}

// all returns the present feeds.
func (f *feeds) all() []*follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.byScope))
}

// tip returns the end of a stream.
func (f *feeds) tip(ctx context.Context, h *Hub, partition int) (chunk.Tip, error) {
	return f.tips.Do(ctx, partition, 0, func(ctx context.Context) (chunk.Tip, error) { return h.log.Tip(ctx, partition) })
}

// reach reads the end of each stream once, so that Started finds out whether this process may, before it has clients.
func (f *feeds) reach(ctx context.Context, h *Hub) {
	var requests sync.WaitGroup
	for n := range h.cfg.Partitions {
		requests.Go(func() {
			for attempt := 1; ; attempt++ {
				_, err := f.tip(ctx, h, n)
				if err == nil || ctx.Err() != nil {
					return
				}
				h.cfg.Log.Warn("stream not reached", "partition", n, "error", err)
				if wait.Sleep(ctx, reachBackoff.Delay(attempt)) != nil {
					return
				}
			}
		})
	}
	requests.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reached = ctx.Err() == nil
}

var reachBackoff = wait.Backoff{First: 50 * time.Millisecond, Max: time.Second}

func (f *feeds) areStarted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reached && !slices.ContainsFunc(f.atStart, func(p *follower) bool { return !p.wasOpened() })
}

func (s Scope) String() string {
	if s.Root == (chunk.Session{}) {
		return fmt.Sprintf("partition %d", s.Partition)
	}
	return "root " + s.Root.String()
}

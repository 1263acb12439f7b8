package hub

import (
	"context"
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/wait"
)

// rootFeeds has the feeds of the roots that have clients, or had some within FeedLinger.
type rootFeeds struct {
	mu     sync.Mutex
	byRoot map[key]*partition
	run    func(*partition) // starts a feed; nil before Run and after its end

	tips    map[int]*tipRequest // in flight, by partition
	started bool                // the end of each stream was read once
}

// acquire returns the feed of a root with one more subscriber.
func (f *rootFeeds) acquire(h *Hub, n int, root chunk.Session) *partition {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := key{root.Tenant, root.Root}
	p := f.byRoot[k]
	if p == nil {
		p = newPartition(h, n)
		p.name, p.broken = "root "+root.String(), nil
		p.open = func(ctx context.Context, after chunk.Seq) iter.Seq2[codec.Stored, error] {
			return h.cfg.Roots.FeedRoot(ctx, root, after)
		}
		f.byRoot[k] = p
		if f.run != nil {
			f.run(p)
		}
	}
	p.acquire()
	return p
}

// begin starts the feeds that have subscribers already, and later ones when they get their first.
func (f *rootFeeds) begin(run func(*partition)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.run = run
	for _, p := range f.byRoot {
		run(p)
	}
}

// end keeps new feeds from being started.
func (f *rootFeeds) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.run = nil
}

// retire ends the feed of a root and removes its topics if it has had no subscriber since then.
func (f *rootFeeds) retire(p *partition, root key, since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.mu.Lock()
	if p.demand > 0 || p.idle.After(since) || f.byRoot[root] != p {
		p.mu.Unlock()
		return
	}
	delete(f.byRoot, root)
	old := p.reset()
	p.mu.Unlock()
	if p.cancel != nil {
		p.cancel()
	}
	dropAll(old, errTopicReplaced)
}

// retireIdle retires all feeds without subscribers since then.
func (f *rootFeeds) retireIdle(since time.Time) {
	for root, p := range f.all() {
		f.retire(p, root, since)
	}
}

// all yields the present feeds.
func (f *rootFeeds) all() iter.Seq2[key, *partition] {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.All(maps.Clone(f.byRoot))
}

// checkStreams reads the end of each stream once, so that Started finds out whether this process may, before it has clients.
func (f *rootFeeds) checkStreams(ctx context.Context, h *Hub) {
	for n := range h.cfg.Partitions {
		for attempt := 1; ; attempt++ {
			_, err := f.tip(ctx, h, n)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return
			}
			h.cfg.Log.Warn("stream not reached", "partition", n, "error", err)
			if wait.Sleep(ctx, checkBackoff.Delay(attempt)) != nil {
				return
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started = true
}

var checkBackoff = wait.Backoff{First: 50 * time.Millisecond, Max: time.Second}

func (f *rootFeeds) isStarted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.started
}

// tipRequest is a request for the end of a stream.
type tipRequest struct {
	done chan struct{} // closed when the fields below are set
	tip  chunk.Tip
	err  error
}

// tip returns the end of a stream. Feeds of roots that start at the same time share one request, and ask themselves if it failed.
func (f *rootFeeds) tip(ctx context.Context, h *Hub, n int) (chunk.Tip, error) {
	for {
		f.mu.Lock()
		r := f.tips[n]
		first := r == nil
		if first {
			r = &tipRequest{done: make(chan struct{})}
			f.tips[n] = r
		}
		f.mu.Unlock()
		if first {
			r.tip, r.err = h.feed.Tip(ctx, n)
			f.mu.Lock()
			delete(f.tips, n)
			f.mu.Unlock()
			close(r.done)
			return r.tip, r.err
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return chunk.Tip{}, ctx.Err()
		}
		if r.err == nil {
			return r.tip, nil
		}
	}
}

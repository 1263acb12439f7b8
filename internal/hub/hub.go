package hub

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/wait"
)

// Hub fans out the feeds of one node. Its methods are safe for concurrent use.
type Hub struct {
	log       Log
	feed      Feed
	cfg       Config
	feeds     feeds
	reading   chan struct{}  // one token per running read of the log
	clock     atomic.Int64   // seconds counted by sweep, coarse on purpose
	bytes     atomic.Int64   // memory of all segments
	shrinking sync.Mutex     // locked by the goroutine that evicts segments
	closed    chan struct{}  // closed shortly before Run returns
	readers   sync.WaitGroup // goroutines that read pages
	counters  counters
	malformed wait.Throttle // of the log lines
}

type counters struct {
	skipped, gaps, reads, evicted atomic.Int64
}

// New returns a Hub. Subscribe blocks until Run is called.
func New(log Log, feed Feed, cfg Config) (*Hub, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	h := &Hub{
		log:     log,
		feed:    feed,
		cfg:     cfg,
		feeds:   feeds{byScope: make(map[Scope]*follower)},
		reading: make(chan struct{}, cfg.MaxReads),
		closed:  make(chan struct{}),
	}
	for _, scope := range feed.AtStart() {
		p := h.feeds.add(h, scope)
		p.broken = errNotStarted
		h.feeds.atStart = append(h.feeds.atStart, p)
	}
	return h, nil
}

// Run follows the feeds until ctx ends, and then returns nil. It may be called once. It opens the feeds of Feed.AtStart once; after that a feed runs while its
// scope has cursors, and for Config.FeedLinger after the last one. A feed that fails is reopened at its last position; subscriptions stay open and wait. When
// Run returns, every Cursor fails with ErrClosed.
func (h *Hub) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { h.sweep(ctx) })
	running.Go(func() { h.feeds.reach(ctx, h) })
	h.feeds.begin(func(p *follower) {
		ctx, cancel := context.WithCancel(ctx)
		p.cancel = cancel
		running.Go(func() {
			defer cancel()
			p.run(ctx)
		})
	})
	<-ctx.Done()
	h.feeds.end()
	running.Wait()
	h.feeds.tips.Wait()
	close(h.closed)
	for _, p := range h.feeds.all() {
		p.abandon(ErrClosed) // no read is started after this
	}
	h.readers.Wait()
	return nil
}

// Ready returns nil if no feed has failed, else the reason why one is not open: until it is, its clients get no live records.
func (h *Hub) Ready() error {
	for _, p := range h.feeds.all() {
		if err := p.ready(); err != nil {
			return fmt.Errorf("%s: %w", p.scope, err)
		}
	}
	return nil
}

// Started reports whether the Hub has reached each stream, and each feed of Feed.AtStart has been open, at the same time or not.
func (h *Hub) Started() bool { return h.feeds.areStarted() }

// Request is what a client reads, and from which position.
type Request struct {
	Session  chunk.Session
	Scope    chunk.Scope
	Encoding string // a key of Config.Encodings, or empty for Config.Encode

	// After is the position of the last record that the client has, the zero Position for the start. A Seq without an
	// Ordinal is looked up in the log; with the Ordinal of Session's record the next record verifies it.
	After chunk.Position

	// Anchor is that of the record at After, 0 if it is unknown. A Seq with another record is invalid: the log was
	// rolled back.
	Anchor chunk.Anchor

	// StreamEpoch, if not empty, is the epoch of the stream in which After was read. After is invalid in any other
	// stream.
	StreamEpoch string

	// Await accepts the position of a snapshot, with its Ordinal, of which the log has no record any more: the cursor
	// waits for the next record.
	Await bool

	// KeepOpen is for a client that expects a run to start: Subscribe accepts a session that does not exist yet, at
	// the zero position, and the cursor does not end at the end of a complete session.
	KeepOpen bool

	Filter Filter
}

// Subscribe returns a cursor positioned after req.After. It returns chunk.ErrUnknownSession, ErrEnded if no record
// can follow, a *chunk.TruncatedError if the position cannot be served, ErrClosed, the error of ctx, or the error of
// the log. The caller must close the Cursor.
func (h *Hub) Subscribe(ctx context.Context, req Request) (*Cursor, error) {
	scope, err := h.scope(req.Session)
	if err != nil {
		return nil, err
	}
	if h.encode(req.Encoding) == nil {
		return nil, fmt.Errorf("unknown encoding %q", req.Encoding)
	}
	p := h.feeds.acquire(h, scope)
	if p == nil {
		return nil, ErrClosed
	}
	cur, err := p.subscribe(ctx, req)
	if err != nil {
		p.release()
		return nil, err
	}
	return cur, nil
}

// subscribe returns a cursor, after the feed has a position.
func (p *follower) subscribe(ctx context.Context, req Request) (*Cursor, error) {
	for {
		t, wait := p.watch(req.Session.Tree(), req.Encoding)
		if wait == nil {
			cur, err := t.subscribe(ctx, req)
			if err != nil {
				p.leave(t)
				return nil, err
			}
			return cur, nil
		}
		select {
		case <-wait:
		case <-p.hub.closed:
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// CheckCursor returns a *chunk.TruncatedError if the log does not have the record that a client of a tree claims to
// have seen, see Log.CheckCursor.
func (h *Hub) CheckCursor(ctx context.Context, s chunk.Session, after chunk.Cursor) error {
	_, err := h.log.CheckCursor(ctx, s, chunk.ScopeTree, after)
	return err
}

// Tip returns the end of the stream that s belongs to, as its leader knows it.
func (h *Hub) Tip(ctx context.Context, s chunk.Session) (chunk.Tip, error) {
	scope, err := h.scope(s)
	if err != nil {
		return chunk.Tip{}, err
	}
	return h.log.Tip(ctx, scope.Partition)
}

// encode returns the function of an encoding, or nil if the name is unknown.
func (h *Hub) encode(name string) Encode {
	switch name {
	case "":
		return h.cfg.Encode
	case RecordEncoding:
		return EncodeRecord
	}
	return h.cfg.Encodings[name]
}

func (h *Hub) scope(s chunk.Session) (Scope, error) {
	scope := h.feed.Scope(s)
	if n := scope.Partition; n < 0 || n >= h.cfg.Partitions {
		return Scope{}, fmt.Errorf("session %s: partition %d out of range, want less than %d", s, n, h.cfg.Partitions)
	}
	return scope, nil
}

// Stats are counters and gauges of a Hub, for metrics and tests.
type Stats struct {
	Feeds   int   // open feeds
	Topics  int   // roots in memory, watched or idle, counted once per encoding
	Cursors int   // open cursors
	Bytes   int64 // frames and their index, all topics together
	Reads   int64 // pages read from the log since the start
	Evicted int64 // segments evicted because of MaxMemory
	Gaps    int64 // gaps in the feed
	Skipped int64 // malformed messages of watched sessions
}

// Stats returns the current values.
func (h *Hub) Stats() Stats {
	s := Stats{
		Bytes:   h.bytes.Load(),
		Reads:   h.counters.reads.Load(),
		Evicted: h.counters.evicted.Load(),
		Gaps:    h.counters.gaps.Load(),
		Skipped: h.counters.skipped.Load(),
	}
	for _, p := range h.feeds.all() {
		p.count(&s)
	}
	return s
}

// sweep drops topics that were idle for IdleTTL, ends feeds that were idle for FeedLinger, and advances the clock that eviction compares segments by.
func (h *Hub) sweep(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			h.clock.Add(1)
			for _, p := range h.feeds.all() {
				p.forget(now.Add(-h.cfg.IdleTTL))
				h.feeds.retire(p, now.Add(-h.cfg.FeedLinger))
			}
		}
	}
}

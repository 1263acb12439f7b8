package hub

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Hub is the fan-out of one node. Its methods may be called from many goroutines.
type Hub struct {
	log        Log
	feed       Feed
	cfg        Config
	partitions []*partition
	reading    chan struct{}  // one token per read of the log that runs
	clock      atomic.Int64   // seconds of the sweeper, coarse on purpose
	bytes      atomic.Int64   // weight of all segments
	shrinking  sync.Mutex     // held by the one goroutine that makes room
	closed     chan struct{}  // closed when Run is about to return
	readers    sync.WaitGroup // goroutines that read pages
	counters   counters
}

type counters struct {
	skipped, holes, reads, evicted atomic.Int64
}

// New returns a Hub that serves nobody until Run is called.
func New(log Log, feed Feed, cfg Config) (*Hub, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	h := &Hub{
		log:     log,
		feed:    feed,
		cfg:     cfg,
		reading: make(chan struct{}, cfg.Reads),
		closed:  make(chan struct{}),
	}
	for n := range cfg.Partitions {
		h.partitions = append(h.partitions, newPartition(h, n))
	}
	return h, nil
}

// Run follows the feeds until ctx ends, and returns nil then. It is called once.
// A feed that breaks is opened again where it stood; subscriptions live on and
// wait. When Run returns, every Cursor fails with ErrClosed.
func (h *Hub) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for _, p := range h.partitions {
		running.Go(func() { p.run(ctx) })
	}
	running.Go(func() { h.sweep(ctx) })
	running.Wait()
	close(h.closed)
	for _, p := range h.partitions {
		p.abandon(ErrClosed) // and from now on nobody starts a read
	}
	h.readers.Wait()
	return nil
}

// Ready reports why the Hub cannot serve live readers at present: a feed that
// is not open. nil means that all feeds are.
func (h *Hub) Ready() error {
	for _, p := range h.partitions {
		if err := p.ready(); err != nil {
			return fmt.Errorf("partition %d: %w", p.n, err)
		}
	}
	return nil
}

// Request says what a client wants to read.
type Request struct {
	Session  chunk.Session
	Scope    chunk.Scope
	Encoding string // a name of Config.Encodings, or empty for Config.Encode

	// After is the last thing the client has, the zero Position for the
	// beginning. A Seq without Ordinal is a claim and is verified; with the
	// Ordinal of Session's record there it is proved by what follows.
	After chunk.Position

	// Epoch, if not empty, is the epoch of the stream in which After was read. In
	// any other it is no position.
	Epoch string

	// KeepOpen is for somebody who knows that a run is about to begin: a session
	// that does not exist yet is waited for, at the zero position, and one that is
	// complete is not the end.
	KeepOpen bool

	Filter Filter
}

// Subscribe puts a cursor behind req.After. Errors are chunk.ErrUnknownSession,
// ErrEnded when nothing can follow, a *chunk.TruncatedError when the position
// cannot be served, ErrClosed, the error of ctx, or that of a log which cannot
// be asked. The Cursor must be closed.
func (h *Hub) Subscribe(ctx context.Context, req Request) (*Cursor, error) {
	p, err := h.partition(req.Session)
	if err != nil {
		return nil, err
	}
	if h.encode(req.Encoding) == nil {
		return nil, fmt.Errorf("there is no encoding %q", req.Encoding)
	}
	for {
		t, wait := p.watch(req.Session.Tree(), req.Encoding)
		if wait == nil {
			cur, err := t.subscribe(ctx, req)
			if err != nil {
				p.leave(t, errors.Is(err, chunk.ErrUnknownSession))
				return nil, err
			}
			return cur, nil
		}
		select {
		case <-wait:
		case <-h.closed:
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// HasEncoding reports whether requests may name this encoding.
func (h *Hub) HasEncoding(name string) bool { return h.encode(name) != nil }

// encode is the function behind a name, nil when there is none.
func (h *Hub) encode(name string) Encode {
	if name == "" {
		return h.cfg.Encode
	}
	return h.cfg.Encodings[name]
}

func (h *Hub) partition(s chunk.Session) (*partition, error) {
	n := h.cfg.Partition(s)
	if n < 0 || n >= len(h.partitions) {
		return nil, fmt.Errorf("session %s is said to be in partition %d of %d", s, n, len(h.partitions))
	}
	return h.partitions[n], nil
}

// Stats is a picture of a Hub, for metrics and tests.
type Stats struct {
	Topics   int   // roots held in memory, watched or in their grace, once for each encoding
	Watchers int   // cursors that are open
	Bytes    int64 // frames and their places, all topics together
	Reads    int64 // pages read from the log since the start
	Evicted  int64 // segments dropped to make room
	Holes    int64 // times the feed left something out
	Skipped  int64 // messages of watched sessions that were no records
}

// Stats counts.
func (h *Hub) Stats() Stats {
	s := Stats{
		Bytes:   h.bytes.Load(),
		Reads:   h.counters.reads.Load(),
		Evicted: h.counters.evicted.Load(),
		Holes:   h.counters.holes.Load(),
		Skipped: h.counters.skipped.Load(),
	}
	for _, p := range h.partitions {
		topics, watchers := p.count()
		s.Topics += topics
		s.Watchers += watchers
	}
	return s
}

// sweep forgets topics that nobody came back for, and moves the clock by which
// segments are judged.
func (h *Hub) sweep(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			h.clock.Add(1)
			for _, p := range h.partitions {
				p.forget(now.Add(-h.cfg.Grace))
			}
		}
	}
}

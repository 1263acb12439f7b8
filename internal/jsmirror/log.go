package jsmirror

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/topology"
)

// Log is the log as the mirrors have it. Its methods may be called concurrently. Run compares the mirrors with home; before it has done so once, every method
// fails.
type Log struct {
	reader  *consumers.Reader // of the mirrors
	cfg     consumers.Config
	mirrors []*mirror // those of the partitions of the log first
}

var (
	_ hub.Log       = (*Log)(nil)
	_ hub.Feed      = (*Log)(nil)
	_ projector.Log = (*Log)(nil)
)

// New returns a Log over the mirrors in the domain of local of the streams in that of home. It does not call the servers. The error names the wrong field of cfg.
func New(local, home jetstream.JetStream, cfg consumers.Config) (*Log, error) {
	reader, err := consumers.New(local, cfg)
	if err != nil {
		return nil, err
	}
	if home == nil {
		return nil, errors.New("home is nil, want a JetStream")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	l := &Log{reader: reader, cfg: cfg}
	for _, name := range topology.Mirrored(cfg.Layout) {
		l.mirrors = append(l.mirrors, &mirror{name: name, local: jsclient.New(local), home: jsclient.New(home), log: cfg.Log, timeouts: defaultTimeouts})
	}
	return l, nil
}

// checkInterval is the time between two comparisons of Run: how long a session without new records is shown after home has another epoch, and how long records
// at home are not waited for after it has become reachable.
const checkInterval = 2 * time.Second

// Run compares the mirrors with home until ctx ends.
func (l *Log) Run(ctx context.Context) error {
	for {
		var rounds sync.WaitGroup
		for _, m := range l.mirrors {
			m.mu.Lock()
			r := m.join()
			m.mu.Unlock()
			rounds.Go(func() { <-r.done })
		}
		rounds.Wait() // also when ctx has ended: each takes seconds at most
		if err := wait.Sleep(ctx, checkInterval); err != nil {
			return err
		}
	}
}

// Usable returns why the mirrors cannot be read: one is of another history, or was not complete yet since the process started or the mirror was created. nil: they
// can, also while home cannot be reached.
func (l *Log) Usable() error {
	for _, m := range l.mirrors {
		if err := m.usable(); err != nil {
			return err
		}
	}
	return nil
}

// IsHomeLost reports whether home has responded to none of the last requests, so that a request that needs it would fail when its timeout is over.
func (l *Log) IsHomeLost() bool {
	for _, m := range l.mirrors {
		if !m.isLost() {
			return false
		}
	}
	return true
}

// of returns the mirror with the log of a session.
func (l *Log) of(s chunk.Session) *mirror { return l.mirrors[l.cfg.Layout.Partition(s)] }

// sync is mirror.sync, if all mirrors are usable.
func (l *Log) sync(ctx context.Context, m *mirror) (h *history, stale bool, err error) {
	if err := l.Usable(); err != nil {
		return nil, false, err
	}
	return m.sync(ctx)
}

// Tip implements hub.Feed. The end is that of the mirror, which is the end at home if home can be reached.
func (l *Log) Tip(ctx context.Context, partition int) (chunk.Tip, error) {
	m, err := l.mirrorOf(partition)
	if err != nil {
		return chunk.Tip{}, err
	}
	h, _, err := l.sync(ctx, m)
	if err != nil {
		return chunk.Tip{}, err
	}
	return chunk.Tip{Seq: chunk.Seq(m.confirmed(h)), StreamEpoch: h.epoch}, nil
}

func (l *Log) mirrorOf(p int) (*mirror, error) {
	if n := l.cfg.Layout.PartitionCount(); p < 0 || p >= n {
		return nil, &consumers.PartitionError{Partition: p, Count: n}
	}
	return l.mirrors[p], nil
}

// Feed implements hub.Feed. A message waits until it is confirmed. If home has another epoch, the feed ends with a *chunk.TruncatedError with the reason
// "recreated".
func (l *Log) Feed(ctx context.Context, partition int, after chunk.Seq) iter.Seq2[codec.Stored, error] {
	return func(yield func(codec.Stored, error) bool) {
		m, err := l.mirrorOf(partition)
		var h *history
		if err == nil {
			_, h, err = m.state(ctx)
		}
		if err != nil {
			yield(codec.Stored{}, err)
			return
		}
		feeding, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-h.ended:
				cancel()
			case <-feeding.Done():
			}
		}()
		for msg, err := range l.reader.Feed(feeding, partition, after) {
			if err == nil {
				err = m.confirmThrough(feeding, h, uint64(msg.Seq))
			}
			if err != nil {
				if ctx.Err() == nil && (h.hasEnded() || errors.Is(err, ErrOtherHistory)) {
					err = &chunk.TruncatedError{Reason: chunk.TruncatedRecreated, After: after}
				}
				yield(codec.Stored{}, err)
				return
			}
			if !yield(msg, nil) {
				return
			}
			after = msg.Seq
		}
	}
}

// Last implements hub.Log and projector.Log. While home cannot be reached, the error for a session of which the mirror has no record is hub.ErrBehind: home may have
// one.
func (l *Log) Last(ctx context.Context, s chunk.Session) (chunk.Record, error) {
	m := l.of(s)
	h, stale, err := l.sync(ctx, m)
	if err != nil {
		return chunk.Record{}, err
	}
	rec, err := l.reader.LastThrough(ctx, s, chunk.Seq(m.confirmed(h)))
	if stale && errors.Is(err, chunk.ErrUnknownSession) {
		err = fmt.Errorf("session %s is not in the mirror: %w", s, hub.ErrBehind)
	}
	return rec, err
}

// Replay implements hub.Log and projector.Log.
func (l *Log) Replay(ctx context.Context, of chunk.Range) iter.Seq2[chunk.Record, error] {
	return func(yield func(chunk.Record, error) bool) {
		bounded, err := l.bound(ctx, of)
		if err == nil {
			bounded, err = l.withoutRemoved(ctx, bounded)
		}
		if err != nil {
			yield(chunk.Record{}, err)
			return
		}
		for rec, err := range l.reader.Replay(ctx, bounded) {
			if !yield(rec, err) {
				return
			}
		}
	}
}

// bound returns a range that ends where the mirror is confirmed, or before.
func (l *Log) bound(ctx context.Context, of chunk.Range) (chunk.Range, error) {
	m := l.of(of.Session)
	known := l.known(m)
	if of.Through == 0 || of.Through > known || of.After.Seq > known {
		h, stale, err := l.sync(ctx, m)
		if err != nil {
			return of, err
		}
		if known = chunk.Seq(m.confirmed(h)); of.Through > known || stale && of.After.Seq > known {
			return of, fmt.Errorf("records after %d, up to %d: %w: it ends at %d", of.After.Seq, of.Through, ErrBehind, known)
		}
	}
	switch {
	case of.Through > 0:
	case known > 0:
		of.Through = known
	case of.After.Seq > 0: // the log at home is empty too
		return of, &chunk.TruncatedError{Session: of.Session, Reason: chunk.TruncatedFuture, After: of.After.Seq}
	default:
		return of, fmt.Errorf("session %s: %w", of.Session, chunk.ErrUnknownSession)
	}
	return of, nil
}

// known returns how far a mirror is confirmed, without a request; 0 if that is unknown.
func (l *Log) known(m *mirror) chunk.Seq {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.history; h != nil && h.complete && !h.other {
		return chunk.Seq(h.confirmed)
	}
	return 0
}

// reached waits until the mirror has a position, if home has it. It reports whether the mirror decides about the position: otherwise the position may be at home.
func (l *Log) reached(ctx context.Context, s chunk.Session, seq chunk.Seq) (bool, error) {
	m := l.of(s)
	if l.known(m) >= seq {
		return true, nil
	}
	h, stale, err := l.sync(ctx, m)
	if err != nil {
		return false, err
	}
	return !stale || chunk.Seq(m.confirmed(h)) >= seq, nil
}

// CheckCursor implements hub.Log. The cursor may be of a client that has read at home.
func (l *Log) CheckCursor(ctx context.Context, s chunk.Session, scope chunk.Scope, after chunk.Cursor) (chunk.Position, error) {
	decides, err := l.reached(ctx, s, after.Seq)
	switch {
	case err != nil:
		return chunk.Position{}, err
	case !decides:
		return chunk.Position{}, fmt.Errorf("cursor %s is not in the mirror: %w", after, hub.ErrBehind)
	}
	return l.reader.CheckCursor(ctx, s, scope, after)
}

// HasRecord implements projector.Log.
func (l *Log) HasRecord(ctx context.Context, s chunk.Session, at chunk.Position, anchor chunk.Anchor) (bool, error) {
	decides, err := l.reached(ctx, s, at.Seq)
	if err != nil || !decides {
		return false, err
	}
	return l.reader.HasRecord(ctx, s, at, anchor)
}

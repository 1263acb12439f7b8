// Package run copies the log into a store: it reads the records of all partitions after the positions that the store has, computes their rows, and commits them
// in batches, each together with its position. The position in the store is the only one: the server keeps none, and nothing is acknowledged.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/row"
	"github.com/tailrace/tailrace/subjects"
)

// Config shapes a Sink.
type Config struct {
	Layout subjects.Layout
	Store  row.Store

	// Tenant limits the sink to one tenant. Empty is all.
	Tenant string

	// FromNow makes a sink whose store has no position begin at the present end of the log. Otherwise it begins at the oldest record.
	FromNow bool

	// NoFollow ends Run when everything is stored that the log has when Run begins.
	NoFollow bool

	// Observe is the Config of the folders. Position is set for each.
	Observe observe.Config

	// Every and Bytes are the age and the size of the rows at which a batch is committed. They default to one second and 8 MiB. A batch also ends at midnight UTC.
	Every time.Duration
	Bytes int

	// Metrics, if not nil, gets what is stored.
	Metrics *Metrics

	// Log gets warnings and the progress of long work. Nil disables logging.
	Log *slog.Logger
}

// Sink copies the log into a store.
type Sink struct {
	cfg   Config
	log   *consumers.Reader // reads the records to store
	trees *consumers.Reader // reads the earlier records of trees
	parts []*partition

	client    *jsclient.Client // compares positions with the log
	snapshots *jssnapshots.Store
	stored    atomic.Uint64 // batches
	rows      atomic.Uint64 // of events and observations
	started   time.Time     // Run
	begun     time.Time     // the last attempt to copy
	later     time.Duration // is added to the time of the server in tests
	giveUp    time.Duration // after which a job that stores nothing ends
}

// New returns a Sink. It calls neither the server nor the store.
func New(js jetstream.JetStream, cfg Config) (*Sink, error) {
	cfg.Every, cfg.Bytes = cmp.Or(cfg.Every, time.Second), cmp.Or(cfg.Bytes, 8<<20)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.Metrics = cmp.Or(cfg.Metrics, &Metrics{})
	s := &Sink{cfg: cfg, client: jsclient.New(js), giveUp: time.Minute}
	for p := range cfg.Layout.PartitionCount() {
		s.parts = append(s.parts, &partition{sink: s, number: p})
	}
	var err error
	if s.snapshots, err = jssnapshots.New(js, jssnapshots.Config{Layout: cfg.Layout, Log: cfg.Log}); err != nil {
		return nil, err
	}
	if s.log, err = consumers.New(js, consumers.Config{Layout: cfg.Layout, Log: cfg.Log, OnMalformed: s.malformed}); err != nil {
		return nil, err
	}
	s.trees, err = consumers.New(js, consumers.Config{Layout: cfg.Layout, Log: cfg.Log, OnMalformed: func(consumers.Malformed) {}})
	return s, err
}

// The delay between two attempts to read the positions of the store.
const (
	minRetry = 100 * time.Millisecond
	maxRetry = 30 * time.Second
)

// silent is the time after which a wait for the store is logged.
const silent = 2 * time.Second

// Run copies until ctx ends, or with NoFollow until the end of the log. A store or a server that fails is tried again without end, and with NoFollow for a minute; the log keeps
// the records. The error is nil, or names what no retry has repaired.
func (s *Sink) Run(ctx context.Context) error {
	defer s.close()
	s.started = time.Now()
	progress := s.started
	delays := wait.Backoff{First: minRetry, Max: maxRetry, Jitter: true}
	for failed := 1; ; failed++ {
		before := s.stored.Load()
		err := s.copy(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			s.cfg.Log.Info("end of the log reached", slog.Uint64("rows", s.rows.Load()))
			return nil
		case errors.Is(err, errPermanent), errors.Is(err, row.ErrOtherTenant):
			return err
		case errors.Is(err, row.ErrConflict):
			s.cfg.Log.Warn("another process stores records", slog.Any("error", err))
			s.cfg.Metrics.forgetLag()
		default:
			s.cfg.Log.Error("copying failed, trying again", slog.Any("error", err))
			s.lagOnce(ctx) // it rises while the store is away
		}
		if s.stored.Load() > before {
			failed, progress = 1, time.Now()
		}
		if s.cfg.NoFollow && time.Since(progress) > s.giveUp {
			return err
		}
		if err := wait.Sleep(ctx, delays.Delay(failed)); err != nil {
			return nil
		}
	}
}

func (s *Sink) close() {
	if err := s.cfg.Store.Close(); err != nil {
		s.cfg.Log.Warn("closing the store failed", slog.Any("error", err))
	}
}

// errPermanent is an error that no retry can repair.
var errPermanent = errors.New("wrong setting")

// copy copies from the positions of the store on.
func (s *Sink) copy(ctx context.Context) error {
	s.begun = time.Now()
	waits := time.AfterFunc(silent, func() { s.cfg.Log.Info("waiting for the store: another process may be storing records") })
	positions, err := s.cfg.Store.Begin(ctx, len(s.parts))
	waits.Stop()
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Metrics.failed()
		}
		return fmt.Errorf("positions of the store: %w", err)
	}
	after := make([]consumers.PartitionPosition, len(s.parts))
	for i, p := range s.parts {
		if err := p.begin(ctx, positions[i]); err != nil {
			return err
		}
		after[i] = p.after()
	}
	if err := s.eraseMissed(ctx); err != nil {
		return err
	}
	firehose, err := s.log.Firehose(consumers.FirehoseConfig{Tenant: s.cfg.Tenant, After: after, NoFollow: s.cfg.NoFollow, OnGap: s.gap})
	if err != nil {
		return fmt.Errorf("%w: %w", errPermanent, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var loops sync.WaitGroup
	loops.Go(func() {
		if err := s.commitOld(ctx); err != nil {
			cancel(err)
		}
	})
	loops.Go(func() { s.observeLag(ctx) })
	err = firehose.Run(ctx, s.handle)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	cancel(nil)
	loops.Wait()
	if rest := s.commitRest(ctx); err == nil || errors.Is(err, context.Canceled) {
		err = rest
	}
	return err
}

// commitOld commits batches before they are older than Every, until ctx ends.
func (s *Sink) commitOld(ctx context.Context) error {
	interval := min(max(s.cfg.Every/4, 10*time.Millisecond), time.Second)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			for _, p := range s.parts {
				if err := p.commitIfOld(ctx, now.Add(interval)); err != nil {
					return err
				}
			}
		}
	}
}

// lastCommit is the time in which what was read is stored at the end.
const lastCommit = 10 * time.Second

// commitRest commits what was read.
func (s *Sink) commitRest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCommit)
	defer cancel()
	var first error
	for _, p := range s.parts {
		if err := p.commitAll(ctx); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (s *Sink) handle(ctx context.Context, rec chunk.Record) error {
	return s.parts[s.cfg.Layout.Partition(rec.Session)].handle(ctx, rec)
}

func (s *Sink) gap(_ context.Context, g consumers.Gap) error {
	s.parts[g.Partition].gap(g)
	return nil
}

// malformed is called by the goroutine that reads the partition.
func (s *Sink) malformed(m consumers.Malformed) {
	for _, p := range s.parts {
		if s.cfg.Layout.Stream(p.number) == m.Stream {
			p.malformed(m)
			return
		}
	}
}

package projector

import (
	"container/list"
	"context"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Runner folds the records of a Source and saves snapshots. Several Runners may process one partition at the same time: they
// repeat work of each other, but the result is the same.
type Runner struct {
	source Source
	store  Store
	log    Log
	cfg    Config
	stats  counters

	// The loop owns these fields; during a round each session belongs to one worker.
	sessions map[chunk.Session]*session
	recent   *list.List // of *session, most recently used first
	memory   int        // of all sessions
	unacked  int        // unacknowledged deliveries of all sessions
}

// Stats counts the events of a Runner.
type Stats struct {
	Delivered uint64 // records, including redeliveries
	Saved     uint64 // heads
	Conflicts uint64 // saves rejected because another writer had replaced the head
	Skipped   uint64 // records that could not be folded
	TooLarge  uint64 // saves rejected because the store could not hold the snapshot
	Failures  uint64 // attempts to process a session that failed and are retried
}

type counters struct {
	delivered, saved, conflicts, skipped, tooLarge, failures atomic.Uint64
}

// NewRunner returns a Runner. The error names the invalid field of cfg.
func NewRunner(source Source, store Store, log Log, cfg Config) (*Runner, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Runner{source: source, store: store, log: log, cfg: cfg, sessions: make(map[chunk.Session]*session), recent: list.New()}, nil
}

// Stats returns the current counts. It may be called at any time.
func (r *Runner) Stats() Stats {
	c := &r.stats
	return Stats{
		Delivered: c.delivered.Load(), Saved: c.saved.Load(), Conflicts: c.conflicts.Load(),
		Skipped: c.skipped.Load(), TooLarge: c.tooLarge.Load(), Failures: c.failures.Load(),
	}
}

// Run processes deliveries until ctx ends or the Source fails, and returns the reason. Errors of the Store or the Log do not
// end it: the sessions concerned are retried, and their deliveries stay unacknowledged. Before it returns, Run saves all
// sessions, for at most StallTimeout, and then releases the Source. Run can be called once.
func (r *Runner) Run(ctx context.Context) error {
	// The source must not pass deliveries to a loop that has ended, so it ends first; then the loop saves all sessions.
	feeding, stop := context.WithCancel(ctx)
	batches := make(chan []Delivery)
	ended := make(chan error, 1)
	var source sync.WaitGroup
	source.Go(func() {
		ended <- r.source.Run(feeding, func(ctx context.Context, batch []Delivery) error {
			select {
			case batches <- batch:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	defer r.source.Release(ctx)
	defer source.Wait()
	defer stop()
	return r.loop(ctx, batches, ended)
}

func (r *Runner) loop(ctx context.Context, batches <-chan []Delivery, ended <-chan error) error {
	timer := time.NewTimer(r.cfg.SaveAfter)
	defer timer.Stop()
	for {
		select {
		case batch := <-batches:
			r.handleBatch(ctx, batch)
		case <-timer.C:
			timer.Reset(r.saveDue(ctx))
		case err := <-ended:
			r.finish(ctx)
			return err
		}
	}
}

// handleBatch folds a batch, its sessions in parallel.
func (r *Runner) handleBatch(ctx context.Context, batch []Delivery) {
	r.stats.delivered.Add(uint64(len(batch)))
	var order []*session
	for _, d := range batch {
		s := r.session(d.Record.Session)
		if len(s.inbox) == 0 {
			order = append(order, s)
		}
		s.inbox = append(s.inbox, d)
	}
	r.forEach(ctx, order, (*session).process)
	if r.unacked > r.cfg.MaxUnsaved {
		r.forEach(ctx, r.dueSessions(math.MaxInt64), (*session).save)
	}
	r.evict(ctx)
}

// dueSessions returns the sessions whose next save is due within a time. Sessions that failed wait for their retry.
func (r *Runner) dueSessions(within time.Duration) []*session {
	var list []*session
	for _, s := range r.sessions {
		if wait, pending := s.wait(); pending && (wait <= 0 || wait <= within && s.failures == 0) {
			list = append(list, s)
		}
	}
	return list
}

// saveDue saves the sessions that are due, and returns the time until the next call.
func (r *Runner) saveDue(ctx context.Context) time.Duration {
	r.forEach(ctx, r.dueSessions(0), (*session).save)
	next := r.cfg.SaveAfter
	for _, s := range r.sessions {
		if wait, pending := s.wait(); pending {
			next = min(next, wait)
		}
	}
	return max(next, time.Millisecond)
}

// finish saves all sessions once more. ctx has usually ended by now.
func (r *Runner) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.StallTimeout)
	defer cancel()
	var dirty []*session
	for _, s := range r.sessions {
		if _, pending := s.wait(); pending {
			dirty = append(dirty, s)
		}
	}
	r.forEach(ctx, dirty, (*session).save)
}

// forEach calls do for the sessions, at most Parallel at the same time, and returns when all calls have returned.
func (r *Runner) forEach(ctx context.Context, sessions []*session, do func(*session, context.Context) error) {
	work := make(chan *session)
	var workers sync.WaitGroup
	for range min(r.cfg.Parallel, len(sessions)) {
		workers.Go(func() {
			for s := range work {
				r.attempt(ctx, s, do)
			}
		})
	}
	for _, s := range sessions {
		work <- s
	}
	close(work)
	workers.Wait()
	for _, s := range sessions {
		r.updateMemory(s)
	}
}

// attempt calls do for one session. If do fails, the next attempt loads the session again, and its deliveries stay
// unacknowledged.
func (r *Runner) attempt(ctx context.Context, s *session, do func(*session, context.Context) error) {
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	// Each folded record resets the timeout. Otherwise a session of a million records would exceed it and restart at its first
	// record indefinitely.
	stall := time.AfterFunc(r.cfg.StallTimeout, cancel)
	defer stall.Stop()
	s.fold.stepped = func() { stall.Reset(r.cfg.StallTimeout) }
	err := do(s, bounded)
	if err == nil {
		s.failures = 0
		return
	}
	s.fail()
	if ctx.Err() == nil {
		r.stats.failures.Add(1)
		r.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "session projection failed",
			slog.String("session", s.id.String()), slog.Int("failures", s.failures), slog.Any("error", err))
	}
}

// session returns the cached session and marks it as the most recently used one.
func (r *Runner) session(id chunk.Session) *session {
	if s := r.sessions[id]; s != nil {
		r.recent.MoveToFront(s.element)
		return s
	}
	s := &session{Runner: r, id: id}
	s.fold = applier{log: r.log, skipped: s.addDeadLetter, applied: r.cfg.Observe.Applied}
	s.element = r.recent.PushFront(s)
	r.sessions[id] = s
	return s
}

func (r *Runner) updateMemory(s *session) {
	r.memory -= s.memoryBytes
	s.memoryBytes = 0
	if s.loaded {
		s.memoryBytes = s.folder.MemoryBytes()
	}
	r.memory += s.memoryBytes
	r.unacked += len(s.unacked) - s.countedUnacked
	s.countedUnacked = len(s.unacked)
}

// evict removes the least recently used sessions while there are too many. A session with unacknowledged deliveries is saved
// first; if that fails it stays.
func (r *Runner) evict(ctx context.Context) {
	for e := r.recent.Back(); e != nil && (len(r.sessions) > r.cfg.MaxSessions || r.memory > r.cfg.MaxMemory); {
		s, _ := e.Value.(*session)
		e = e.Prev()
		if _, pending := s.wait(); pending && s.failures == 0 {
			r.forEach(ctx, []*session{s}, (*session).save)
		}
		if _, pending := s.wait(); !pending {
			r.memory -= s.memoryBytes
			r.recent.Remove(s.element)
			delete(r.sessions, s.id)
		}
	}
}

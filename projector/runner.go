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

// Runner folds what a Source delivers and saves it. Several Runners may work on
// one partition at the same time: they cost each other work and nothing else.
type Runner struct {
	source Source
	store  Store
	log    Log
	cfg    Config
	stats  counters

	// Of the loop; during a round each session belongs to one worker.
	sessions map[chunk.Session]*session
	recent   *list.List // of *session, the last used first
	weight   int        // of all sessions
	owed     int        // deliveries of all sessions that wait for a save
}

// Stats counts what a Runner did since it was made.
type Stats struct {
	Delivered uint64 // records, repeats included
	Saved     uint64 // heads
	Conflicts uint64 // saves that somebody else was faster with
	Skipped   uint64 // records that could not be folded
	TooLarge  uint64 // saves that the store could not hold
	Failures  uint64 // works on a session that failed and are tried again
}

type counters struct {
	delivered, saved, conflicts, skipped, tooLarge, failures atomic.Uint64
}

// NewRunner makes a Runner. The error names the field of cfg that is wrong.
func NewRunner(source Source, store Store, log Log, cfg Config) (*Runner, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Runner{source: source, store: store, log: log, cfg: cfg, sessions: make(map[chunk.Session]*session), recent: list.New()}, nil
}

// Stats may be called at any time.
func (r *Runner) Stats() Stats {
	c := &r.stats
	return Stats{
		Delivered: c.delivered.Load(), Saved: c.saved.Load(), Conflicts: c.conflicts.Load(),
		Skipped: c.skipped.Load(), TooLarge: c.tooLarge.Load(), Failures: c.failures.Load(),
	}
}

// Run works until ctx ends or the Source cannot go on, and returns why. Trouble
// with the Store or the Log does not end it: the sessions concerned are tried
// again, and their deliveries stay unacknowledged. At its end it saves what it
// has, as far as Patience allows. Run is called once.
func (r *Runner) Run(ctx context.Context) error {
	// The source must not take new deliveries into a loop that has ended, so it
	// ends first; then the loop saves what it has.
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
			r.take(ctx, batch)
		case <-timer.C:
			timer.Reset(r.due(ctx))
		case err := <-ended:
			r.finish(ctx)
			return err
		}
	}
}

// take folds a batch, the sessions in it side by side.
func (r *Runner) take(ctx context.Context, batch []Delivery) {
	r.stats.delivered.Add(uint64(len(batch)))
	var order []*session
	for _, d := range batch {
		s := r.session(d.Record.Session)
		if len(s.inbox) == 0 {
			order = append(order, s)
		}
		s.inbox = append(s.inbox, d)
	}
	r.each(ctx, order, (*session).work)
	if r.owed > r.cfg.Owed {
		r.each(ctx, r.waiting(math.MaxInt64), (*session).save)
	}
	r.evict(ctx)
}

// waiting are the sessions whose next save is due within a time. Those that
// failed before wait for their own.
func (r *Runner) waiting(within time.Duration) []*session {
	var list []*session
	for _, s := range r.sessions {
		if wait, waits := s.wait(); waits && (wait <= 0 || wait <= within && s.failures == 0) {
			list = append(list, s)
		}
	}
	return list
}

// due works on the sessions whose time has come, and says when to look again.
func (r *Runner) due(ctx context.Context) time.Duration {
	r.each(ctx, r.waiting(0), (*session).save)
	next := r.cfg.SaveAfter
	for _, s := range r.sessions {
		if wait, waits := s.wait(); waits {
			next = min(next, wait)
		}
	}
	return max(next, time.Millisecond)
}

// finish saves everything once more. The context is over by now, as a rule.
func (r *Runner) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.Patience)
	defer cancel()
	var dirty []*session
	for _, s := range r.sessions {
		if _, waits := s.wait(); waits {
			dirty = append(dirty, s)
		}
	}
	r.each(ctx, dirty, (*session).save)
}

// each lets do work on sessions, at most Parallel at the same time, and returns
// when all are done.
func (r *Runner) each(ctx context.Context, sessions []*session, do func(*session, context.Context) error) {
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
		r.weigh(s)
	}
}

// attempt is one work on a session. When it fails the session is loaded anew
// at the next one, and what it owes stays owed.
func (r *Runner) attempt(ctx context.Context, s *session, do func(*session, context.Context) error) {
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	// Each record that is folded renews the patience: a session of a million
	// records takes longer, and would begin at its first one again and again.
	patience := time.AfterFunc(r.cfg.Patience, cancel)
	defer patience.Stop()
	s.fold.stepped = func() { patience.Reset(r.cfg.Patience) }
	err := do(s, bounded)
	if err == nil {
		s.failures = 0
		return
	}
	s.fail()
	if ctx.Err() == nil {
		r.stats.failures.Add(1)
		r.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "a session could not be projected; trying again",
			slog.String("session", s.id.String()), slog.Int("failures", s.failures), slog.Any("error", err))
	}
}

// session is the session in memory, made the most recent one.
func (r *Runner) session(id chunk.Session) *session {
	if s := r.sessions[id]; s != nil {
		r.recent.MoveToFront(s.place)
		return s
	}
	s := &session{Runner: r, id: id}
	s.fold = folder{log: r.log, skipped: s.bury, applied: r.cfg.Metrics.appliedOne}
	s.place = r.recent.PushFront(s)
	r.sessions[id] = s
	return s
}

func (r *Runner) weigh(s *session) {
	r.weight -= s.weight
	s.weight = 0
	if s.loaded {
		s.weight = s.snap.Weight()
	}
	r.weight += s.weight
	r.owed += len(s.owed) - s.counted
	s.counted = len(s.owed)
}

// evict lets the least recently used sessions go while there are too many. One
// that still owes an acknowledgement is saved before; if that fails it stays.
func (r *Runner) evict(ctx context.Context) {
	for e := r.recent.Back(); e != nil && (len(r.sessions) > r.cfg.Sessions || r.weight > r.cfg.Memory); {
		s, _ := e.Value.(*session)
		e = e.Prev()
		if _, waits := s.wait(); waits && s.failures == 0 {
			r.each(ctx, []*session{s}, (*session).save)
		}
		if _, waits := s.wait(); !waits {
			r.weight -= s.weight
			r.recent.Remove(s.place)
			delete(r.sessions, s.id)
		}
	}
}

package projector

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/wait"
)

// Runner folds the records of a Source and saves snapshots. Its sessions are independent: a session that is slow or cannot be
// saved does not delay another one. Several Runners may process one partition at the same time: they repeat work of each other,
// but the result is the same.
type Runner struct {
	source Source
	store  Store
	log    Log
	cfg    Config
	stats  counters
	skips  wait.Throttle // of the log lines for skipped records
	budget *budgetUser

	// The loop owns these fields.
	sessions map[chunk.Session]*session
	recent   *list.List    // of *session, most recently used first
	ready    []*session    // waiting for one of Parallel attempts to end
	running  int           // attempts
	done     chan *session // an attempt has ended
	unacked  int           // unacknowledged deliveries of all sessions
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
	budget := cfg.Budget
	if budget == nil {
		var err error
		if budget, err = NewBudget(cfg.MaxSessions, cfg.MaxMemory); err != nil {
			return nil, err
		}
	}
	return &Runner{
		source: source, store: store, log: log, cfg: cfg, budget: budget.newUser(),
		sessions: make(map[chunk.Session]*session), recent: list.New(), done: make(chan *session),
	}, nil
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
	r.budget.join()
	defer r.budget.leave()
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
	// Attempts that run when ctx ends may finish.
	working, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	timer, due := time.NewTimer(r.cfg.SaveAfter), time.Now().Add(r.cfg.SaveAfter)
	defer timer.Stop()
	wakeIn := func(d time.Duration) {
		due = time.Now().Add(d)
		timer.Reset(d)
	}
	for {
		select {
		case batch := <-batches:
			r.accept(working, batch)
		case s := <-r.done:
			r.attemptEnded(working, s)
			if s.state != idle {
				continue // the next attempt runs already
			}
			if wait, pending := s.wait(); pending && wait < time.Until(due) {
				wakeIn(max(wait, time.Millisecond)) // it failed, and its retry is due earlier than any save
			}
		case <-timer.C:
			wakeIn(r.scheduleDue(working))
		case <-r.budget.wake:
			r.evict(working, false)
		case err := <-ended:
			r.finish(working, cancel)
			return err
		}
	}
}

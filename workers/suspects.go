package workers

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// suspects decides when a suspect run may run in this process. A run is suspect from the loss of its worker to its next
// committed step: it may have crashed that worker, and may crash this one too. A suspect run is started while no other
// one runs in this process, and waits before it writes anything. Without it:
//  1. Run A crashes worker 1, which also has run B. Worker 2 takes both over.
//  2. Run A crashes worker 2, then worker 3 and worker 4, and run B loses its step each time.
//  3. Run B has lost as many workers as run A, and fails with it.
//
// The wait is limited, because the dead worker may have been killed, and its runs may have long steps: they must not run one
// after the other. After firstWait they are started one per interval. If one of them has lost several workers in its step, a
// kill is less likely, and the limit is repeatedWait.
type suspects struct {
	firstWait, repeatedWait, interval time.Duration

	mu        sync.Mutex // guards everything below
	running   int
	repeated  int           // those of running that lost several workers in their step
	startedAt time.Time     // of the latest
	changed   chan struct{} // closed and replaced when a run starts or is no longer suspect
}

func newSuspects() *suspects {
	return &suspects{firstWait: 10 * time.Second, repeatedWait: 2 * time.Minute, interval: time.Second, changed: make(chan struct{})}
}

// start returns nil if a suspect run that has waited since a time may start now. Otherwise it returns the reason to try
// again: a change, or the end of a delay. repeated reports a run that lost several workers in its step. After a start the
// caller calls end with the same value.
func (s *suspects) start(waitingSince time.Time, repeated bool) (changed <-chan struct{}, delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.running > 0 {
		limit := s.firstWait
		if repeated || s.repeated > 0 {
			limit = s.repeatedWait
		}
		at := waitingSince.Add(limit)
		if next := s.startedAt.Add(s.interval); next.After(at) {
			at = next
		}
		if delay := at.Sub(now); delay > 0 {
			return s.changed, delay
		}
	}
	s.startedAt = now
	s.change(1, repeated)
	return nil, 0
}

func (s *suspects) end(repeated bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(-1, repeated)
}

func (s *suspects) change(by int, repeated bool) {
	s.running += by
	if repeated {
		s.repeated += by
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until the suspect run may start, or ctx ends.
func (s *suspects) await(ctx context.Context, waitingSince time.Time, repeated bool) error {
	for {
		changed, delay := s.start(waitingSince, repeated)
		if changed == nil {
			return nil
		}
		expired := time.NewTimer(delay)
		select {
		case <-changed:
		case <-expired.C:
		case <-ctx.Done():
		}
		expired.Stop()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// awaitSuspect waits until the suspect run of the command may start. release ends its suspicion, and may be called more
// than once. A stop request ends the wait: the run is then ended before its agent is called.
func (j *commandJob) awaitSuspect(repeated bool) (release func(), err error) {
	s, since := j.w.suspects, time.Now()
	release = sync.OnceFunc(func() { s.end(repeated) })
	if changed, _ := s.start(since, repeated); changed == nil {
		return release, nil
	}
	log := j.w.cfg.Log.With("session", j.cmd.Session.String(), "run", j.cmd.RunID)
	log.InfoContext(j.serveCtx, "takeover delayed by another run")
	ctx, cancel := context.WithCancel(j.serveCtx)
	defer cancel()
	check := func(bool) (ended bool) {
		switch _, stopped, err := j.w.inbox.StopRequest(ctx, j.cmd.Session, j.cmd.RunID); {
		case err != nil && ctx.Err() == nil:
			log.WarnContext(ctx, "stop request not read", "error", err)
		case err == nil && stopped:
			cancel()
		}
		return ctx.Err() != nil
	}
	unwatch, err := j.w.watchStop(j.cmd, check)
	if err != nil {
		return nil, err
	}
	check(false)
	err = s.await(ctx, since, repeated)
	cancel()
	unwatch()
	switch {
	case err == nil:
		return release, nil
	case j.serveCtx.Err() != nil:
		return nil, fmt.Errorf("run %s: %w", j.cmd.RunID, ErrStopping)
	}
	return func() {}, nil
}

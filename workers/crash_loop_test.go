package workers

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/projector/fold"
)

// crashingWorker serves agents with the limit of takeovers. crash kills the worker as a crash does, and does not return
// before the context ends.
func (w *env) crashingWorker(agents func(crash func(context.Context) error) map[string]Agent) *process {
	w.t.Helper()
	var p *process
	killed := make(chan struct{})
	p = w.worker(agents(func(ctx context.Context) error {
		<-killed // p is set
		p.Kill()
		<-ctx.Done()
		return ctx.Err()
	}))
	p.cfg.MaxTakeovers, p.restart = defaultMaxTakeovers, wait.Backoff{First: time.Millisecond, Max: time.Millisecond}
	close(killed)
	return w.serve(p)
}

// A run that crashes its worker fails after the third takeover in the same step; it does not crash one worker after
// another.
func TestCrashLoop(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "poison", "Hello?")
	var calls atomic.Int64
	for range 6 {
		w.crashingWorker(func(crash func(context.Context) error) map[string]Agent {
			return map[string]Agent{"poison": oneStep(func(ctx context.Context, _ *Turn, s *Step) error {
				calls.Add(1)
				if err := s.Text(ctx, "I am about to "); err != nil {
					return err
				}
				return crash(ctx)
			})}
		})
	}
	w.Request(c)
	snap := w.AwaitStatus(c.Session, fold.Failed)
	if code := *snap.Failure.Detail.Code; code != CodeRunCrashed {
		t.Errorf("code %s, want %s", code, CodeRunCrashed)
	}
	if n := calls.Load(); n != 1+defaultMaxTakeovers {
		t.Errorf("%d workers crashed, want %d", n, 1+defaultMaxTakeovers)
	}
	w.awaitNoCommand(c)
}

// A committed step resets the count: a run that makes progress is not failed, however many workers it has.
func TestCrashAfterEachStep(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "unlucky", "Hello?")
	const steps = 6
	for range steps {
		w.crashingWorker(func(crash func(context.Context) error) map[string]Agent {
			return map[string]Agent{"unlucky": AgentFunc(func(ctx context.Context, turn *Turn) error {
				err := turn.Step(ctx, func(ctx context.Context, s *Step) error { return s.Text(ctx, "one more ") })
				if err != nil || turn.Steps() == steps {
					return err
				}
				return crash(ctx)
			})}
		})
	}
	w.Request(c)
	if snap := w.AwaitStatus(c.Session, fold.Ended); snap.Run.Step != steps {
		t.Errorf("%d steps, want %d", snap.Run.Step, steps)
	}
}

// Of two runs that were taken over before in their steps, one runs in a process at a time: the other writes nothing
// before, so a crash of the first does not count against it.
func TestSuspectsRunOneAtATime(t *testing.T) {
	w := newEnv(t)
	var running, most, calls atomic.Int64
	agent := func(crash func(context.Context) error) map[string]Agent {
		return map[string]Agent{"suspect": oneStep(func(ctx context.Context, _ *Turn, s *Step) error {
			if calls.Add(1) <= 4 { // two runs in each of two workers
				return crash(ctx)
			}
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			for range 20 { // the other run is given time to start
				if err := s.Text(ctx, "word "); err != nil {
					return err
				}
				if _, err := s.turn.run.Flush(ctx); err != nil {
					return err
				}
			}
			return nil
		})}
	}
	first, second := execute(uniqueName("s"), "suspect", "Hello?"), execute(uniqueName("s"), "suspect", "Hello?")
	w.Request(first)
	w.Request(second)
	w.crashTwice(&calls, agent)
	w.crashingWorker(agent)
	for _, c := range []control.Command{first, second} {
		w.AwaitStatus(c.Session, fold.Ended)
	}
	if most.Load() != 1 {
		t.Errorf("%d suspect runs at a time, want 1", most.Load())
	}
}

// A run that was taken over before holds up the other suspect runs of the process only until its next committed step.
func TestSuspectUntilItsNextStep(t *testing.T) {
	w := newEnv(t)
	var crashes atomic.Int64
	second := make(chan struct{})
	agent := func(crash func(context.Context) error) map[string]Agent {
		return map[string]Agent{
			"first": AgentFunc(func(ctx context.Context, turn *Turn) error {
				step := func(ctx context.Context, s *Step) error { return s.Text(ctx, "word ") }
				if crashes.Load() >= 4 {
					if err := turn.Step(ctx, step); err != nil {
						return err
					}
					select {
					case <-second:
					case <-ctx.Done():
						return ctx.Err()
					}
					return turn.Step(ctx, step)
				}
				crashes.Add(1)
				return crash(ctx)
			}),
			"second": oneStep(func(ctx context.Context, _ *Turn, s *Step) error {
				if crashes.Load() >= 4 {
					close(second)
					return s.Text(ctx, "word ")
				}
				crashes.Add(1)
				return crash(ctx)
			}),
		}
	}
	runs := []control.Command{execute(uniqueName("s"), "first", "Hello?"), execute(uniqueName("s"), "second", "Hello?")}
	for _, c := range runs {
		w.Request(c)
	}
	w.crashTwice(&crashes, agent)
	w.crashingWorker(agent)
	begin := time.Now()
	for _, c := range runs {
		w.AwaitStatus(c.Session, fold.Ended)
	}
	if took := time.Since(begin); took >= maxSuspectWait {
		t.Errorf("the runs took %s, want less than the %s that a suspect run waits at most", took, maxSuspectWait)
	}
}

// crashTwice serves both runs of a test with two workers, one after the other, of which each crashes with both runs.
func (w *env) crashTwice(crashes *atomic.Int64, agents func(crash func(context.Context) error) map[string]Agent) {
	w.t.Helper()
	for range 2 {
		p := w.crashingWorker(func(crash func(context.Context) error) map[string]Agent {
			return agents(func(ctx context.Context) error {
				for crashes.Load()%2 != 0 {
					if err := wait.Sleep(ctx, time.Millisecond); err != nil {
						return err
					}
				}
				return crash(ctx)
			})
		})
		natstest.Eventually(w.t, "the worker to crash", func(context.Context) error {
			if !p.JS.Conn().IsClosed() {
				return errors.New("it runs")
			}
			return nil
		})
		p.Stop()
	}
}

package workers

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

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

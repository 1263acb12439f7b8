package workers

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/projector/fold"
)

// A suspect run starts alone; the others wait for a limited time, and then start one by one.
func TestSuspectsWait(t *testing.T) {
	const first, later = false, true
	for name, test := range map[string]struct {
		running []bool        // started at 0 s, each repeated or not
		ends    time.Duration // of the latest of running; 0 is never
		waiting []bool
		want    time.Duration // start of the latest of waiting
	}{
		"no other run":                            {nil, 0, []bool{first}, 0},
		"the other one commits its step":          {[]bool{first}, 3 * time.Second, []bool{first}, 3 * time.Second},
		"a long step":                             {[]bool{first}, 0, []bool{first}, 10 * time.Second},
		"a long step of one of two":               {[]bool{first, first}, 3 * time.Second, []bool{first}, 10 * time.Second},
		"three wait for a long step":              {[]bool{first}, 0, []bool{first, first, first}, 12 * time.Second},
		"the other one has lost several workers":  {[]bool{later}, 0, []bool{first}, 2 * time.Minute},
		"the run has lost several workers":        {[]bool{first}, 0, []bool{later}, 2 * time.Minute},
		"its step was committed within that time": {[]bool{later}, time.Minute, []bool{later}, time.Minute},
		"that of one of two":                      {[]bool{first, later}, 30 * time.Second, []bool{first}, 30 * time.Second},
		"a killed worker had 64 runs":             {[]bool{first}, 0, make([]bool, 63), 72 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, begin := newSuspects(), time.Now()
				for _, repeated := range test.running {
					s.startedAt = time.Time{}
					s.change(1, repeated)
				}
				done := make(chan time.Duration)
				for _, repeated := range test.waiting {
					go func() {
						if err := s.await(t.Context(), begin, repeated); err != nil {
							t.Error(err)
						}
						done <- time.Since(begin)
					}()
				}
				if test.ends > 0 {
					time.Sleep(test.ends)
					s.end(test.running[len(test.running)-1])
				}
				var got time.Duration
				for range test.waiting {
					got = max(got, <-done)
				}
				if got != test.want {
					t.Errorf("started after %s, want %s", got, test.want)
				}
			})
		})
	}
}

// eventLog records which sessions have logged an event.
type eventLog struct {
	slog.Handler

	event string
	seen  chan<- string // sessions
	attrs []slog.Attr
}

func (l eventLog) Enabled(context.Context, slog.Level) bool { return true }

func (l eventLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	l.attrs = append(slices.Clip(l.attrs), attrs...)
	return l
}

func (l eventLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message != l.event {
		return nil
	}
	for _, a := range l.attrs {
		if a.Key == "session" {
			l.seen <- a.Value.String()
		}
	}
	return nil
}

// delayed returns a channel with the sessions whose takeover waits in p.
func (p *process) delayed() <-chan string {
	seen := make(chan string, 100)
	p.cfg.Log = slog.New(eventLog{Handler: slog.DiscardHandler, event: "takeover delayed by another run", seen: seen})
	return seen
}

// pair are two runs of one worker: the agent "poison" crashes each worker that takes it, and "innocent" does not.
type pair struct {
	poison, innocent control.Command
	calls            atomic.Int64 // of the poisoned agent
}

// serve serves both runs in a new worker. A run is in its step until the other one is in its step as well, or waits, or has
// ended; then the poisoned one crashes the worker. If the innocent one shares the process with it, it loses its step. If it
// has committed its step before the poisoned one began, that waits for its end: between the two it would be taken over again.
func (r *pair) serve(w *env) *process {
	var p *process
	var delayed <-chan string
	poisonInStep, innocentInStep, innocentCommits := make(chan struct{}), make(chan struct{}), make(chan struct{})
	p = w.worker(map[string]Agent{
		"poison": oneStep(func(ctx context.Context, _ *Turn, s *Step) error {
			r.calls.Add(1)
			close(poisonInStep)
			if err := s.Text(ctx, "I am about to "); err != nil {
				return err
			}
			select {
			case <-innocentInStep:
			case <-delayed:
			case <-w.over(ctx, r.innocent.Session):
			}
			select {
			case <-innocentCommits:
				<-w.over(ctx, r.innocent.Session)
			default:
			}
			p.Kill()
			<-ctx.Done()
			return ctx.Err()
		}),
		"innocent": oneStep(func(ctx context.Context, _ *Turn, s *Step) error {
			close(innocentInStep)
			if err := s.Text(ctx, "Fine."); err != nil {
				return err
			}
			select {
			case <-delayed:
				close(innocentCommits)
				return nil
			case <-w.over(ctx, r.poison.Session):
				return nil
			case <-poisonInStep:
			case <-ctx.Done():
			}
			<-ctx.Done() // the poisoned one is in this process
			return ctx.Err()
		}),
	})
	p.cfg.MaxTakeovers, p.restart = defaultMaxTakeovers, wait.Backoff{First: time.Millisecond, Max: time.Millisecond}
	p.cfg.ShutdownTimeout = Off // its agents end with its connection
	delayed = p.delayed()
	return w.serve(p)
}

// over returns a channel that is closed when a session has ended or failed, or ctx has ended.
func (w *env) over(ctx context.Context, s chunk.Session) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		defer close(over)
		for wait.Sleep(ctx, 10*time.Millisecond) == nil {
			snap, err := w.Reader.Snapshot(ctx, s)
			if err == nil && (snap.Status == fold.Ended || snap.Status == fold.Failed) {
				return
			}
		}
	}()
	return over
}

// A run crashes each worker that takes it. The other run of its first worker is taken over once: in later workers one of
// the two waits until the other one has crashed the worker or has committed its step.
func TestInnocentRunIsHurtOnce(t *testing.T) {
	w := newEnv(t)
	r := &pair{poison: execute(uniqueName("s"), "poison", "Hello?"), innocent: execute(uniqueName("s"), "innocent", "Hello?")}
	w.Request(r.poison)
	w.Request(r.innocent)
	for range 1 + defaultMaxTakeovers {
		p := r.serve(w)
		natstest.Eventually(t, "the worker to crash", func(context.Context) error {
			if !p.JS.Conn().IsClosed() {
				return errors.New("it runs")
			}
			return nil
		})
		p.Stop()
	}
	r.serve(w)
	if snap := w.AwaitStatus(r.poison.Session, fold.Failed); *snap.Failure.Detail.Code != CodeRunCrashed {
		t.Errorf("code %s, want %s", *snap.Failure.Detail.Code, CodeRunCrashed)
	}
	over := w.Await(r.innocent.Session, "the end of the other run", func(snap fold.Snapshot) bool { return snap.Status != fold.Active })
	if over.Status != fold.Ended {
		t.Errorf("the other run is %s, want ended", over.Status)
	}
	if n := r.calls.Load(); n != 1+defaultMaxTakeovers {
		t.Errorf("%d workers crashed, want %d", n, 1+defaultMaxTakeovers)
	}
	if n := w.takeovers(r.innocent.Session); n > 1 {
		t.Errorf("%d takeovers of the other run, want at most 1", n)
	}
}

// takeovers returns the number of takeovers in the log of a session.
func (w *env) takeovers(s chunk.Session) (n int) {
	w.t.Helper()
	for _, b := range w.Bodies(s) {
		if started, ok := b.(chunk.RunStarted); ok && started.Mode == modeTakeover {
			n++
		}
	}
	return n
}

// A suspect run holds up the others of the process only until its next committed step.
func TestSuspectUntilItsNextStep(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "two", "Hello?")
	w.crashIn(c, 1)
	var p *process
	p = w.worker(twoSteps(2, func() {
		if changed, _ := p.suspects.start(time.Now(), true); changed != nil {
			t.Error("suspect after its committed step")
		}
	}))
	p.cfg.MaxTakeovers = defaultMaxTakeovers
	_ = p.do(t.Context(), c) // its second step fails
	if n := w.takeovers(c.Session); n != 1 {
		t.Errorf("%d takeovers, want 1", n)
	}
}

// waitingRun is a suspect run that waits for another one. The channel has the result of its command.
func (w *env) waitingRun(ctx context.Context) (c control.Command, result <-chan error) {
	w.t.Helper()
	c = execute(uniqueName("s"), "two", "Hello?")
	w.crashIn(c, 1)
	p := w.worker(map[string]Agent{"two": AgentFunc(func(context.Context, *Turn) error {
		w.t.Error("the agent was called")
		return nil
	})})
	p.cfg.MaxTakeovers = defaultMaxTakeovers
	delayed := p.delayed()
	p.suspects.start(time.Now(), false)
	done := make(chan error, 1)
	go func() { done <- p.handle(ctx, c) }()
	<-delayed
	return c, done
}

// A stop request ends a run that waits for another one; its agent is not called.
func TestStopOfWaitingRun(t *testing.T) {
	w := newEnv(t)
	c, done := w.waitingRun(t.Context())
	w.stop(c.Session, c.RunID, control.StopInterrupt)
	if err := <-done; err != nil {
		t.Error(err)
	}
	w.AwaitStatus(c.Session, fold.Paused)
}

// A run that waits for another one at a shutdown has written nothing.
func TestShutdownOfWaitingRun(t *testing.T) {
	w := newEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	c, done := w.waitingRun(ctx)
	before := len(w.Records(c.Session))
	cancel()
	if err := <-done; !errors.Is(err, ErrStopping) {
		t.Errorf("err = %v, want ErrStopping", err)
	}
	if after := len(w.Records(c.Session)); after != before {
		t.Errorf("the session grew from %d to %d records", before, after)
	}
}

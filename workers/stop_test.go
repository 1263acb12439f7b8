package workers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/projector/fold"
)

// endlessAgent writes text in one step until it is stopped.
func endlessAgent(started chan<- struct{}) Agent {
	return oneStep(func(ctx context.Context, _ *Turn, s *Step) error {
		if err := errors.Join(s.Text(ctx, "Once upon a time"), s.Tool("c", "search").Args(ctx, `{"q`)); err != nil {
			return err
		}
		open := s.Tool("d", "search")
		if err := open.Start(ctx, map[string]any{}); err != nil {
			return err
		}
		started <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	})
}

// A stop request takes effect in the middle of a step. The output is kept; every call has an outcome.
func TestStopDuringStep(t *testing.T) {
	for kind, test := range map[control.StopKind]struct {
		status fold.Status
		run    fold.RunStatus
		types  string
	}{
		control.StopInterrupt: {fold.Paused, fold.RunInterrupted, "tool_input_error tool_end step_end checkpoint_created step_committed suspension_marker run_interrupted stream_end"},
		control.StopAbort:     {fold.Failed, fold.RunFailed, "tool_input_error tool_end stream_failed"},
	} {
		t.Run(string(kind), func(t *testing.T) {
			w := newEnv(t)
			c := execute(uniqueName("s"), "endless", "A story!")
			started := make(chan struct{}, 1)
			w.serve(w.worker(map[string]Agent{"endless": endlessAgent(started)}))
			w.Request(c)
			<-started
			begin := time.Now()
			w.stop(c.Session, "r1", kind)
			snap := w.AwaitStatus(c.Session, test.status)
			t.Logf("it took %s", time.Since(begin).Round(time.Millisecond))
			if snap.Run.Status != test.run || len(snap.OpenCalls()) > 0 || len(snap.Pending) > 0 {
				t.Errorf("run %s, open calls %+v, pending %+v", snap.Run.Status, snap.OpenCalls(), snap.Pending)
			}
			if kind == control.StopAbort && *snap.Failure.Detail.Code != CodeAborted {
				t.Errorf("failure %+v", snap.Failure)
			}
			if got := transcript(snap); !strings.Contains(got, "Once upon a time") {
				t.Errorf("output missing:\n%s", got)
			}
			if got := types(w.Bodies(c.Session)); !strings.HasSuffix(got, test.types) {
				t.Errorf("records %s, want suffix %s", got, test.types)
			}
		})
	}
}

func (w *env) stop(s chunk.Session, run string, kind control.StopKind) {
	w.t.Helper()
	if err := w.Inbox.Stop(w.t.Context(), control.Stop{Session: s, RunID: run, Kind: kind, Reason: "enough"}); err != nil {
		w.t.Fatal(err)
	}
}

// A run in the queue, or a suspended one with its sub-agents, can be stopped as well.
func TestStopAtAnyTime(t *testing.T) {
	random := seedtest.Rand(t)
	w := newEnv(t)
	w.maxDelta = 1
	agents := mixedAgent(4, &effectCounter{})
	for range 2 {
		w.serve(w.worker(agents))
	}
	for i := range 16 {
		kind := []control.StopKind{control.StopInterrupt, control.StopAbort}[i%2]
		c := execute(uniqueName("s"), "talker", "Talk!")
		c.RunID = uniqueName("r")
		after := random.IntN(60)
		fired := w.after(c.Session, after)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		if after == 0 {
			w.stop(c.Session, c.RunID, kind)
		}
		w.Request(c)
		if after%2 == 0 {
			go w.answerRequests(ctx, c.Session, "talker")
		}
		select {
		case <-fired:
		case <-w.awaitPause(ctx, c.Session):
		}
		snap := w.Await(c.Session, "to begin", func(snap fold.Snapshot) bool { return snap.Run.ID != "" })
		w.stop(c.Session, snap.Run.ID, kind)
		snap = w.awaitStopped(ctx, c.Session, kind)
		cancel()
		what := fmt.Sprintf("%s after %d messages", kind, after)
		switch {
		case snap.Status == fold.Ended: // the stop request was late
		case kind == control.StopInterrupt && snap.Run.Status == fold.RunInterrupted:
		case snap.Status == fold.Failed && *snap.Failure.Detail.Code == CodeAborted:
		default:
			t.Errorf("%s: %s, run %s, %+v", what, snap.Status, snap.Run.Status, snap.Failure)
		}
		if len(snap.OpenCalls()) > 0 || len(snap.Pending) > 0 {
			t.Errorf("%s: open calls %+v, pending %+v", what, snap.OpenCalls(), snap.Pending)
		}
		for _, child := range aisdk.Snapshot(snap, aisdk.SnapshotOptions{Partial: true}).Children {
			if child.Status == fold.ChildRunning {
				t.Errorf("%s: child %s is running", what, child.Session)
			}
		}
	}
}

// after returns a channel that is closed after n messages of a session.
func (w *env) after(s chunk.Session, n int) <-chan struct{} {
	w.t.Helper()
	done, seen := make(chan struct{}), 0
	if n == 0 {
		close(done)
		return done
	}
	watch := w.Server.Conn(w.t)
	_, err := watch.Subscribe("tr.chunks.*."+s.Tenant+"."+s.Root+"."+s.ID, func(*nats.Msg) {
		if seen++; seen == n {
			close(done)
		}
	})
	if err := errors.Join(err, watch.Flush()); err != nil {
		w.t.Fatal(err)
	}
	return done
}

// awaitPause returns a channel that is closed when the session is paused or has ended.
func (w *env) awaitPause(ctx context.Context, s chunk.Session) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			for rec, err := range w.Log.Follow(ctx, chunk.Range{Session: s}) {
				if err == nil && (rec.Type.Terminal() || rec.Type == chunk.TypeStreamPaused) {
					return
				}
			}
		}
	}()
	return done
}

// awaitStopped stops a session as the edge does: an active run through its inbox, a suspended one by a
// command.
func (w *env) awaitStopped(ctx context.Context, s chunk.Session, kind control.StopKind) fold.Snapshot {
	w.t.Helper()
	for {
		snap, err := w.Reader.Snapshot(ctx, s)
		if err != nil {
			w.t.Fatal(err)
		}
		switch snap.Run.Status {
		case fold.RunRunning:
			w.stop(s, snap.Run.ID, kind)
		case fold.RunSuspended:
			// A suspended run has no step to interrupt; it is aborted instead.
			c := control.Command{Kind: control.Abort, Session: s, AgentType: "talker", RunID: snap.Run.ID}
			err := w.Queue.Request(ctx, c, 0)
			if busy, ok := errors.AsType[*control.BusyError](err); ok && busy.Command.RunID == snap.Run.ID {
				err = w.Queue.Request(ctx, c, busy.Revision)
			}
			if err != nil && !errors.Is(err, control.ErrBusy) {
				w.t.Fatal(err)
			}
		default:
			if closed, err := w.Log.Last(ctx, s); err != nil || closed.Type.Terminal() {
				return snap
			}
		}
	}
}

// An agent that ignores its context is abandoned: the run is aborted, the worker can shut down, and later
// writes of the agent are rejected.
func TestAbandonedAgent(t *testing.T) {
	for name, end := range map[string]func(*env, *process, control.Command){
		"is aborted":     func(w *env, _ *process, c control.Command) { w.stop(c.Session, c.RunID, control.StopAbort) },
		"is interrupted": func(w *env, _ *process, c control.Command) { w.stop(c.Session, c.RunID, control.StopInterrupt) },
		"shut down":      func(_ *env, p *process, _ control.Command) { p.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			c := execute(uniqueName("s"), "deaf", "Hello?")
			started, unfreeze, late := make(chan struct{}), make(chan struct{}), make(chan error, 2)
			p := w.worker(map[string]Agent{"deaf": AgentFunc(func(_ context.Context, turn *Turn) error {
				ctx := context.WithoutCancel(t.Context())
				err := turn.Step(ctx, func(ctx context.Context, s *Step) error {
					if err := s.Text(ctx, "I see "); err != nil {
						return err
					}
					open := s.Tool("c", "search")
					if err := open.Start(ctx, map[string]any{}); err != nil {
						return err
					}
					close(started)
					<-unfreeze
					late <- errors.Join(s.Text(ctx, "nothing."), s.Tool("d", "search").Start(ctx, map[string]any{}))
					return nil
				})
				late <- err
				return nil
			})})
			p.abandonAfter = 200 * time.Millisecond
			w.serve(p)
			w.Request(c)
			<-started
			end(w, p, c)
			switch name {
			case "is aborted":
				snap := w.AwaitStatus(c.Session, fold.Failed)
				if *snap.Failure.Detail.Code != CodeAborted || len(snap.OpenCalls()) > 0 {
					t.Errorf("failure %+v, open calls %+v", snap.Failure, snap.OpenCalls())
				}
			case "is interrupted":
				w.awaitInterrupted(c)
			}
			before := len(w.Records(c.Session))
			close(unfreeze)
			if err := <-late; !errors.Is(err, errClosed) {
				t.Errorf("late write: %v", err)
			}
			if err := <-late; !errors.Is(err, errAbandoned) {
				t.Errorf("step: %v", err)
			}
			if after := len(w.Records(c.Session)); after != before {
				t.Errorf("the session grew from %d to %d records", before, after)
			}
		})
	}
}

// awaitInterrupted waits until the run of a command is interrupted, with its output and without open calls.
func (w *env) awaitInterrupted(c control.Command) {
	w.t.Helper()
	w.awaitNoCommand(c)
	snap := w.Snapshot(c.Session)
	if snap.Run.Status != fold.RunInterrupted || len(snap.OpenCalls()) > 0 || !strings.Contains(transcript(snap), "I see ") {
		w.t.Errorf("run %s, open calls %+v\n%s", snap.Run.Status, snap.OpenCalls(), transcript(snap))
	}
}

// An interrupt takes effect between two steps too: the context of the agent ends, and an agent that ignores it is
// abandoned. An agent that calls its model there would otherwise keep the session locked until the model has answered.
func TestInterruptBetweenSteps(t *testing.T) {
	for name, wait := range map[string]func(ctx context.Context, unfreeze <-chan struct{}) error{
		"the agent returns": func(ctx context.Context, _ <-chan struct{}) error { <-ctx.Done(); return ctx.Err() },
		"it is abandoned":   func(_ context.Context, unfreeze <-chan struct{}) error { <-unfreeze; return nil },
		"a step is next":    func(ctx context.Context, _ <-chan struct{}) error { <-ctx.Done(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			c := execute(uniqueName("s"), "thinking", "Hello?")
			started, unfreeze := make(chan struct{}), make(chan struct{})
			defer close(unfreeze)
			p := w.worker(map[string]Agent{"thinking": AgentFunc(func(ctx context.Context, turn *Turn) error {
				if err := turn.Step(ctx, func(ctx context.Context, s *Step) error { return s.Text(ctx, "I see ") }); err != nil {
					return err
				}
				close(started)
				if err := wait(ctx, unfreeze); err != nil {
					return err
				}
				return turn.Step(ctx, func(ctx context.Context, s *Step) error { return s.Text(ctx, "nothing.") })
			})})
			p.abandonAfter = 200 * time.Millisecond
			w.serve(p)
			w.Request(c)
			<-started
			w.stop(c.Session, c.RunID, control.StopInterrupt)
			w.awaitInterrupted(c)
		})
	}
}

// The output of a step that failed is kept when the run is interrupted before the step is repeated: users have seen it.
func TestInterruptBeforeRetry(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "failing", "Hello?")
	started := make(chan struct{})
	w.serve(w.worker(map[string]Agent{"failing": AgentFunc(func(ctx context.Context, turn *Turn) error {
		err := turn.Step(ctx, func(ctx context.Context, s *Step) error {
			return errors.Join(s.Text(ctx, "I see "), s.Tool("c", "search").Start(ctx, map[string]any{}), errors.New("no answer"))
		})
		close(started)
		<-ctx.Done() // the delay before the next attempt
		return err
	})}))
	w.Request(c)
	<-started
	w.stop(c.Session, c.RunID, control.StopInterrupt)
	w.awaitInterrupted(c)
}

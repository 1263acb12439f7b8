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
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/projector/fold"
)

// endless says words until it is stopped, within one step.
func endless(started chan<- struct{}) Agent {
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

// A stop is heard in the middle of a step. What was said stays; no call is left
// without an outcome.
func TestStoppedInAStep(t *testing.T) {
	for kind, test := range map[inbox.StopKind]struct {
		status fold.Status
		run    fold.RunStatus
		types  string
	}{
		inbox.Interrupt: {fold.Paused, fold.RunInterrupted, "tool_input_error tool_end step_end checkpoint_created step_committed suspension_marker run_interrupted stream_end"},
		inbox.Abort:     {fold.Failed, fold.RunFailed, "tool_input_error tool_end stream_failed"},
	} {
		t.Run(string(kind), func(t *testing.T) {
			w := newWorld(t)
			c := execute(fresh("s"), "endless", "A story!")
			started := make(chan struct{}, 1)
			w.serve(w.worker(map[string]Agent{"endless": endless(started)}))
			w.request(c)
			<-started
			begin := time.Now()
			w.halt(c.Session, "r1", kind)
			snap := w.awaitStatus(c.Session, test.status)
			t.Logf("it took %s", time.Since(begin).Round(time.Millisecond))
			if snap.Run.Status != test.run || len(snap.Unsettled()) > 0 || len(snap.Pending) > 0 {
				t.Errorf("run %s, unsettled %+v, pending %+v", snap.Run.Status, snap.Unsettled(), snap.Pending)
			}
			if kind == inbox.Abort && *snap.Failure.Detail.Code != CodeAborted {
				t.Errorf("failure %+v", snap.Failure)
			}
			if got := told(snap); !strings.Contains(got, "Once upon a time") {
				t.Errorf("what was said is gone:\n%s", got)
			}
			if got := types(w.bodies(c.Session)); !strings.HasSuffix(got, test.types) {
				t.Errorf("records %s, want them to end in %s", got, test.types)
			}
		})
	}
}

func (w *world) halt(s chunk.Session, run string, kind inbox.StopKind) {
	w.t.Helper()
	if err := w.inbox.Stop(w.t.Context(), inbox.Stop{Session: s, RunID: run, Kind: kind, Reason: "enough"}); err != nil {
		w.t.Fatal(err)
	}
}

// A run that waits in the queue, or for people, or for its children, is stopped
// as well, and its children with it.
func TestStoppedAtAnyPlace(t *testing.T) {
	random := seeded(t)
	w := newWorld(t)
	w.maxDelta = 1
	agents := talker(4, &effects{})
	for range 2 {
		w.serve(w.worker(agents))
	}
	for i := range 16 {
		kind := []inbox.StopKind{inbox.Interrupt, inbox.Abort}[i%2]
		c := execute(fresh("s"), "talker", "Talk!")
		c.RunID = fresh("r")
		after := random.IntN(60)
		fired := w.after(c.Session, after)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		if after == 0 {
			w.halt(c.Session, c.RunID, kind)
		}
		w.request(c)
		if after%2 == 0 {
			go w.person(ctx, c.Session, "talker")
		}
		select {
		case <-fired:
		case <-w.rests(ctx, c.Session):
		}
		snap := w.await(c.Session, "to begin", func(snap fold.Snapshot) bool { return snap.Run.ID != "" })
		w.halt(c.Session, snap.Run.ID, kind)
		snap = w.awaitStopped(ctx, c.Session, kind)
		cancel()
		what := fmt.Sprintf("%s after %d messages", kind, after)
		switch {
		case snap.Status == fold.Ended: // it was too late
		case kind == inbox.Interrupt && snap.Run.Status == fold.RunInterrupted:
		case snap.Status == fold.Failed && *snap.Failure.Detail.Code == CodeAborted:
		default:
			t.Errorf("%s: %s, run %s, %+v", what, snap.Status, snap.Run.Status, snap.Failure)
		}
		if len(snap.Unsettled()) > 0 || len(snap.Pending) > 0 {
			t.Errorf("%s: unsettled %+v, pending %+v", what, snap.Unsettled(), snap.Pending)
		}
		for _, child := range snap.Frontend(true, 0).Children {
			if child.Status == fold.ChildRunning {
				t.Errorf("%s: child %s is at work", what, child.Session)
			}
		}
	}
}

// after is closed when the log has so many messages of a session.
func (w *world) after(s chunk.Session, n int) <-chan struct{} {
	w.t.Helper()
	done, seen := make(chan struct{}), 0
	if n == 0 {
		close(done)
		return done
	}
	_, err := w.srv.Conn(w.t).Subscribe("tr.chunks.*."+s.Tenant+"."+s.Root+"."+s.ID, func(*nats.Msg) {
		if seen++; seen == n {
			close(done)
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return done
}

// rests is closed when the session is paused or has ended.
func (w *world) rests(ctx context.Context, s chunk.Session) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			for rec, err := range w.log.Follow(ctx, s, chunk.Position{}) {
				if err == nil && (rec.Type.Terminal() || rec.Type == chunk.TypeStreamPaused) {
					return
				}
			}
		}
	}()
	return done
}

// awaitStopped stops what goes on, or waits, as the edge does: a run at work
// through its inbox, one that waits by a command.
func (w *world) awaitStopped(ctx context.Context, s chunk.Session, kind inbox.StopKind) fold.Snapshot {
	w.t.Helper()
	for {
		snap, err := w.reader.Snapshot(ctx, s)
		if err != nil {
			w.t.Fatal(err)
		}
		switch snap.Run.Status {
		case fold.RunRunning:
			w.halt(s, snap.Run.ID, kind)
		case fold.RunSuspended:
			// An interruption finds nothing to stop; the run is aborted instead.
			c := commands.Command{Kind: commands.Abort, Session: s, AgentType: "talker", RunID: snap.Run.ID}
			err := w.queue.Request(ctx, c, 0)
			if busy, ok := errors.AsType[*commands.BusyError](err); ok && busy.Command.RunID == snap.Run.ID {
				err = w.queue.Request(ctx, c, busy.Revision)
			}
			if err != nil && !errors.Is(err, commands.ErrBusy) {
				w.t.Fatal(err)
			}
		default:
			if closed, err := w.log.Last(ctx, s); err != nil || closed.Type.Terminal() {
				return snap
			}
		}
	}
}

// An agent that hears nothing is left behind: the run is aborted without it, the
// worker can be stopped, and what the agent says later counts for nothing.
func TestAnAgentThatHangs(t *testing.T) {
	for name, end := range map[string]func(*world, *process, commands.Command){
		"is aborted":   func(w *world, _ *process, c commands.Command) { w.halt(c.Session, c.RunID, inbox.Abort) },
		"is let go of": func(_ *world, p *process, _ commands.Command) { p.end() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := execute(fresh("s"), "deaf", "Hello?")
			started, wake, late := make(chan struct{}), make(chan struct{}), make(chan error, 2)
			p := w.worker(map[string]Agent{"deaf": AgentFunc(func(_ context.Context, turn *Turn) error {
				ctx := context.WithoutCancel(t.Context())
				err := turn.Step(ctx, func(ctx context.Context, s *Step) error {
					if err := s.Text(ctx, "I hear "); err != nil {
						return err
					}
					open := s.Tool("c", "search")
					if err := open.Start(ctx, map[string]any{}); err != nil {
						return err
					}
					close(started)
					<-wake
					late <- errors.Join(s.Text(ctx, "nothing."), s.Tool("d", "search").Start(ctx, map[string]any{}))
					return nil
				})
				late <- err
				return nil
			})})
			p.hangs = 200 * time.Millisecond
			w.serve(p)
			w.request(c)
			<-started
			end(w, p, c)
			if name == "is aborted" {
				snap := w.awaitStatus(c.Session, fold.Failed)
				if *snap.Failure.Detail.Code != CodeAborted || len(snap.Unsettled()) > 0 {
					t.Errorf("failure %+v, unsettled %+v", snap.Failure, snap.Unsettled())
				}
			}
			before := len(w.records(c.Session))
			close(wake)
			if err := <-late; !errors.Is(err, errClosed) {
				t.Errorf("a late word: %v", err)
			}
			if err := <-late; !errors.Is(err, errLeft) {
				t.Errorf("the step: %v", err)
			}
			if after := len(w.records(c.Session)); after != before {
				t.Errorf("the session grew from %d to %d records", before, after)
			}
		})
	}
}

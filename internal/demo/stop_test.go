package demo

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/internal/demo/script"
	"github.com/tailrace/tailrace/projector/fold"
)

// stopped plays a command, and has somebody stop it at the n-th pause, which lasts
// until the wish is heard.
func (h *house) stopped(t *testing.T, c commands.Command, kind inbox.StopKind, n int) {
	t.Helper()
	var w *process
	acts := make(chan struct{}, n)
	w = h.worker(t, func(ctx context.Context, _ time.Duration) error {
		select {
		case acts <- struct{}{}:
			return ctx.Err()
		default: // as many as were to be
		}
		err := w.inbox.Stop(t.Context(), inbox.Stop{Session: c.Session, RunID: c.RunID, Kind: kind, Reason: "enough"})
		if err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if err := w.Handle(background(t), c); err != nil {
		t.Fatal(err)
	}
}

func (h *house) fold(t *testing.T, s chunk.Session) fold.Snapshot {
	t.Helper()
	snap, err := h.reader.Snapshot(t.Context(), s)
	if err != nil && !errors.Is(err, chunk.ErrUnknownSession) {
		t.Fatal(err)
	}
	return snap
}

// Somebody stops a run, at any point of any scenario: it ends at once, what it has
// said stays, no call is left open, and no sub-agent is left at work. It is over
// then: the command changes nothing any more, and the next turn is played whole.
func TestARunIsStopped(t *testing.T) {
	h := newHouse(t)
	for _, s := range script.Scenarios() {
		if s.Name == "long" {
			continue // as plain, and long
		}
		for _, n := range []int{0, 3, 40, 111} {
			c := command(s.Name, newID(), "r1")
			agent := agentOf(t, c, s.Name)
			if n >= pauses(agent) {
				continue
			}
			h.stopped(t, c, inbox.Interrupt, n)
			snap := h.fold(t, c.Session)
			if snap.Run.Status != fold.RunInterrupted || snap.Faults.Skipped > 0 {
				t.Errorf("%s, stopped at %d: the run is %s, faults %+v", s.Name, n, snap.Run.Status, snap.Faults)
			}
			agent.Each(func(a script.Agent) {
				snap := h.fold(t, a.Session)
				if open := snap.Unsettled(); len(open) > 0 || snap.Run.Status == fold.RunRunning {
					t.Errorf("%s, stopped at %d: %s is %s, calls %+v", s.Name, n, a.Type, snap.Run.Status, open)
				}
			})
			next := command("plain", c.Session.ID, "r2")
			for _, c := range []commands.Command{c, next} {
				if err := h.worker(t, instantly).Handle(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			if got, want := h.story(t, c.Session, "r2").text, agentOf(t, next, "plain").Text(); got != want {
				t.Errorf("%s, stopped at %d: then it says %q, want %q", s.Name, n, got, want)
			}
		}
	}
}

// pauses is how many pauses an agent makes, with its sub-agents.
func pauses(agent script.Agent) int {
	n := 0
	agent.Each(func(a script.Agent) {
		for _, step := range a.Steps {
			n += len(step.Acts)
		}
	})
	return n
}

// Who aborts a run sees it fail.
func TestARunIsAborted(t *testing.T) {
	h := newHouse(t)
	c := command("parallel", "s1", "r1")
	h.stopped(t, c, inbox.Abort, 2)
	snap := h.fold(t, c.Session)
	if snap.Status != fold.Failed || snap.Failure.Detail == nil || *snap.Failure.Detail.Code != codeAborted {
		t.Errorf("the session is %s: %+v", snap.Status, snap.Failure)
	}
}

// The worker dies after it was told to stop: the next one hears it too.
func TestAStopOutlivesTheWorker(t *testing.T) {
	h := newHouse(t)
	c := command("plain", "s1", "r1")
	doomed := h.worker(t, h.dieInStep(t, c.Session, 1))
	if err := doomed.Handle(t.Context(), c); !errors.Is(err, errDied) {
		t.Fatalf("err = %v", err)
	}
	next := h.worker(t, func(ctx context.Context, _ time.Duration) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if err := next.inbox.Stop(t.Context(), inbox.Stop{Session: c.Session, RunID: c.RunID, Kind: inbox.Interrupt}); err != nil {
		t.Fatal(err)
	}
	if err := next.Handle(background(t), c); err != nil {
		t.Fatal(err)
	}
	if snap := h.fold(t, c.Session); snap.Run.Status != fold.RunInterrupted {
		t.Errorf("the run is %s", snap.Run.Status)
	}
}

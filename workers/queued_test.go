package workers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/projector/fold"
)

// answering answers each message with its text.
func answering() Agent {
	return oneStep(func(ctx context.Context, t *Turn, s *Step) error {
		s.MarkFinal()
		return s.Text(ctx, "Answer to "+t.Input()[0].Content)
	})
}

// enqueue stores a message that waits in the session of a command, and returns its command.
func (w *env) enqueue(c control.Command, run, text string) control.Command {
	w.t.Helper()
	c.RunID, c.Mode, c.Input, c.Issued = run, control.ModeQueued, []chunk.InputMessage{{Content: text}}, time.Now()
	if err := w.Inbox.Enqueue(w.t.Context(), control.Queued{Command: c, State: control.QueuedWaiting}); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// dyingInbox is the inbox of a process that is killed at one of its calls.
type dyingInbox struct {
	inboxStore

	at  string // "read", or the state that it is to store
	die func()
}

func (d dyingInbox) Queued(ctx context.Context, s chunk.Session) ([]control.Queued, error) {
	if d.at == "read" {
		d.die()
	}
	return d.inboxStore.Queued(ctx, s)
}

func (d dyingInbox) SetQueued(ctx context.Context, s chunk.Session, run string, state control.QueuedState) error {
	if d.at == "before "+string(state) {
		d.die()
	}
	err := d.inboxStore.SetQueued(ctx, s, run, state)
	if d.at == "after "+string(state) {
		d.die()
	}
	return err
}

// A worker is killed at any moment between the end of a run and the start of the message that waits for it. The worker that gets the command of the ended run starts
// the message, once.
func TestCrashBeforeTheNextMessage(t *testing.T) {
	for _, at := range []string{"read", "before taken", "after taken", "before started", "after started"} {
		t.Run(at, func(t *testing.T) {
			w := newEnv(t)
			c := execute(uniqueName("s"), "answering", "one")
			w.enqueue(c, "r2", "two")
			first := w.worker(map[string]Agent{"answering": answering()})
			first.inbox = dyingInbox{first.inbox, at, first.Kill}
			w.Request(c)
			if err := first.do(t.Context(), c); err == nil && at != "after started" {
				t.Fatal("the first worker has not crashed")
			}
			if snap := w.Snapshot(c.Session); snap.Run.ID != c.RunID || snap.Status != fold.Ended {
				t.Fatalf("run %s is %s", snap.Run.ID, snap.Status)
			}
			w.serve(w.worker(map[string]Agent{"answering": answering()}))
			snap := w.Await(c.Session, "the message that waits", func(snap fold.Snapshot) bool { return snap.Run.ID == "r2" && snap.Status == fold.Ended })
			if got := transcript(snap); got != "user: one\nassistant: Answer to one\nuser: two\nassistant: Answer to two" {
				t.Error(got)
			}
		})
	}
}

// The run before a message has no worker, and no response waits: the sweep starts the message after the end of the run, and not before.
func TestSweepStartsWhatWaits(t *testing.T) {
	w := newEnv(t)
	s, run := w.orphan()
	c := w.enqueue(execute(s.ID, "answering", "two"), "r2", "two")
	r := w.reaper(ReaperConfig{RunTimeout: Off})
	open := r.open
	r.open = func() (*Workers, func(), error) {
		made, release, err := open()
		if err == nil {
			made.queue = hourLater{made.queue}
		}
		return made, release, err
	}
	store, err := jssnapshots.New(w.JS, jssnapshots.Config{})
	if err != nil {
		t.Fatal(err)
	}
	sweep := func() {
		t.Helper()
		if err := r.Sweep(t.Context(), store); err != nil {
			t.Fatal(err)
		}
	}
	sweep()
	w.awaitNoCommand(c)
	if err := run.EmitBody(t.Context(), chunk.ToolEnd{ToolCallID: "c", Result: chunk.Value(`1`)}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(run.End(t.Context(), nil), run.Close()); err != nil {
		t.Fatal(err)
	}
	sweep()
	if there := w.pending(c); there.RunID != "r2" {
		t.Fatalf("run %q is requested, want r2", there.RunID)
	}
	w.serve(w.worker(map[string]Agent{"answering": answering()}))
	w.Await(s, "the answer", func(snap fold.Snapshot) bool { return snap.Run.ID == "r2" && snap.Status == fold.Ended })
}

// A run that pauses has not ended: a message waits until it has continued and ended.
func TestMessageWaitsForAPausedRun(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "asking", "one")
	w.enqueue(c, "r2", "two")
	p := w.worker(map[string]Agent{"asking": questions(1, func(ctx context.Context, _ *Turn, s *Step) error {
		s.MarkFinal()
		return s.Text(ctx, "Thank you.")
	})})
	w.Request(c)
	if err := p.do(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if there := w.pending(c); there.RunID != c.RunID {
		t.Fatalf("run %s is requested during a question", there.RunID)
	}
	if err := p.do(t.Context(), w.reply(c)); err != nil {
		t.Fatal(err)
	}
	if there := w.pending(c); there.RunID != "r2" {
		t.Errorf("run %s is requested after the end, want r2", there.RunID)
	}
}

// The command of a message that was withdrawn, or deleted with its session while a process was starting it, starts no run; a sweep removes it.
func TestCommandWithoutItsMessage(t *testing.T) {
	w := newEnv(t)
	p := w.worker(map[string]Agent{"answering": answering()})
	sweeper, release, err := w.reaper(ReaperConfig{}).open()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for _, withdrawn := range []bool{true, false} {
		c := execute(uniqueName("s"), "answering", "one")
		c.Mode = control.ModeQueued
		if withdrawn {
			c = w.enqueue(c, "r2", "two")
			if err := w.Inbox.SetQueued(t.Context(), c.Session, "r2", control.QueuedWithdrawn); err != nil {
				t.Fatal(err)
			}
		}
		w.Request(c)
		if err := p.do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if all := w.Records(c.Session); len(all) > 0 {
			t.Errorf("withdrawn %t: %d records", withdrawn, len(all))
		}
		if err := sweeper.removeUnwanted(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		w.awaitNoCommand(c)
	}
}

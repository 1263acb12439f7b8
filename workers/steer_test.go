package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/retention"
	"github.com/tailrace/tailrace/projector/fold"
)

// threeSteps answers a message in three steps, and checks for messages between them. during is called once, in the first step.
func threeSteps(checks bool, during func()) Agent {
	var once sync.Once
	return AgentFunc(func(ctx context.Context, t *Turn) error {
		for {
			if checks {
				if err := t.CheckMessages(ctx); err != nil {
					return err
				}
			}
			err := t.Step(ctx, func(ctx context.Context, s *Step) error {
				once.Do(during)
				if s.Number() == 3 {
					s.MarkFinal()
				}
				return s.Text(ctx, fmt.Sprintf("%s %d of %d", t.Input()[0].Content, s.Number(), len(t.Messages())))
			})
			if err != nil || t.Steps() == 3 {
				return err
			}
		}
	})
}

// enqueueSteering stores a message that is to be read between two steps of the run of a command.
func (w *env) enqueueSteering(c control.Command, run, text string) {
	w.t.Helper()
	c.RunID, c.Mode, c.Input, c.Issued = run, control.ModeQueued, []chunk.InputMessage{{Content: text}}, time.Now()
	if err := w.Inbox.Enqueue(w.t.Context(), control.Queued{Command: c, Steers: true, State: control.QueuedWaiting}); err != nil {
		w.t.Error(err)
	}
}

// inputs returns the messages of the runs that have begun in a session, oldest first.
func (w *env) inputs(s chunk.Session) (all []string) {
	for _, b := range w.Bodies(s) {
		if b, ok := b.(chunk.RunStarted); ok {
			for _, in := range b.Input {
				all = append(all, in.Content)
			}
		}
	}
	return all
}

const (
	steered    = "user: one\nassistant: one 1 of 1\nuser: two\nassistant: two 1 of 3\nassistant: two 2 of 4\nassistant: two 3 of 5"
	notSteered = "user: one\nassistant: one 1 of 1\nassistant: one 2 of 2\nassistant: one 3 of 3"
	afterwards = notSteered + "\nuser: two\nassistant: two 1 of 5\nassistant: two 2 of 6\nassistant: two 3 of 7"
)

// A message that is sent during a step is answered after that step, with the step in the history: once, also if the worker is killed at any moment before and after it
// takes the message.
func TestMessageBetweenSteps(t *testing.T) {
	for _, at := range []string{"", "read", "before taken", "after taken", "before started", "after started"} {
		t.Run(at, func(t *testing.T) {
			w := newEnv(t)
			c := execute(uniqueName("s"), "steps", "one")
			agents := map[string]Agent{"steps": threeSteps(true, func() { w.enqueueSteering(c, "r2", "two") })}
			first := w.worker(agents)
			first.inbox = dyingInbox{first.inbox, at, first.Kill}
			w.Request(c)
			if err := first.do(t.Context(), c); err == nil && at != "" && at != "after started" {
				t.Fatal("the first worker has not crashed")
			}
			w.serve(w.worker(agents))
			snap := w.Await(c.Session, "the second answer", func(snap fold.Snapshot) bool { return snap.Run.ID == "r2" && snap.Status == fold.Ended })
			if got := transcript(snap); got != steered {
				t.Error(got)
			}
			if got := w.inputs(c.Session); !slices.Equal(got, []string{"one", "two"}) {
				t.Errorf("runs have begun with %q", got)
			}
			if past := snap.PastRuns; len(past) != 1 || past[0].ID != "r1" || past[0].Status != fold.RunInterrupted {
				t.Errorf("the first run is %+v", past)
			}
		})
	}
}

// hookedInbox calls a function before or after a message is taken.
type hookedInbox struct {
	inboxStore

	before, after func()
}

func (h hookedInbox) SetQueued(ctx context.Context, s chunk.Session, run string, state control.QueuedState) error {
	if h.before != nil && state == control.QueuedTaken {
		h.before()
	}
	err := h.inboxStore.SetQueued(ctx, s, run, state)
	if h.after != nil && state == control.QueuedTaken {
		h.after()
	}
	return err
}

// What another client does at the moment at which a message is taken: of a withdrawal and the take one succeeds, a stop leaves the message to be answered, and a
// deletion ends both runs.
func TestOthersWhileAMessageIsTaken(t *testing.T) {
	withdraw := func(w *env, c control.Command) error {
		return w.Inbox.SetQueued(t.Context(), c.Session, "r2", control.QueuedWithdrawn)
	}
	stop := func(kind control.StopKind) func(w *env, c control.Command) error {
		return func(w *env, c control.Command) error {
			return w.Inbox.Stop(t.Context(), control.Stop{Session: c.Session, RunID: c.RunID, Kind: kind})
		}
	}
	remove := func(w *env, c control.Command) error {
		return w.eraser(retention.EraserConfig{}).Delete(t.Context(), c.Session)
	}
	for _, row := range []struct {
		name   string
		before bool // the message is taken
		act    func(w *env, c control.Command) error
		err    error
		want   string // "" if nothing is left
	}{
		{"withdrawn before", true, withdraw, nil, notSteered},
		{"withdrawn after", false, withdraw, control.ErrNotQueued, steered},
		{"interrupted before", true, stop(control.StopInterrupt), nil, steered},
		{"interrupted after", false, stop(control.StopInterrupt), nil, steered},
		{"aborted before", true, stop(control.StopAbort), nil, steered},
		{"aborted after", false, stop(control.StopAbort), nil, steered},
		{"deleted before", true, remove, nil, ""},
		{"deleted after", false, remove, nil, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newEnv(t)
			c := execute(uniqueName("s"), "steps", "one")
			agents := map[string]Agent{"steps": threeSteps(true, func() { w.enqueueSteering(c, "r2", "two") })}
			p := w.worker(agents)
			var once sync.Once
			act := func() {
				once.Do(func() {
					if err := row.act(w, c); !errors.Is(err, row.err) {
						t.Errorf("%v, want %v", err, row.err)
					}
				})
			}
			hooked := hookedInbox{inboxStore: p.inbox}
			if row.before {
				hooked.before = act
			} else {
				hooked.after = act
			}
			p.inbox = hooked
			w.Request(c)
			if err := p.do(t.Context(), c); err != nil && row.want != "" {
				t.Fatal(err)
			}
			w.serve(w.worker(agents))
			w.awaitNoCommand(c)
			if row.want == "" {
				if snap, err := w.Reader.Snapshot(t.Context(), c.Session); !errors.Is(err, chunk.ErrUnknownSession) {
					t.Errorf("%s, %v", transcript(snap), err)
				}
				return
			}
			if got := transcript(w.Snapshot(c.Session)); got != row.want {
				t.Error(got)
			}
			if got, want := w.inputs(c.Session), 1+strings.Count(row.want, "user: two"); len(got) != want {
				t.Errorf("runs have begun with %q, want %d", got, want)
			}
		})
	}
}

// A run that does not check for messages, or that has ended before, leaves the message to the end, as one of the mode queue. The message whose run it is does not end it.
func TestMessageThatIsNotTaken(t *testing.T) {
	for name, row := range map[string]struct {
		agent func(during func()) Agent
		want  string
	}{
		"no check":       {func(during func()) Agent { return threeSteps(false, during) }, afterwards},
		"after its last": {oneStepThen, "user: one\nassistant: one\nuser: two\nassistant: two"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			c := execute(uniqueName("s"), "steps", "one")
			w.serve(w.worker(map[string]Agent{"steps": row.agent(func() { w.enqueueSteering(c, "r2", "two") })}))
			w.Request(c)
			snap := w.Await(c.Session, "the second answer", func(snap fold.Snapshot) bool { return snap.Run.ID == "r2" && snap.Status == fold.Ended })
			if got := transcript(snap); got != row.want {
				t.Error(got)
			}
		})
	}
	t.Run("its own", func(t *testing.T) {
		w := newEnv(t)
		c := execute(uniqueName("s"), "steps", "one")
		w.enqueueSteering(c, "r1", "one")
		if err := w.Inbox.SetQueued(t.Context(), c.Session, "r1", control.QueuedTaken); err != nil { // the process that requests its run has not said yet that it did
			t.Fatal(err)
		}
		c.Mode = control.ModeQueued
		w.Request(c)
		w.serve(w.worker(map[string]Agent{"steps": threeSteps(true, func() {})}))
		if got := transcript(w.AwaitStatus(c.Session, fold.Ended)); got != notSteered {
			t.Error(got)
		}
	})
}

// oneStepThen answers in one step, and checks for messages after it.
func oneStepThen(during func()) Agent {
	var once sync.Once
	return AgentFunc(func(ctx context.Context, t *Turn) error {
		err := t.Step(ctx, func(ctx context.Context, s *Step) error {
			once.Do(during)
			s.MarkFinal()
			return s.Text(ctx, t.Input()[0].Content)
		})
		return errors.Join(err, t.CheckMessages(ctx))
	})
}

// A message arrives while a run waits for an approval: the approved call is run before the run ends for the message.
func TestApprovedCallsAreRunBeforeAMessage(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "careful", "one")
	p := w.worker(map[string]Agent{"careful": AgentFunc(func(ctx context.Context, turn *Turn) error {
		for {
			if err := turn.CheckMessages(ctx); err != nil {
				return err
			}
			err := turn.Step(ctx, func(ctx context.Context, s *Step) error {
				for _, call := range s.ApprovedCalls() {
					return call.End(ctx, "paid")
				}
				if turn.Input()[0].Content == "one" {
					return s.Tool("c", "pay").AskApproval(ctx, map[string]any{}, time.Time{})
				}
				s.MarkFinal()
				return s.Text(ctx, "done")
			})
			if err != nil || turn.Input()[0].Content == "two" {
				return err
			}
		}
	})})
	w.Request(c)
	if err := p.do(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	w.enqueueSteering(c, "r3", "two")
	snap := w.Snapshot(c.Session)
	w.answer(control.Answer{
		Session: c.Session, RunID: "r1", CallID: snap.Pending[0].CallID, Kind: control.Approval, ApprovalID: snap.Pending[0].ApprovalID, Approved: true,
	})
	w.resume(c.Session, c.AgentType, "r1")
	w.serve(p)
	snap = w.Await(c.Session, "the second answer", func(snap fold.Snapshot) bool { return snap.Run.ID == "r3" && snap.Status == fold.Ended })
	if got, want := transcript(snap), "user: one\nassistant: pay({}) output-available \"paid\"\nuser: two\nassistant: done"; got != want {
		t.Error(got)
	}
}

package workers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/projector/fold"
)

// echo says what it was asked in this turn, and how much it knows.
func echo() map[string]Agent {
	return map[string]Agent{"echo": oneStep(func(ctx context.Context, t *Turn, s *Step) error {
		var asked []string
		for _, in := range t.Input() {
			asked = append(asked, in.Content)
		}
		s.Final()
		return s.Text(ctx, fmt.Sprintf("%s of %d", strings.Join(asked, "+"), len(t.Messages())))
	})}
}

// Turns follow one another, and know what was said before. One that replaces an
// answer leaves it out of the history; asked without input, it takes that of the
// answer it replaces.
func TestTurns(t *testing.T) {
	w := newWorld(t)
	w.serve(w.worker(echo()))
	c := execute(fresh("s"), "echo", "a", "b")
	next := func(run, replaces string, says ...string) fold.Snapshot {
		c := execute(c.Session.ID, "echo", says...)
		c.RunID, c.Replaces = run, replaces
		w.await(c.Session, "the queue to be empty", func(fold.Snapshot) bool {
			_, _, err := w.queue.Pending(t.Context(), c.Session, "echo")
			return errors.Is(err, commands.ErrNone)
		})
		w.request(c)
		return w.await(c.Session, run, func(snap fold.Snapshot) bool { return snap.Run.ID == run && snap.Status == fold.Ended })
	}
	w.request(c)
	w.awaitStatus(c.Session, fold.Ended)
	next("r2", "", "c")
	snap := next("r3", "msg-4")
	want := "user: a\nuser: b\nassistant: a+b of 2\nuser: c\nassistant: c of 4"
	if got := told(snap); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	snap = next("r4", "msg-3", "d")
	if got, want := told(snap), "user: a\nuser: b\nassistant: a+b of 2\nuser: d\nassistant: d of 4"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if n := snap.MessageCount(); n != 9 {
		t.Errorf("%d messages in the log, want all 9", n)
	}
}

// A run that was interrupted goes on behind what it has said.
func TestInterruptedAndResumed(t *testing.T) {
	w := newWorld(t)
	c := execute(fresh("s"), "story", "A story!")
	started := make(chan struct{}, 1)
	w.serve(w.worker(map[string]Agent{"story": AgentFunc(func(ctx context.Context, turn *Turn) error {
		return turn.Step(ctx, func(ctx context.Context, s *Step) error {
			if turn.Steps() > 0 {
				s.Final()
				return s.Text(ctx, "The end. "+turn.Params().String())
			}
			if err := s.Text(ctx, "Once upon a time"); err != nil {
				return err
			}
			started <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})
	})}))
	w.request(c)
	<-started
	w.halt(c.Session, "r1", inbox.Interrupt)
	w.awaitStatus(c.Session, fold.Paused)
	w.resume(c.Session, "story", "r1")
	snap := w.awaitStatus(c.Session, fold.Ended)
	if got, want := told(snap), "user: A story!\nassistant: Once upon a time\nassistant: The end. {\"tone\":\"kind\"}"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, b := range w.bodies(c.Session) {
		if r, ok := b.(chunk.RunResumed); ok && (r.RunID != "r1" || r.FromStepCount != 1 || r.FromCheckpointID == nil || r.Mode != "continue") {
			t.Errorf("resumed %+v", r)
		}
	}
}

// A person answers and says something at once: the answers belong to the turn
// that asked, and what was allowed runs in the turn that follows.
func TestResumedWithAMessage(t *testing.T) {
	w := newWorld(t)
	c := execute(fresh("s"), "asking", "Hello?")
	var ran atomic.Int64
	asks := asking(0, &ran)
	w.serve(w.worker(map[string]Agent{"asking": AgentFunc(func(ctx context.Context, turn *Turn) error {
		if turn.Input()[0].Content == "Hello?" {
			return asks.Answer(ctx, turn)
		}
		return turn.Step(ctx, func(ctx context.Context, s *Step) error {
			s.Final()
			for _, call := range s.Granted() {
				ran.Add(1)
				if err := call.End(ctx, "paid"); err != nil {
					return err
				}
			}
			return s.Text(ctx, fmt.Sprintf("step %d", s.Number()))
		})
	})}))
	w.request(c)
	w.awaitStatus(c.Session, fold.Paused)
	w.answer(location(c))
	w.answer(payment(c, true, ""))
	err := w.queue.Request(t.Context(), commands.Command{
		Kind: commands.Resume, Session: c.Session, AgentType: "asking", RunID: commands.ResumeRunID("r1"), Resumes: "r1", Mode: "with_message",
		Input: []chunk.InputMessage{{Content: "And hurry."}},
	}, w.revision(c))
	if err != nil {
		t.Fatal(err)
	}
	snap := w.await(c.Session, "the end", func(snap fold.Snapshot) bool { return snap.Run.ID != "r1" && snap.Status == fold.Ended })
	want := `user: Hello?
assistant: Let me ask.
assistant: location({"exact":true}) output-available "Bremen"
assistant: payment({"euro":5}) output-available "paid"
user: And hurry.
assistant: step 1`
	if got := told(snap); got != want || ran.Load() != 1 {
		t.Errorf("got\n%s\nwant\n%s\nthe payment ran %d times", got, want, ran.Load())
	}
}

// A parent that waits is aborted: its sub-agents are too, also the one that waits
// for a browser itself.
func TestChildrenAreAbortedWithTheirParent(t *testing.T) {
	w := newWorld(t)
	c := execute(fresh("s"), "parent", "Colours?")
	agents := family(t)
	started := make(chan struct{}, 1)
	agents["child"] = endless(started)
	w.serve(w.worker(agents))
	w.request(c)
	<-started
	w.awaitStatus(c.Session, fold.Paused)
	curious := childSession(c.Session, "r1", "b")
	w.awaitStatus(curious, fold.Paused)
	err := w.queue.Request(t.Context(), commands.Command{Kind: commands.Abort, Session: c.Session, AgentType: "parent", RunID: "r1", Reason: "enough"}, w.revision(c))
	if err != nil {
		t.Fatal(err)
	}
	snap := w.awaitStatus(c.Session, fold.Failed)
	if snap.Failure.Message != "the run was aborted: enough" || len(snap.Unsettled()) > 0 {
		t.Errorf("failure %+v, unsettled %+v", snap.Failure, snap.Unsettled())
	}
	for _, s := range []chunk.Session{curious, childSession(c.Session, "r1", "a")} {
		if snap := w.awaitStatus(s, fold.Failed); *snap.Failure.Detail.Code != CodeAborted {
			t.Errorf("%s: %+v", s, snap.Failure)
		}
	}
}

// The result of a sub-agent that is too large to be told is an error, and no
// reason to wait for ever.
func TestALargeResult(t *testing.T) {
	w := newWorld(t)
	c := execute(fresh("s"), "parent", "Go.")
	w.serve(w.worker(map[string]Agent{
		"parent": AgentFunc(func(ctx context.Context, turn *Turn) error {
			return turn.Step(ctx, func(ctx context.Context, s *Step) error {
				if turn.Steps() == 0 {
					return s.Tool("a", SubagentTool("child")).Delegate(ctx, map[string]any{})
				}
				s.Final()
				return s.Text(ctx, turn.Messages()[1].Calls()[0].Error)
			})
		}),
		"child": oneStep(func(ctx context.Context, _ *Turn, s *Step) error {
			return s.Output(ctx, strings.Repeat("x", 505<<10))
		}),
	}))
	w.request(c)
	snap := w.awaitStatus(c.Session, fold.Ended)
	if got := told(snap); !strings.HasSuffix(got, "assistant: the sub-agent's result cannot be passed on") {
		t.Errorf("got\n%.400s", got)
	}
}

// What a chunk may not be is refused, and the step may go on without it; what is
// too large ends the step.
func TestWhatAStepRefuses(t *testing.T) {
	w := newWorld(t)
	c := execute(fresh("s"), "bad", "Go.")
	w.serve(w.worker(map[string]Agent{"bad": AgentFunc(func(ctx context.Context, turn *Turn) error {
		var late *Step
		err := turn.Step(ctx, func(ctx context.Context, s *Step) error {
			late = s
			call := s.Tool("c", "search")
			for what, err := range map[string]error{
				"arguments that are no object": call.Start(ctx, 1),
				"a state that is a text":       s.SetState(ctx, "text"),
				"a sub-agent by a wrong name":  s.Tool("d", "search").Delegate(ctx, map[string]any{}),
				"an end before the start":      call.End(ctx, 1),
			} {
				if !errors.Is(err, chunk.ErrInvalid) {
					t.Errorf("%s: %v, want ErrInvalid", what, err)
				}
			}
			if err := errors.Join(call.Start(ctx, map[string]any{}), call.End(ctx, 1)); err != nil {
				return err
			}
			if err := call.End(ctx, 2); !errors.Is(err, chunk.ErrInvalid) {
				t.Errorf("a second end: %v", err)
			}
			if err := s.Custom(ctx, "big", strings.Repeat("x", 600<<10)); !errors.Is(err, chunk.ErrTooLarge) {
				t.Errorf("a large event: %v", err)
			}
			return nil
		})
		if !errors.Is(err, chunk.ErrTooLarge) {
			t.Errorf("a step that lost a chunk: %v, want ErrTooLarge", err)
		}
		if err := late.Text(ctx, "late"); !errors.Is(err, errClosed) {
			t.Errorf("a late word: %v", err)
		}
		return turn.Step(ctx, func(ctx context.Context, s *Step) error {
			s.Final()
			return s.Text(ctx, "fine")
		})
	})}))
	w.request(c)
	snap := w.awaitStatus(c.Session, fold.Ended)
	if got, want := told(snap), "user: Go.\nassistant: fine"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A step in a hanging tool is no longer than its worker's grace.
func TestGraceEnds(t *testing.T) {
	w := newWorld(t)
	c := execute(fresh("s"), "endless", "A story!")
	started := make(chan struct{}, 2)
	first := w.serve(w.worker(map[string]Agent{"endless": endless(started)}))
	w.request(c)
	<-started
	begin := time.Now()
	first.end()
	if took := time.Since(begin); took < 2*time.Second || took > 8*time.Second {
		t.Errorf("the worker stopped after %s, want its grace of 2s", took)
	}
	w.serve(w.worker(map[string]Agent{"endless": endless(started)}))
	<-started
	w.halt(c.Session, "r1", inbox.Abort)
	snap := w.awaitStatus(c.Session, fold.Failed)
	if got := strings.Count(told(snap), "Once upon a time"); got != 1 {
		t.Errorf("it is told %d times:\n%s", got, told(snap))
	}
}

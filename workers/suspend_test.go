package workers

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/projector/fold"
)

// asking is an agent that asks a browser and a person in its first step, and
// tells what came of it in the next.
func asking(deadline time.Duration, ran *atomic.Int64) Agent {
	until := func() time.Time {
		if deadline == 0 {
			return time.Time{}
		}
		return time.Now().Add(deadline)
	}
	return AgentFunc(func(ctx context.Context, t *Turn) error {
		if t.Steps() == 0 {
			return t.Step(ctx, func(ctx context.Context, s *Step) error {
				return errors.Join(
					s.Text(ctx, "Let me ask."),
					s.Tool("where", "location").AskClient(ctx, map[string]any{"exact": true}, until()),
					s.Tool("pay", "payment").AskApproval(ctx, map[string]any{"euro": 5}, until()),
				)
			})
		}
		return t.Step(ctx, func(ctx context.Context, s *Step) error {
			s.Final()
			for _, call := range s.Granted() {
				ran.Add(1)
				if err := call.End(ctx, "paid "+call.Input().String()); err != nil {
					return err
				}
			}
			var said []string
			for _, m := range t.Messages() {
				for _, call := range m.Calls() {
					said = append(said, call.Name+" "+string(call.State))
				}
			}
			return s.Text(ctx, strings.Join(said, ", ")+" "+t.Params().String()+" "+t.Input()[0].Content)
		})
	})
}

func location(c commands.Command) inbox.Answer {
	return inbox.Answer{Session: c.Session, RunID: c.RunID, CallID: "where", Kind: inbox.ClientResult, Result: chunk.Value(`"Bremen"`)}
}

func payment(c commands.Command, ok bool, reason string) inbox.Answer {
	return inbox.Answer{Session: c.Session, RunID: c.RunID, CallID: "pay", Kind: inbox.Approval, ApprovalID: c.RunID + "::pay", Approved: ok, Reason: reason}
}

// A run that asks is suspended, and goes on when all have answered.
func TestPeopleAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		pay  bool
		want string
		ran  int64
	}{
		"and allow": {pay: true, ran: 1, want: `user: Hello?
assistant: Let me ask.
assistant: location({"exact":true}) output-available "Bremen"
assistant: payment({"euro":5}) output-available "paid {\"euro\":5}"
assistant: location output-available, payment approval-responded {"tone":"kind"} Hello?`},
		"and refuse": {pay: false, want: `user: Hello?
assistant: Let me ask.
assistant: location({"exact":true}) output-available "Bremen"
assistant: payment({"euro":5}) output-denied the call was not allowed: too dear
assistant: location output-available, payment output-denied {"tone":"kind"} Hello?`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := execute(fresh("s"), "asking", "Hello?")
			var ran atomic.Int64
			w.serve(w.worker(map[string]Agent{"asking": asking(0, &ran)}))
			w.request(c)
			snap := w.awaitStatus(c.Session, fold.Paused)
			if len(snap.Pending) != 2 || snap.Pending[0].RunID != "r1" {
				t.Errorf("pending %+v", snap.Pending)
			}
			w.answer(location(c))
			w.resume(c.Session, "asking", "r1") // too early: one answer is missing
			w.answer(payment(c, test.pay, map[bool]string{false: "too dear"}[test.pay]))
			w.await(c.Session, "to rest again", func(snap fold.Snapshot) bool {
				_, _, err := w.queue.Pending(t.Context(), c.Session, "asking")
				return errors.Is(err, commands.ErrNone) && snap.Run.ID == "r1" || snap.Status == fold.Ended
			})
			w.resume(c.Session, "asking", "r1")
			snap = w.awaitStatus(c.Session, fold.Ended)
			if got := told(snap); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
			if ran.Load() != test.ran {
				t.Errorf("the payment ran %d times, want %d", ran.Load(), test.ran)
			}
			if snap.Run.ID != commands.ResumeRunID("r1") || snap.TurnMessages() != 1 {
				t.Errorf("run %s answers with msg-%d", snap.Run.ID, snap.TurnMessages())
			}
		})
	}
}

// Nobody answers: the clock does, without a browser.
func TestTheDeadlinePasses(t *testing.T) {
	w := newWorld(t)
	c := execute(fresh("s"), "asking", "Hello?")
	var ran atomic.Int64
	w.serve(w.worker(map[string]Agent{"asking": asking(time.Second, &ran)}))
	w.request(c)
	snap := w.awaitStatus(c.Session, fold.Ended)
	want := `user: Hello?
assistant: Let me ask.
assistant: location({"exact":true}) output-error nobody answered in time
assistant: payment({"euro":5}) output-error nobody answered in time
assistant: location output-error, payment output-error {"tone":"kind"} Hello?`
	if got := told(snap); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	codes := 0
	for _, b := range w.bodies(c.Session) {
		if end, ok := b.(chunk.ToolEnd); ok && end.ErrorCode != nil && *end.ErrorCode == CodeDeadline {
			codes++
		}
	}
	if codes != 2 || ran.Load() != 0 {
		t.Errorf("%d calls expired, and %d ran, want 2 and 0", codes, ran.Load())
	}
}

// A person says something else instead of answering: the calls are abandoned in
// the turn that asked them, and the next turn begins.
func TestTheCallsAreAbandoned(t *testing.T) {
	w := newWorld(t)
	c := execute(fresh("s"), "asking", "Hello?")
	var ran atomic.Int64
	w.serve(w.worker(map[string]Agent{"asking": asking(0, &ran)}))
	w.request(c)
	w.awaitStatus(c.Session, fold.Paused)
	w.answer(location(c))
	next := c
	next.RunID, next.Input = "r2", []chunk.InputMessage{{Content: "Never mind."}}
	if err := w.queue.Request(t.Context(), next, w.revision(c)); err != nil {
		t.Fatal(err)
	}
	snap := w.await(c.Session, "the second question", func(snap fold.Snapshot) bool { return snap.Run.ID == "r2" && snap.Status == fold.Paused })
	want := `user: Hello?
assistant: Let me ask.
assistant: location({"exact":true}) output-available "Bremen"
assistant: payment({"euro":5}) output-error nobody answered the call
user: Never mind.
assistant: Let me ask.
assistant: location({"exact":true}) input-available 
assistant: payment({"euro":5}) approval-requested `
	if got := told(snap); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	ends := strings.Repeat("tool_end ", 2)
	if got := types(w.bodies(c.Session)); !strings.Contains(got, "stream_paused run_started "+ends+"stream_end run_started step_start") {
		t.Errorf("records %s", got)
	}
}

func (w *world) revision(c commands.Command) commands.Revision {
	w.t.Helper()
	_, at, err := w.queue.Pending(w.t.Context(), c.Session, c.AgentType)
	if err != nil && !errors.Is(err, commands.ErrNone) {
		w.t.Fatal(err)
	}
	return at
}

// parents and children: an agent that asks two others at once, one of which asks
// a browser itself.
func family(t *testing.T) map[string]Agent {
	t.Helper()
	return map[string]Agent{
		"parent": AgentFunc(func(ctx context.Context, turn *Turn) error {
			if turn.Steps() == 0 {
				return turn.Step(ctx, func(ctx context.Context, s *Step) error {
					return errors.Join(
						s.Text(ctx, "I ask my children."),
						s.Tool("a", SubagentTool("child")).Delegate(ctx, map[string]any{"message": "red"}),
						s.Tool("b", SubagentTool("curious")).Delegate(ctx, map[string]any{"colour": "blue"}),
						s.Tool("c", SubagentTool("failing")).Delegate(ctx, map[string]any{}),
					)
				})
			}
			return turn.Step(ctx, func(ctx context.Context, s *Step) error {
				s.Final()
				return s.Text(ctx, "They have answered.")
			})
		}),
		"child": oneStep(func(ctx context.Context, turn *Turn, s *Step) error {
			if turn.Parent() == nil || turn.Session().IsRoot() {
				t.Errorf("a child in %s, of %v", turn.Session(), turn.Parent())
			}
			s.Final()
			return s.Text(ctx, "I say "+turn.Input()[0].Content)
		}),
		"curious": AgentFunc(func(ctx context.Context, turn *Turn) error {
			if turn.Steps() == 0 {
				return turn.Step(ctx, func(ctx context.Context, s *Step) error {
					return s.Tool("where", "location").AskClient(ctx, map[string]any{}, time.Time{})
				})
			}
			return turn.Step(ctx, func(ctx context.Context, s *Step) error {
				return s.Output(ctx, map[string]any{"params": turn.Params(), "at": turn.Messages()[1].Calls()[0].Output})
			})
		}),
		"failing": AgentFunc(func(context.Context, *Turn) error {
			return &Error{Message: "no colours here", Code: "tool_no_colours"}
		}),
	}
}

// Sub-agents run in any worker, in sessions of their own; the parent goes on when
// the last has ended, with their results or failures.
func TestSubagents(t *testing.T) {
	w := newWorld(t)
	c := execute(fresh("s"), "parent", "Colours?")
	for range 3 {
		w.serve(w.worker(family(t)))
	}
	w.request(c)
	curious := childSession(c.Session, "r1", "b")
	waits := w.awaitStatus(curious, fold.Paused)
	w.answer(inbox.Answer{Session: curious, RunID: waits.Run.ID, CallID: "where", Kind: inbox.ClientResult, Result: chunk.Value(`"here"`)})
	w.resume(curious, "curious", waits.Run.ID)
	snap := w.awaitStatus(c.Session, fold.Ended)
	want := `user: Colours?
assistant: I ask my children.
assistant: subagent__child({"message":"red"}) output-available "I say red"
assistant: subagent__curious({"colour":"blue"}) output-available {"at":"here","params":{"colour":"blue"}}
assistant: subagent__failing({}) output-error no colours here
assistant: They have answered.`
	if got := told(snap); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	children := snap.Frontend(true, 0).Children
	for i, want := range []fold.ChildStatus{fold.ChildEnded, fold.ChildEnded, fold.ChildFailed} {
		if len(children) != 3 || children[i].Status != want {
			t.Fatalf("children %+v", children)
		}
	}
	if got := types(w.bodies(c.Session)); strings.Count(got, "subagent_end tool_end") != 3 {
		t.Errorf("records %s, want each subagent_end with its tool_end right behind", got)
	}
}

// A Resume that is looked at before the last answer is stored, and gone after it
// was asked for again, wakes the run all the same.
func TestAResumeThatIsTooEarly(t *testing.T) {
	w := newWorld(t)
	c := execute(fresh("s"), "asking", "Hello?")
	var ran atomic.Int64
	p := w.worker(map[string]Agent{"asking": asking(0, &ran)})
	w.request(c)
	if err := p.Handle(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	w.take(c)
	w.answer(location(c))
	early := commands.Command{Kind: commands.Resume, Session: c.Session, AgentType: "asking", RunID: commands.ResumeRunID("r1"), Resumes: "r1", Mode: modeContinue}
	w.request(early)
	done, ok := errors.AsType[commands.Done](p.Handle(t.Context(), early))
	if !ok {
		t.Fatal("nothing is left to do")
	}
	w.take(c)                                       // the queue has had it
	if err := done.After(t.Context()); err != nil { // nobody has answered
		t.Fatal(err)
	}
	w.answer(payment(c, true, ""))
	if err := done.After(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.serve(p)
	w.awaitStatus(c.Session, fold.Ended)
	if ran.Load() != 1 {
		t.Errorf("the payment ran %d times", ran.Load())
	}
}

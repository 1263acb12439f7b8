package workers

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/projector/fold"
)

// askingAgent calls a browser and asks for an approval in its first step, and reports the outcomes in the
// next.
func askingAgent(deadline time.Duration, ran *atomic.Int64) Agent {
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
			s.MarkFinal()
			for _, call := range s.ApprovedCalls() {
				ran.Add(1)
				if err := call.End(ctx, "paid "+call.Input().String()); err != nil {
					return err
				}
			}
			var outcomes []string
			for _, m := range t.Messages() {
				for _, call := range m.Calls() {
					outcomes = append(outcomes, call.Name+" "+string(call.State))
				}
			}
			return s.Text(ctx, strings.Join(outcomes, ", ")+" "+t.Params().String()+" "+t.Input()[0].Content)
		})
	})
}

func location(c control.Command) control.Answer {
	return control.Answer{Session: c.Session, RunID: c.RunID, CallID: "where", Kind: control.ClientResult, Result: chunk.Value(`"Bremen"`)}
}

func payment(c control.Command, ok bool, reason string) control.Answer {
	return control.Answer{Session: c.Session, RunID: c.RunID, CallID: "pay", Kind: control.Approval, ApprovalID: c.RunID + "::pay", Approved: ok, Reason: reason}
}

// A run with pending calls is suspended, and resumes after the last answer.
func TestAnswers(t *testing.T) {
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
assistant: payment({"euro":5}) output-denied call denied: too dear
assistant: location output-available, payment output-denied {"tone":"kind"} Hello?`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			c := execute(uniqueName("s"), "asking", "Hello?")
			var ran atomic.Int64
			w.serve(w.worker(map[string]Agent{"asking": askingAgent(0, &ran)}))
			w.Request(c)
			snap := w.AwaitStatus(c.Session, fold.Paused)
			if len(snap.Pending) != 2 || snap.Pending[0].RunID != "r1" {
				t.Errorf("pending %+v", snap.Pending)
			}
			w.answer(location(c))
			w.resume(c.Session, "asking", "r1") // early: one answer is missing
			w.answer(payment(c, test.pay, map[bool]string{false: "too dear"}[test.pay]))
			w.Await(c.Session, "to rest again", func(snap fold.Snapshot) bool {
				_, _, err := w.Queue.Pending(t.Context(), c.Session, "asking")
				return errors.Is(err, control.ErrNoCommand) && snap.Run.ID == "r1" || snap.Status == fold.Ended
			})
			w.resume(c.Session, "asking", "r1")
			snap = w.AwaitStatus(c.Session, fold.Ended)
			if got := transcript(snap); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
			if ran.Load() != test.ran {
				t.Errorf("payment ran %d times, want %d", ran.Load(), test.ran)
			}
			if snap.Run.ID != control.ResumeRunID("r1") || snap.TurnMessages() != 1 {
				t.Errorf("run %s answers with msg-%d", snap.Run.ID, snap.TurnMessages())
			}
		})
	}
}

// The deadline answers pending calls without a browser.
func TestDeadline(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "asking", "Hello?")
	var ran atomic.Int64
	w.serve(w.worker(map[string]Agent{"asking": askingAgent(time.Second, &ran)}))
	w.Request(c)
	snap := w.AwaitStatus(c.Session, fold.Ended)
	want := `user: Hello?
assistant: Let me ask.
assistant: location({"exact":true}) output-error no answer before the deadline
assistant: payment({"euro":5}) output-error no answer before the deadline
assistant: location output-error, payment output-error {"tone":"kind"} Hello?`
	if got := transcript(snap); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	codes := 0
	for _, b := range w.Bodies(c.Session) {
		if end, ok := b.(chunk.ToolEnd); ok && end.ErrorCode != nil && *end.ErrorCode == CodeDeadline {
			codes++
		}
	}
	if codes != 2 || ran.Load() != 0 {
		t.Errorf("%d calls expired, and %d ran, want 2 and 0", codes, ran.Load())
	}
}

// A user message arrives instead of the answers: the calls are abandoned in their own turn, and the next turn
// begins.
func TestAbandonedCalls(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "asking", "Hello?")
	var ran atomic.Int64
	w.serve(w.worker(map[string]Agent{"asking": askingAgent(0, &ran)}))
	w.Request(c)
	w.AwaitStatus(c.Session, fold.Paused)
	w.answer(location(c))
	next := c
	next.RunID, next.Input = "r2", []chunk.InputMessage{{Content: "Never mind."}}
	if err := w.Queue.Request(t.Context(), next, w.revision(c)); err != nil {
		t.Fatal(err)
	}
	snap := w.Await(c.Session, "the second question", func(snap fold.Snapshot) bool { return snap.Run.ID == "r2" && snap.Status == fold.Paused })
	want := `user: Hello?
assistant: Let me ask.
assistant: location({"exact":true}) output-available "Bremen"
assistant: payment({"euro":5}) output-error no answer to the call
user: Never mind.
assistant: Let me ask.
assistant: location({"exact":true}) input-available 
assistant: payment({"euro":5}) approval-requested `
	if got := transcript(snap); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	ends := strings.Repeat("tool_end ", 2)
	if got := types(w.Bodies(c.Session)); !strings.Contains(got, "stream_paused run_started "+ends+"stream_end run_started step_start") {
		t.Errorf("records %s", got)
	}
}

// A user sends a message just before the worker that suspends the run checks for answers. The worker leaves the session to the
// run of the message; it resumes the suspended run only if that run is not requested.
func TestAbandonedCallsAreNotResumed(t *testing.T) {
	for name, test := range map[string]struct {
		at      time.Time
		resumes bool
	}{
		"now":                {time.Now(), false},
		"an hour ago":        {time.Now().Add(-time.Hour), true},
		"on a faulty clock":  {time.Now().Add(time.Hour), true},
		"on another machine": {time.Now().Add(time.Second), false},
	} {
		t.Run(name, func(t *testing.T) {
			w, ran := newEnv(t), atomic.Int64{}
			c := execute(uniqueName("s"), "asking", "Hello?")
			for _, a := range []control.Answer{location(c), payment(c, false, "")} {
				a.Result, a.Error, a.ErrorCode, a.At = nil, "message instead of an answer", CodeAbandoned, test.at
				w.answer(a)
			}
			if err := w.worker(map[string]Agent{"asking": askingAgent(0, &ran)}).do(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			next, _, err := w.Queue.Pending(t.Context(), c.Session, c.AgentType)
			if err != nil && !errors.Is(err, control.ErrNoCommand) {
				t.Fatal(err)
			}
			if resumes := next.Kind == control.Resume; resumes != test.resumes {
				t.Errorf("next command is %q, want a resume: %t", next.Kind, test.resumes)
			}
		})
	}
}

func (w *env) revision(c control.Command) control.Revision {
	w.t.Helper()
	_, at, err := w.Queue.Pending(w.t.Context(), c.Session, c.AgentType)
	if err != nil && !errors.Is(err, control.ErrNoCommand) {
		w.t.Fatal(err)
	}
	return at
}

// family returns an agent that delegates to two others concurrently, one of which calls a browser.
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
				s.MarkFinal()
				return s.Text(ctx, "They have answered.")
			})
		}),
		"child": oneStep(func(ctx context.Context, turn *Turn, s *Step) error {
			if turn.Parent() == nil || turn.Session().IsRoot() {
				t.Errorf("a child in %s, of %v", turn.Session(), turn.Parent())
			}
			s.MarkFinal()
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

// Sub-agents run in any worker, in sessions of their own. The parent resumes after the end of the last one,
// with their results or failures.
func TestSubagents(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "parent", "Colours?")
	for range 3 {
		w.serve(w.worker(family(t)))
	}
	w.Request(c)
	curious := control.SubagentSession(c.Session, "r1", "b")
	waits := w.AwaitStatus(curious, fold.Paused)
	w.answer(control.Answer{Session: curious, RunID: waits.Run.ID, CallID: "where", Kind: control.ClientResult, Result: chunk.Value(`"here"`)})
	w.resume(curious, "curious", waits.Run.ID)
	snap := w.AwaitStatus(c.Session, fold.Ended)
	want := `user: Colours?
assistant: I ask my children.
assistant: subagent__child({"message":"red"}) output-available "I say red"
assistant: subagent__curious({"colour":"blue"}) output-available {"at":"here","params":{"colour":"blue"}}
assistant: subagent__failing({}) output-error no colours here
assistant: They have answered.`
	if got := transcript(snap); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	children := aisdk.Snapshot(snap, aisdk.SnapshotOptions{Partial: true}).Children
	for i, want := range []fold.ChildStatus{fold.ChildEnded, fold.ChildEnded, fold.ChildFailed} {
		if len(children) != 3 || children[i].Status != want {
			t.Fatalf("children %+v", children)
		}
	}
	if got := types(w.Bodies(c.Session)); strings.Count(got, "subagent_end tool_end") != 3 {
		t.Errorf("records %s, want each subagent_end followed by its tool_end", got)
	}
}

// A Resume is handled before the last answer is stored and acknowledged after it was requested again: the run
// is resumed nevertheless.
func TestEarlyResume(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "asking", "Hello?")
	var ran atomic.Int64
	p := w.worker(map[string]Agent{"asking": askingAgent(0, &ran)})
	w.Request(c)
	if err := p.handle(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	w.take(c)
	w.answer(location(c))
	early := control.Command{Kind: control.Resume, Session: c.Session, AgentType: "asking", RunID: control.ResumeRunID("r1"), Resumes: "r1", Mode: modeContinue}
	w.Request(early)
	done, ok := errors.AsType[control.AfterAck](p.handle(t.Context(), early))
	if !ok {
		t.Fatal("no AfterAck")
	}
	w.take(c)                                      // acknowledged
	if err := done.Func(t.Context()); err != nil { // no answer is stored
		t.Fatal(err)
	}
	w.answer(payment(c, true, ""))
	if err := done.Func(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.serve(p)
	w.AwaitStatus(c.Session, fold.Ended)
	if ran.Load() != 1 {
		t.Errorf("payment ran %d times", ran.Load())
	}
}

// A worker crashes in a run that resumes another one: the next worker still has the parameters of the first run,
// which neither the command nor a record of the resumed run contains.
func TestParamsAfterCrashOfResumedRun(t *testing.T) {
	w, ran := newEnv(t), atomic.Int64{}
	c := execute(uniqueName("s"), "asking", "Hello?")
	agents := map[string]Agent{"asking": askingAgent(0, &ran)}
	if err := w.worker(agents).do(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	w.answer(location(c))
	w.answer(payment(c, true, ""))
	resume := control.Command{
		Kind: control.Resume, Session: c.Session, AgentType: c.AgentType, RunID: control.ResumeRunID(c.RunID), Resumes: c.RunID,
	}
	var crashing *process
	crashing = w.worker(map[string]Agent{"asking": AgentFunc(func(_ context.Context, _ *Turn) error {
		crashing.Kill()
		return errors.New("connection closed")
	})})
	if err := crashing.do(t.Context(), resume); err == nil {
		t.Fatal("resumed run completed without a connection")
	}
	if err := w.worker(agents).do(t.Context(), resume); err != nil {
		t.Fatal(err)
	}
	const want = `assistant: location output-available, payment approval-responded {"tone":"kind"} Hello?`
	if got := transcript(w.Snapshot(c.Session)); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant suffix\n%s", got, want)
	}
}

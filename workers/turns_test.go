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
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/projector/fold"
)

// echo repeats its input and writes the length of its history.
func echo() map[string]Agent {
	return map[string]Agent{"echo": oneStep(func(ctx context.Context, t *Turn, s *Step) error {
		var inputs []string
		for _, in := range t.Input() {
			inputs = append(inputs, in.Content)
		}
		s.MarkFinal()
		return s.Text(ctx, fmt.Sprintf("%s of %d", strings.Join(inputs, "+"), len(t.Messages())))
	})}
}

// Turns follow one another with the history of the previous ones. A turn that replaces an answer removes it
// from the history; without input it repeats the input of the replaced answer.
func TestTurns(t *testing.T) {
	w := newEnv(t)
	w.serve(w.worker(echo()))
	c := execute(uniqueName("s"), "echo", "a", "b")
	next := func(run, replaces string, inputs ...string) fold.Snapshot {
		c := execute(c.Session.ID, "echo", inputs...)
		c.RunID, c.Replaces = run, replaces
		w.Await(c.Session, "the queue to be empty", func(fold.Snapshot) bool {
			_, _, err := w.Queue.Pending(t.Context(), c.Session, "echo")
			return errors.Is(err, control.ErrNoCommand)
		})
		w.Request(c)
		return w.Await(c.Session, run, func(snap fold.Snapshot) bool { return snap.Run.ID == run && snap.Status == fold.Ended })
	}
	w.Request(c)
	w.AwaitStatus(c.Session, fold.Ended)
	next("r2", "", "c")
	snap := next("r3", "msg-4")
	want := "user: a\nuser: b\nassistant: a+b of 2\nuser: c\nassistant: c of 4"
	if got := transcript(snap); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	snap = next("r4", "msg-3", "d")
	if got, want := transcript(snap), "user: a\nuser: b\nassistant: a+b of 2\nuser: d\nassistant: d of 4"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if n := snap.MessageCount(); n != 9 {
		t.Errorf("%d messages in the log, want all 9", n)
	}
}

// A resumed run continues after the output of the interrupted one.
func TestResumeInterruptedRun(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "story", "A story!")
	started := make(chan struct{}, 1)
	w.serve(w.worker(map[string]Agent{"story": AgentFunc(func(ctx context.Context, turn *Turn) error {
		return turn.Step(ctx, func(ctx context.Context, s *Step) error {
			if turn.Steps() > 0 {
				s.MarkFinal()
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
	w.Request(c)
	<-started
	w.stop(c.Session, "r1", control.StopInterrupt)
	w.AwaitStatus(c.Session, fold.Paused)
	w.resume(c.Session, "story", "r1")
	snap := w.AwaitStatus(c.Session, fold.Ended)
	if got, want := transcript(snap), "user: A story!\nassistant: Once upon a time\nassistant: The end. {\"tone\":\"kind\"}"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, b := range w.Bodies(c.Session) {
		if r, ok := b.(chunk.RunResumed); ok && (r.RunID != "r1" || r.FromStepCount != 1 || r.FromCheckpointID == nil || r.Mode != "continue") {
			t.Errorf("resumed %+v", r)
		}
	}
}

// A user answers and sends a message at once: the answers belong to the previous turn, and the approved call
// runs in the next one.
func TestResumeWithMessage(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "asking", "Hello?")
	var ran atomic.Int64
	asks := askingAgent(0, &ran)
	w.serve(w.worker(map[string]Agent{"asking": AgentFunc(func(ctx context.Context, turn *Turn) error {
		if turn.Input()[0].Content == "Hello?" {
			return asks.Answer(ctx, turn)
		}
		return turn.Step(ctx, func(ctx context.Context, s *Step) error {
			s.MarkFinal()
			for _, call := range s.ApprovedCalls() {
				ran.Add(1)
				if err := call.End(ctx, "paid"); err != nil {
					return err
				}
			}
			return s.Text(ctx, fmt.Sprintf("step %d", s.Number()))
		})
	})}))
	w.Request(c)
	w.AwaitStatus(c.Session, fold.Paused)
	w.awaitNoCommand(c) // a worker that has not left the run yet would continue it with the answers, without the message
	w.answer(location(c))
	w.answer(payment(c, true, ""))
	err := w.Queue.Request(t.Context(), control.Command{
		Kind: control.Resume, Session: c.Session, AgentType: "asking", RunID: control.ResumeRunID("r1"), Resumes: "r1", Mode: "with_message",
		Input: []chunk.InputMessage{{Content: "And hurry."}},
	}, w.revision(c))
	if err != nil {
		t.Fatal(err)
	}
	snap := w.Await(c.Session, "the end", func(snap fold.Snapshot) bool { return snap.Run.ID != "r1" && snap.Status == fold.Ended })
	want := `user: Hello?
assistant: Let me ask.
assistant: location({"exact":true}) output-available "Bremen"
assistant: payment({"euro":5}) output-available "paid"
user: And hurry.
assistant: step 1`
	if got := transcript(snap); got != want || ran.Load() != 1 {
		t.Errorf("got\n%s\nwant\n%s\npayment ran %d times", got, want, ran.Load())
	}
}

// A suspended parent is aborted with its sub-agents, including one that waits for a browser.
func TestAbortIncludesSubagents(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "parent", "Colours?")
	agents := family(t)
	started := make(chan struct{}, 1)
	agents["child"] = endlessAgent(started)
	w.serve(w.worker(agents))
	w.Request(c)
	<-started
	w.AwaitStatus(c.Session, fold.Paused)
	curious := control.SubagentSession(c.Session, "r1", "b")
	w.AwaitStatus(curious, fold.Paused)
	err := w.Queue.Request(t.Context(), control.Command{Kind: control.Abort, Session: c.Session, AgentType: "parent", RunID: "r1", Reason: "enough"}, w.revision(c))
	if err != nil {
		t.Fatal(err)
	}
	snap := w.AwaitStatus(c.Session, fold.Failed)
	if snap.Failure.Message != "run aborted: enough" || len(snap.OpenCalls()) > 0 {
		t.Errorf("failure %+v, open calls %+v", snap.Failure, snap.OpenCalls())
	}
	for _, s := range []chunk.Session{curious, control.SubagentSession(c.Session, "r1", "a")} {
		if snap := w.AwaitStatus(s, fold.Failed); *snap.Failure.Detail.Code != CodeAborted {
			t.Errorf("%s: %+v", s, snap.Failure)
		}
	}
}

// A sub-agent result that exceeds the limits becomes an error; the parent does not wait forever.
func TestLargeSubagentResult(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "parent", "Go.")
	w.serve(w.worker(map[string]Agent{
		"parent": AgentFunc(func(ctx context.Context, turn *Turn) error {
			return turn.Step(ctx, func(ctx context.Context, s *Step) error {
				if turn.Steps() == 0 {
					return s.Tool("a", SubagentTool("child")).Delegate(ctx, map[string]any{})
				}
				s.MarkFinal()
				return s.Text(ctx, fmt.Sprint(len(turn.Messages()[1].Calls()[0].Output)))
			})
		}),
		"child": oneStep(func(ctx context.Context, _ *Turn, s *Step) error {
			return s.Output(ctx, strings.Repeat("x", 505<<10))
		}),
	}))
	w.Request(c)
	snap := w.AwaitStatus(c.Session, fold.Ended)
	if got := transcript(snap); !strings.HasSuffix(got, "assistant: 517122") {
		t.Errorf("got\n%.400s", got)
	}
}

// A step continues after an invalid chunk; a chunk that is too large ends it.
func TestStepRejections(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "bad", "Go.")
	w.serve(w.worker(map[string]Agent{"bad": AgentFunc(func(ctx context.Context, turn *Turn) error {
		var late *Step
		err := turn.Step(ctx, func(ctx context.Context, s *Step) error {
			late = s
			call := s.Tool("c", "search")
			for what, err := range map[string]error{
				"arguments that are not an object": call.Start(ctx, 1),
				"a state that is a text":           s.SetState(ctx, "text"),
				"a sub-agent by a wrong name":      s.Tool("d", "search").Delegate(ctx, map[string]any{}),
				"an end before the start":          call.End(ctx, 1),
			} {
				if !errors.Is(err, chunk.ErrInvalid) {
					t.Errorf("%s: %v, want ErrInvalid", what, err)
				}
			}
			if err := errors.Join(call.Start(ctx, map[string]any{}), call.End(ctx, 1)); err != nil {
				return err
			}
			if err := call.End(ctx, 2); !errors.Is(err, chunk.ErrInvalid) {
				t.Errorf("second end: %v", err)
			}
			if err := s.Custom(ctx, strings.Repeat("x", 600<<10), 1); !errors.Is(err, chunk.ErrTooLarge) {
				t.Errorf("large event: %v", err)
			}
			return nil
		})
		if !errors.Is(err, chunk.ErrTooLarge) {
			t.Errorf("step without a chunk: %v, want ErrTooLarge", err)
		}
		if err := late.Text(ctx, "late"); !errors.Is(err, errClosed) {
			t.Errorf("late write: %v", err)
		}
		return turn.Step(ctx, func(ctx context.Context, s *Step) error {
			s.MarkFinal()
			return s.Text(ctx, "fine")
		})
	})}))
	w.Request(c)
	snap := w.AwaitStatus(c.Session, fold.Ended)
	if got, want := transcript(snap), "user: Go.\nassistant: fine"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A step in a hanging tool is no longer than its worker's grace.
func TestGraceEnds(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "endless", "A story!")
	started := make(chan struct{}, 2)
	first := w.serve(w.worker(map[string]Agent{"endless": endlessAgent(started)}))
	w.Request(c)
	<-started
	begin := time.Now()
	first.Stop()
	if took := time.Since(begin); took < 2*time.Second || took > 8*time.Second {
		t.Errorf("the worker stopped after %s, want its grace of 2s", took)
	}
	w.serve(w.worker(map[string]Agent{"endless": endlessAgent(started)}))
	<-started
	w.stop(c.Session, "r1", control.StopAbort)
	snap := w.AwaitStatus(c.Session, fold.Failed)
	if got := strings.Count(transcript(snap), "Once upon a time"); got != 1 {
		t.Errorf("found %d times:\n%s", got, transcript(snap))
	}
}

// Emit accepts any chunk that the SDK does not own, and applies state patches to the state of the step.
func TestEmit(t *testing.T) {
	w, c := newEnv(t), execute(uniqueName("s"), "emitter", "Go.")
	city := chunk.Value(`"Oslo"`)
	patch := func(op, path string) chunk.StatePatch {
		return chunk.StatePatch{Patches: []chunk.PatchOp{{Op: op, Path: path, Value: &city}}}
	}
	bodies := []chunk.Body{
		chunk.TextDelta{Delta: "Hello."}, patch("add", "/city"), chunk.ExecutorSuperseded{},
		chunk.ToolStart{ToolCallID: "t", ToolName: "search", Arguments: chunk.Value("{}")}, chunk.ToolEnd{ToolCallID: "t", ToolName: "search", Result: city},
	}
	refused := map[string]chunk.Body{
		"nil": nil, "run_started": chunk.RunStarted{}, "stream_end": chunk.StreamEnd{}, "stream_failed": chunk.StreamFailed{},
		"stream_paused": chunk.StreamPaused{}, "stream_active": chunk.StreamActive{}, "truncated": chunk.Truncated{},
		"step_start": chunk.StepStart{}, "step_end": chunk.StepEnd{}, "checkpoint_created": chunk.CheckpointCreated{}, "step_committed": chunk.StepCommitted{},
		"patch that does not apply": patch("replace", "/none/city"), "patch with an empty name": patch("add", "//a"), "arguments that are not an object": chunk.ToolStart{ToolCallID: "t", ToolName: "search", Arguments: chunk.Value("1")},
	}
	w.serve(w.worker(map[string]Agent{"emitter": oneStep(func(ctx context.Context, _ *Turn, s *Step) error {
		for what, body := range refused {
			if err := s.Emit(ctx, body); !errors.Is(err, chunk.ErrInvalid) {
				t.Errorf("%s: %v, want ErrInvalid", what, err)
			}
		}
		for _, body := range bodies {
			if err := s.Emit(ctx, body); err != nil {
				t.Errorf("%s: %v", chunk.Chunk{Body: body}.Type(), err)
			}
		}
		if got := s.State().String(); got != `{"city":"Oslo"}` {
			t.Errorf("state of the step %s", got)
		}
		return s.SetState(ctx, map[string]string{"city": "Bergen"})
	})}))
	w.Request(c)
	snap := w.AwaitStatus(c.Session, fold.Ended)
	if got := snap.State.String(); got != `{"city":"Bergen"}` || snap.Faults.RejectedPatches > 0 {
		t.Errorf("state %s, faults %+v", got, snap.Faults)
	}
	const want = "run_started step_start text_delta state_patch executor_superseded tool_start tool_end state_patch step_end checkpoint_created step_committed stream_end"
	if got := types(w.Bodies(c.Session)); got != want {
		t.Errorf("records\n%s\nwant\n%s", got, want)
	}
}

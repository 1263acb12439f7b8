package workers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// Usage and SetFinishReason reject what step_end cannot hold, and the step is committed with the values before.
// Otherwise step_end would be rejected in every worker, after the model and the tools were called again.
func TestStepEndRejectedAtTheCall(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "careless", "Hello?")
	var calls atomic.Int64
	rejected := make(chan error, 1)
	w.serve(w.worker(map[string]Agent{"careless": oneStep(func(ctx context.Context, _ *Turn, s *Step) error {
		if calls.Add(1) == 1 {
			rejected <- s.SetFinishReason("tool_calls")
			rejected <- s.Usage(chunk.Usage{})
		}
		return errors.Join(s.Text(ctx, "Hello."), s.SetFinishReason("length"), s.Usage(chunk.Usage{InputTokens: "1", OutputTokens: "2"}))
	})}))
	w.Request(c)
	for _, field := range []string{"finishReason", "usage/inputTokens"} {
		err := <-rejected
		if f, ok := errors.AsType[*chunk.FieldError](err); !ok || !errors.Is(err, chunk.ErrInvalid) || f.Field != field {
			t.Errorf("got %v, want a FieldError of %s", err, field)
		}
	}
	w.AwaitStatus(c.Session, fold.Ended)
	for _, b := range w.Bodies(c.Session) {
		if end, ok := b.(chunk.StepEnd); ok && (*end.FinishReason != "length" || end.Usage.OutputTokens != "2") {
			t.Errorf("step_end %s, %+v", *end.FinishReason, end.Usage)
		}
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls of the agent, want 1", n)
	}
}

// A record that can never be stored fails the run, in the first worker. Otherwise the command would be redelivered
// indefinitely, and every worker would call the model and the tools before it writes the same record.
func TestRecordThatCannotBeStored(t *testing.T) {
	for name, agent := range map[string]Agent{
		"code of an error": AgentFunc(func(context.Context, *Turn) error {
			return &Error{Message: "no", Code: "provider_\xff", Category: "\xff"}
		}),
		"member of step_end": oneStep(func(ctx context.Context, _ *Turn, s *Step) error {
			s.finish = "tool_calls" // as if the check of SetFinishReason were missing
			return s.Text(ctx, "Hello.")
		}),
		"final step": oneStep(func(ctx context.Context, _ *Turn, s *Step) error {
			s.finish = "tool_calls"
			s.MarkFinal()
			return s.Text(ctx, "Hello.")
		}),
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			c := execute(uniqueName("s"), "careless", "Hello?")
			var calls atomic.Int64
			w.serve(w.worker(map[string]Agent{"careless": AgentFunc(func(ctx context.Context, turn *Turn) error {
				calls.Add(1)
				return agent.Answer(ctx, turn)
			})}))
			w.Request(c)
			snap := w.AwaitStatus(c.Session, fold.Failed)
			if code := *snap.Failure.Detail.Code; code != CodeInternal && !strings.HasPrefix(code, "provider_") {
				t.Errorf("failure %+v", snap.Failure)
			}
			if n := calls.Load(); n != 1 {
				t.Errorf("%d calls of the agent, want 1", n)
			}
			w.awaitNoCommand(c)
		})
	}
}

// A tool result that is larger than a message is stored, and the model gets all of it. One over the limit of values fails its call, and the run continues.
func TestLargeToolResult(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "reader", "Read it.")
	seen := make(chan []fold.ToolCall, 1)
	w.serve(w.worker(map[string]Agent{"reader": AgentFunc(func(ctx context.Context, turn *Turn) error {
		err := turn.Step(ctx, func(ctx context.Context, s *Step) error {
			one, two := s.Tool("c1", "read"), s.Tool("c2", "read")
			return errors.Join(one.Start(ctx, map[string]any{}), one.End(ctx, strings.Repeat("x", 600<<10)),
				two.Start(ctx, map[string]any{}), two.End(ctx, strings.Repeat("x", 33<<20)))
		})
		if err != nil {
			return err
		}
		var calls []fold.ToolCall
		for _, m := range turn.Messages() {
			calls = append(calls, m.Calls()...)
		}
		seen <- calls
		return turn.Step(ctx, func(ctx context.Context, s *Step) error {
			s.MarkFinal()
			return s.Text(ctx, "Read.")
		})
	})}))
	w.Request(c)
	w.AwaitStatus(c.Session, fold.Ended)
	calls := <-seen
	if len(calls) != 2 || string(calls[0].Output) != `"`+strings.Repeat("x", 600<<10)+`"` {
		t.Fatalf("%d calls, output %.200s", len(calls), calls[0].Output)
	}
	if calls[1].State != fold.CallFailed || !strings.Contains(calls[1].Error, "want at most 33554432") {
		t.Errorf("call over the limit: %+v", calls[1])
	}
	for _, b := range w.Bodies(c.Session) {
		if end, ok := b.(chunk.ToolEnd); ok && end.ToolCallID == "c2" && (end.ErrorCode == nil || *end.ErrorCode != "value_too_large") {
			t.Errorf("tool_end %+v", end)
		}
	}
}

// An input that no record can hold fails its run. A program in another language may have published the command.
func TestInputThatCannotBeStored(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "silent", strings.Repeat("x", 512<<10-100))
	w.serve(w.worker(map[string]Agent{"silent": AgentFunc(func(context.Context, *Turn) error { return nil })}))
	w.Request(c)
	snap := w.AwaitStatus(c.Session, fold.Failed)
	if *snap.Failure.Detail.Code != CodeInternal || snap.Run.ID != c.RunID {
		t.Errorf("run %s, failure %+v", snap.Run.ID, snap.Failure)
	}
	w.awaitNoCommand(c)
}

// Delegate rejects a call whose sub-agent could never be requested: an agent type that is not a token. Otherwise the run would be suspended indefinitely. An input
// over the limit of values is a failed call, see TestArgumentsOverTheLimit.
func TestDelegateRejectedAtTheCall(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "careless", "Hello?")
	rejected := make(chan error, 2)
	w.serve(w.worker(map[string]Agent{"careless": oneStep(func(ctx context.Context, _ *Turn, s *Step) error {
		err := s.Tool("c", SubagentTool("no token")).Delegate(ctx, map[string]any{})
		rejected <- err
		return err
	})}))
	w.Request(c)
	if err := <-rejected; !errors.Is(err, chunk.ErrInvalid) {
		t.Errorf("agent type: %v, want chunk.ErrInvalid", err)
	}
	w.AwaitStatus(c.Session, fold.Failed)
	w.awaitNoCommand(c)
}

// An agent that never ends reaches the limit of its session: its run fails with a code of its own, once, and so does the next one.
func TestRunawayAgent(t *testing.T) {
	w := newEnv(t)
	w.maxSessionChunks, w.maxDelta = 30, 1
	var calls atomic.Int64
	w.serve(w.worker(map[string]Agent{"runaway": oneStep(func(ctx context.Context, _ *Turn, s *Step) error {
		calls.Add(1)
		for {
			if err := s.Text(ctx, "again and "); err != nil {
				return err
			}
		}
	})}))
	session := uniqueName("s")
	for n := int64(1); n <= 2; n++ {
		c := execute(session, "runaway", "Hello?")
		c.RunID = fmt.Sprint("r", n)
		w.Request(c)
		snap := w.Await(c.Session, "the end of "+c.RunID, func(snap fold.Snapshot) bool { return snap.Run.ID == c.RunID && snap.Status == fold.Failed })
		if d := snap.Failure.Detail; d == nil || *d.Code != CodeSessionLimit {
			t.Fatalf("run %d: failure %+v", n, snap.Failure)
		}
		if got := calls.Load(); got != n {
			t.Errorf("%d calls of the agent, want %d", got, n)
		}
		if bodies := len(w.Bodies(c.Session)); bodies > 40 {
			t.Errorf("%d records", bodies)
		}
	}
}

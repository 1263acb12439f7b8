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
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsvalues"
	"github.com/tailrace/tailrace/internal/values"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// A sub-agent gets an input that is larger than a command.
func TestLargeSubagentInput(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "parent", "Go.")
	message := strings.Repeat("x", 600<<10)
	w.serve(w.worker(map[string]Agent{
		"parent": AgentFunc(func(ctx context.Context, turn *Turn) error {
			return turn.Step(ctx, func(ctx context.Context, s *Step) error {
				if turn.Steps() == 0 {
					return s.Tool("a", SubagentTool("child")).Delegate(ctx, map[string]any{"message": message})
				}
				s.MarkFinal()
				return s.Text(ctx, turn.Messages()[1].Calls()[0].Output.String())
			})
		}),
		"child": oneStep(func(ctx context.Context, turn *Turn, s *Step) error {
			return s.Output(ctx, fmt.Sprint(turn.Params().String() == `{"message":"`+message+`"}`, turn.Input()[0].Content == message, turn.Messages()[0].Parts[0].Text == message))
		}),
	}))
	w.Request(c)
	if got := transcript(w.AwaitStatus(c.Session, fold.Ended)); !strings.HasSuffix(got, `assistant: "true true true"`) {
		t.Errorf("got\n%s", got[max(0, len(got)-300):])
	}
}

// The result of a tool may have more members than a record: it is an object, which the agent gets in full.
func TestResultWithManyMembers(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "rows", "Go.")
	rows := make([]string, 50_000)
	for i := range rows {
		rows[i] = fmt.Sprintf("row %d %s", i, strings.Repeat("x", 30))
	}
	w.serve(w.worker(map[string]Agent{"rows": AgentFunc(func(ctx context.Context, turn *Turn) error {
		err := turn.Step(ctx, func(ctx context.Context, s *Step) error {
			call := s.Tool("c", "rows")
			return errors.Join(call.Start(ctx, struct{}{}), call.End(ctx, rows))
		})
		return errors.Join(err, turn.Step(ctx, func(ctx context.Context, s *Step) error {
			s.MarkFinal()
			want, err := chunk.ValueOf(rows)
			return errors.Join(err, s.Text(ctx, fmt.Sprint(turn.Messages()[1].Calls()[0].Output.String() == want.String(), len(want))))
		}))
	})}))
	w.Request(c)
	if got := transcript(w.AwaitStatus(c.Session, fold.Ended)); !strings.HasSuffix(got, "assistant: true 2138891") {
		t.Errorf("got\n%.1000s", got[max(0, len(got)-300):])
	}
}

// A call with large arguments that a user approves runs with all of them.
func TestLargeApprovedCall(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "asking", "Go.")
	var size atomic.Int64
	w.serve(w.worker(map[string]Agent{"asking": AgentFunc(func(ctx context.Context, turn *Turn) error {
		return turn.Step(ctx, func(ctx context.Context, s *Step) error {
			if turn.Steps() == 0 {
				return s.Tool("pay", "payment").AskApproval(ctx, map[string]any{"note": strings.Repeat("x", 600<<10)}, time.Now().Add(time.Hour))
			}
			s.MarkFinal()
			for _, call := range s.ApprovedCalls() {
				size.Store(int64(len(call.Input())))
				if err := call.End(ctx, "paid"); err != nil {
					return err
				}
			}
			return s.Text(ctx, "Done.")
		})
	})}))
	w.Request(c)
	w.AwaitStatus(c.Session, fold.Paused)
	w.answer(payment(c, true, ""))
	w.resume(c.Session, "asking", c.RunID)
	w.AwaitStatus(c.Session, fold.Ended)
	if want := int64(600<<10 + len(`{"note":""}`)); size.Load() != want {
		t.Errorf("the tool got %d bytes, want %d", size.Load(), want)
	}
}

// Arguments over the limit of values fail their call, also one that another program would answer, and the run continues.
func TestArgumentsOverTheLimit(t *testing.T) {
	for name, start := range map[string]func(context.Context, *Step, any) error{
		"own": func(ctx context.Context, s *Step, in any) error {
			call := s.Tool("c", "write")
			return errors.Join(call.Start(ctx, in), call.End(ctx, "written"))
		},
		"browser": func(ctx context.Context, s *Step, in any) error {
			return s.Tool("c", "show").AskClient(ctx, in, time.Now().Add(time.Hour))
		},
		"approval": func(ctx context.Context, s *Step, in any) error {
			return s.Tool("c", "pay").AskApproval(ctx, in, time.Now().Add(time.Hour))
		},
		"agent": func(ctx context.Context, s *Step, in any) error {
			return s.Tool("c", SubagentTool("child")).Delegate(ctx, in)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			c := execute(uniqueName("s"), "caller", "Go.")
			w.serve(w.worker(map[string]Agent{"caller": AgentFunc(func(ctx context.Context, turn *Turn) error {
				return turn.Step(ctx, func(ctx context.Context, s *Step) error {
					if turn.Steps() == 0 {
						return start(ctx, s, map[string]any{"note": strings.Repeat("x", 33<<20)})
					}
					s.MarkFinal()
					return s.Text(ctx, "Done.")
				})
			})}))
			w.Request(c)
			snap := w.AwaitStatus(c.Session, fold.Ended)
			var calls []fold.ToolCall
			for _, m := range snap.Messages(0) {
				calls = append(calls, m.Calls()...)
			}
			if len(calls) != 1 || calls[0].State != fold.CallFailed || !strings.Contains(calls[0].Error, "value_too_large") {
				t.Errorf("calls %+v", calls)
			}
		})
	}
}

// The input of a command has uploads. One that is stored is the agent's file, and a value of the run; the same file of an earlier message takes the place of one that
// is not; without that the run fails, and says why.
func TestUploads(t *testing.T) {
	w := newEnv(t)
	file := []byte(strings.Repeat("pixel", 100<<10))
	store := jsvalues.New(jsclient.New(w.JS), subjects.Layout{})
	first := execute(uniqueName("s"), "looking", "What is it?")
	w.serve(w.worker(map[string]Agent{"looking": oneStep(func(ctx context.Context, turn *Turn, s *Step) error {
		return s.Text(ctx, fmt.Sprint("file ", len(turn.Input()[0].Files[0].URL)))
	})}))
	ask := func(run string, data []byte) fold.Snapshot {
		t.Helper()
		c := first
		c.RunID = run
		c.Input = []chunk.InputMessage{{Content: "What is it?", Files: []chunk.InputFile{{URL: values.URL(c.Session, values.UploadKey(run, data)), MediaType: "image/png"}}}}
		w.Request(c)
		return w.Await(c.Session, "the end of "+run, func(s fold.Snapshot) bool { return s.Run.ID == run && s.Status != fold.Active })
	}
	if err := store.Put(t.Context(), first.Session, values.UploadKey("r1", file), "image/png", file); err != nil {
		t.Fatal(err)
	}
	for _, run := range []string{"r1", "r2"} {
		snap := ask(run, file)
		if got, want := conversation.LastText(snap), fmt.Sprint("file ", len(values.MakeDataURL("image/png", file))); got != want {
			t.Errorf("%s: %q, want %q", run, got, want)
		}
		for _, in := range snap.Inputs() {
			if u := in.Message.Files[0].URL; !strings.Contains(u, "/values/1-run_started-input-") {
				t.Errorf("%s: %.100s, want the value of the first run", run, u)
			}
		}
	}
	snap := ask("r3", []byte(strings.Repeat("other", 100<<10)))
	if snap.Status != fold.Failed || *snap.Failure.Detail.Code != values.CodeLost {
		t.Errorf("%s %+v, want the failure %s", snap.Status, snap.Failure, values.CodeLost)
	}
}

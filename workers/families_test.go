package workers

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/projector/fold"
)

// allFamilies writes one chunk of each family.
func allFamilies(ctx context.Context, t *Turn) error {
	err := t.Step(ctx, func(ctx context.Context, s *Step) error {
		search := s.Tool("call_1", "search")
		return errors.Join(
			s.Think(ctx, "Let me "), s.Think(ctx, "see."), s.Emit(ctx, chunk.Thinking{IsComplete: true}),
			s.Text(ctx, "I will "), s.Text(ctx, "look."),
			search.Args(ctx, `{"q":`), search.Args(ctx, `"soup"}`), search.Start(ctx, map[string]any{"q": "soup"}),
			s.Custom(ctx, "progress", map[string]any{"done": 0.5}),
			search.End(ctx, []string{"lentil", "pea"}),
			s.Emit(ctx, chunk.SourceURL{SourceID: "1", URL: "https://soup.example"}),
			s.Emit(ctx, chunk.SourceDocument{SourceID: "2", MediaType: "text/plain", Title: "Soups"}),
			s.Emit(ctx, chunk.File{URL: "https://soup.example/pea.png", MediaType: "image/png"}),
			s.SetState(ctx, map[string]any{"found": 2, "list": []string{"lentil", "pea"}}),
			use(s, "10", "5"),
		)
	})
	if err != nil {
		return err
	}
	return t.Step(ctx, func(ctx context.Context, s *Step) error {
		broken, bad := s.Tool("call_1", "oven"), s.Tool("call_2", "knife")
		return errors.Join(
			broken.Start(ctx, map[string]any{}), broken.Fail(ctx, errors.New("it is cold")),
			bad.Args(ctx, `{"edge":`), bad.Reject(ctx, "half a JSON", nil),
			s.ReportError(ctx, &Error{Message: "the provider is slow", Code: "provider_overloaded", Retryable: true}),
			s.SetState(ctx, map[string]any{"found": 2, "list": []string{"pea"}}),
			s.SetState(ctx, map[string]any{"found": 2, "list": []string{"pea"}}),
			s.Text(ctx, "Pea soup."),
			use(s, "7", "3"),
			s.Output(ctx, map[string]any{"soup": "pea"}),
		)
	})
}

func use(s *Step, in, out chunk.Number) error {
	return s.Usage(chunk.Usage{InputTokens: in, OutputTokens: out})
}

// The fold returns every family of chunks as it was written.
func TestAllChunkFamilies(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "cook", "Which soup?")
	w.serve(w.worker(map[string]Agent{"cook": AgentFunc(allFamilies)}))
	w.Request(c)
	snap := w.AwaitStatus(c.Session, fold.Ended)
	want := `user: Which soup?
assistant: Let me see.
assistant: I will look.
assistant: search({"q":"soup"}) output-available ["lentil","pea"]
assistant: {"type":"source-url","sourceId":"1","url":"https://soup.example"}
assistant: {"type":"source-document","sourceId":"2","mediaType":"text/plain","title":"Soups"}
assistant: {"type":"file","mediaType":"image/png","url":"https://soup.example/pea.png"}
assistant: oven({}) output-error the tool failed
assistant: knife(null) output-error half a JSON
assistant: Pea soup.`
	got := transcript(snap)
	if strings.Contains(got, "data-progress") {
		got = strings.Replace(got, `assistant: {"type":"data-progress","data":{"done":0.5}}`+"\n", "", 1)
	}
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := snap.State.String(), `{"found":2,"list":["pea"]}`; canonical(snap.State) != canonical(chunk.Value(want)) {
		t.Errorf("state %s, want %s", got, want)
	}
	if got := snap.Run.Output.String(); got != `{"soup":"pea"}` {
		t.Errorf("output %s", got)
	}
	if want := (fold.Usage{Input: 17, Output: 8}); snap.Usage != want {
		t.Errorf("usage %+v, want %+v", snap.Usage, want)
	}
	if len(snap.Errors) != 1 || snap.Errors[0].Code != "provider_overloaded" || !snap.Errors[0].Recoverable {
		t.Errorf("errors %+v", snap.Errors)
	}
	if snap.Faults.RejectedPatches+snap.Faults.Skipped != 0 {
		t.Errorf("faults %+v", snap.Faults)
	}
	calls := snap.Messages(0)
	if id := calls[2].Calls()[0].ID; id != "call_1_1" {
		t.Errorf("the second call_1 is %s, want call_1_1", id)
	}
	w.checkFamilies(c.Session)
}

func (w *env) checkFamilies(s chunk.Session) {
	w.t.Helper()
	bodies := w.Bodies(s)
	patches := 0
	for _, b := range bodies {
		if p, ok := b.(chunk.StatePatch); ok {
			patches++
			if patches == 2 && (len(p.Patches) > 2 || p.Patches[0].Path == "") {
				w.t.Errorf("the second patch is %+v, want one small one", p.Patches)
			}
		}
	}
	if patches != 2 {
		w.t.Errorf("%d state patches, want 2: a SetState without a change writes nothing", patches)
	}
	for _, typ := range []chunk.Type{
		chunk.TypeTextDelta, chunk.TypeThinking, chunk.TypeToolArgStreamStart, chunk.TypeToolArgStreamDelta, chunk.TypeToolArgStreamEnd,
		chunk.TypeToolStart, chunk.TypeToolEnd, chunk.TypeToolInputError, chunk.TypeCustom, chunk.TypeStatePatch, chunk.TypeError, chunk.TypeOutput,
		chunk.TypeSourceURL, chunk.TypeSourceDocument, chunk.TypeFile, chunk.TypeStepStart, chunk.TypeStepEnd, chunk.TypeCheckpointCreated, chunk.TypeStepCommitted,
	} {
		if !strings.Contains(" "+types(bodies)+" ", " "+string(typ)+" ") {
			w.t.Errorf("no %s in the log", typ)
		}
	}
}

// The error of an agent decides how the run ends and which text users see.
func TestRunFailure(t *testing.T) {
	secret := errors.New("dial 10.0.0.7: key sk-123 is wrong")
	for name, test := range map[string]struct {
		agent Agent
		want  string // of the failure
		code  string
	}{
		"with an error of its own": {
			agent: AgentFunc(func(context.Context, *Turn) error { return secret }),
			want:  "internal error", code: CodeInternal,
		},
		"with a classified error": {
			agent: oneStep(func(context.Context, *Turn, *Step) error {
				return &Error{Message: "the model is busy", Code: "provider_overloaded", Retryable: true, Cause: secret}
			}),
			want: "the model is busy", code: "provider_overloaded",
		},
		"with a panic": {
			agent: oneStep(func(context.Context, *Turn, *Step) error { panic(secret) }),
			want:  "internal error", code: CodeInternal,
		},
		"with a call without outcome": {
			agent: oneStep(func(ctx context.Context, _ *Turn, s *Step) error {
				return s.Tool("c", "search").Start(ctx, map[string]any{})
			}),
			want: `tool call "search" without outcome`, code: CodeInternal,
		},
		"with no end of steps": {
			agent: AgentFunc(func(ctx context.Context, t *Turn) error {
				for {
					if err := t.Step(ctx, func(ctx context.Context, s *Step) error { return s.Text(ctx, ".") }); err != nil {
						return err
					}
				}
			}),
			want: "step limit of 50 exceeded", code: CodeStepLimit,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			c := execute(uniqueName("s"), "bad", "Hello?")
			w.serve(w.worker(map[string]Agent{"bad": test.agent}))
			w.Request(c)
			snap := w.AwaitStatus(c.Session, fold.Failed)
			if snap.Failure.Message != test.want || *snap.Failure.Detail.Code != test.code {
				t.Errorf("failure %q (%s), want %q (%s)", snap.Failure.Message, *snap.Failure.Detail.Code, test.want, test.code)
			}
			text, err := json.Marshal(aisdk.Snapshot(snap, aisdk.SnapshotOptions{Partial: true}))
			if err != nil || strings.Contains(string(text), "sk-123") {
				t.Errorf("users see %s (%v)", text, err)
			}
			if open := snap.OpenCalls(); len(open) > 0 {
				t.Errorf("calls without an outcome: %+v", open)
			}
		})
	}
}

// A turn without a limit of steps has more than the default.
func TestStepsWithoutALimit(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "long", "Hello?")
	p := w.worker(map[string]Agent{"long": AgentFunc(func(ctx context.Context, t *Turn) error {
		for range defaultMaxSteps + 5 {
			if err := t.Step(ctx, func(ctx context.Context, s *Step) error { return s.Text(ctx, ".") }); err != nil {
				return err
			}
		}
		return nil
	})})
	p.cfg.MaxSteps = Off
	w.serve(p)
	w.Request(c)
	snap := w.AwaitStatus(c.Session, fold.Ended)
	if got, want := transcript(snap), "user: Hello?"+strings.Repeat("\nassistant: .", defaultMaxSteps+5); got != want {
		t.Errorf("got\n%s", got)
	}
}

// A failed step may be retried; its output is rolled back first.
func TestStepRetry(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "cook", "Hello?")
	w.serve(w.worker(map[string]Agent{"cook": AgentFunc(func(ctx context.Context, turn *Turn) error {
		if err := turn.Step(ctx, func(ctx context.Context, s *Step) error { return s.Text(ctx, "One.") }); err != nil {
			return err
		}
		overloaded := &Error{Message: "busy", Code: "provider_overloaded", Retryable: true}
		err := turn.Step(ctx, func(ctx context.Context, s *Step) error {
			return errors.Join(s.Text(ctx, "Two, bad"), s.SetState(ctx, map[string]any{"bad": true}), overloaded)
		})
		if !errors.Is(err, overloaded) {
			t.Errorf("err = %v", err)
		}
		return turn.Step(ctx, func(ctx context.Context, s *Step) error {
			if got := s.State().String(); got != "{}" {
				t.Errorf("state %s, want the state before the failed step", got)
			}
			s.MarkFinal()
			return s.Text(ctx, "Two.")
		})
	})}))
	w.Request(c)
	snap := w.AwaitStatus(c.Session, fold.Ended)
	if got, want := transcript(snap), "user: Hello?\nassistant: One.\nassistant: Two."; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	resyncs := 0
	for _, b := range w.Bodies(c.Session) {
		if r, ok := b.(chunk.StreamResync); ok {
			resyncs++
			if r.Reason != "retry" || r.StepCount != 1 || r.MessageCount != 2 {
				t.Errorf("resync %+v", r)
			}
		}
	}
	if resyncs != 1 {
		t.Errorf("%d resyncs, want 1", resyncs)
	}
}

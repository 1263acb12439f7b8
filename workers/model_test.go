package workers

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// A model waits 800 ms before its first token: the clock of the worker is that far behind until the function of the step runs. The step has begun then, also one without output.
func TestStartOfStep(t *testing.T) {
	w := newEnv(t)
	const waits = 800 * time.Millisecond
	var behind atomic.Int64
	w.now = func() time.Time { return time.Now().Add(-time.Duration(behind.Load())) }
	slow := func(output bool) func(context.Context, *Step) error {
		behind.Store(int64(waits))
		return func(ctx context.Context, s *Step) error {
			behind.Store(0)
			if !output {
				return nil
			}
			return s.Text(ctx, "first token")
		}
	}
	begin := time.Now()
	w.serve(w.worker(map[string]Agent{"slow": AgentFunc(func(ctx context.Context, turn *Turn) error {
		return errors.Join(turn.Step(ctx, slow(true)), turn.Step(ctx, slow(false)))
	})}))
	c := execute(uniqueName("s"), "slow", "Continue.")
	w.Request(c)
	w.AwaitStatus(c.Session, fold.Ended)
	took, n := time.Since(begin), 0
	for _, got := range w.Chunks(c.Session) {
		start, ok := got.Body.(chunk.StepStart)
		if !ok {
			continue
		}
		n++
		if waited := time.Duration(got.Timestamp-*start.StartedAt) * time.Millisecond; waited < waits-time.Millisecond || waited > waits+took {
			t.Errorf("step %d began %s before its first record, want %s", n, waited, waits)
		}
	}
	if n != 2 {
		t.Errorf("%d steps", n)
	}
}

// The end of a step has its model and its cost. What a provider reports and step_end cannot hold is left out, or refused where the agent can count itself.
func TestModelOfStep(t *testing.T) {
	w := newEnv(t)
	long := strings.Repeat("m", 1<<20)
	w.serve(w.worker(map[string]Agent{"model": AgentFunc(func(ctx context.Context, turn *Turn) error {
		return errors.Join(
			turn.Step(ctx, func(_ context.Context, s *Step) error {
				for _, cost := range []string{"1e999", "-1", long} {
					if err := s.Usage(chunk.Usage{InputTokens: "1", OutputTokens: "1", Cost: &cost}); !errors.Is(err, chunk.ErrInvalid) {
						t.Errorf("a cost of %.9s: %v", cost, err)
					}
				}
				return errors.Join(
					s.Model(chunk.Model{Name: "an earlier one"}),
					s.Model(chunk.Model{Name: "gpt-5-2025-08-07", Requested: "gpt-5", Provider: "openai"}),
					s.Usage(chunk.Usage{InputTokens: "10", OutputTokens: "20", ReasoningTokens: new(chunk.Number("5")), Cost: new("0.00021"), Currency: new("EUR")}),
				)
			}),
			turn.Step(ctx, func(_ context.Context, s *Step) error {
				return s.Model(chunk.Model{Name: long, Requested: "a\x00b", Provider: "openai"})
			}),
		)
	})}))
	c := execute(uniqueName("s"), "model", "Continue.")
	w.Request(c)
	w.AwaitStatus(c.Session, fold.Ended)
	var got []string
	for _, c := range w.Chunks(c.Session) {
		if end, ok := c.Body.(chunk.StepEnd); ok {
			end.StepID = nil
			text, err := chunk.Chunk{AgentID: "s", Body: end}.AppendJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, strings.TrimPrefix(string(text), `{"type":"step_end","agentId":"s","agentType":"","timestamp":0,"step":0,`))
		}
	}
	want := `"usage":{"inputTokens":10,"outputTokens":20,"reasoningTokens":5,"cost":"0.00021","currency":"EUR"},"finishReason":"stop","model":"gpt-5-2025-08-07","requestModel":"gpt-5","provider":"openai"}` + "\n" +
		`"finishReason":"stop","provider":"openai"}`
	if strings.Join(got, "\n") != want {
		t.Errorf("step_end\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

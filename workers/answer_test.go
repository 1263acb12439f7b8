package workers

import (
	"context"
	"testing"

	"github.com/tailrace/tailrace/projector/fold"
)

// An agent of one step without tools.
func TestAnswer(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "plain", "Hello?")
	w.serve(w.worker(map[string]Agent{"plain": oneStep(func(ctx context.Context, turn *Turn, s *Step) error {
		s.MarkFinal()
		return s.Text(ctx, "You said "+turn.Messages()[0].Text()+" "+turn.Params().String())
	})}))
	w.Request(c)
	snap := w.AwaitStatus(c.Session, fold.Ended)
	want := "user: Hello?\nassistant: You said Hello? {\"tone\":\"kind\"}"
	if got := transcript(snap); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := types(w.Bodies(c.Session)), "run_started step_start text_delta step_end checkpoint_created step_committed stream_end"; got != want {
		t.Errorf("records\n%s\nwant\n%s", got, want)
	}
}

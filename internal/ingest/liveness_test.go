package ingest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/retention"
	"github.com/tailrace/tailrace/workers"
)

// Another writer ends the sub-agent, or the run, or deletes both. The client, which does not know that, reads how far it was and repeats its lines: none of those
// that were acknowledged is forgotten or stored again.
func TestAcknowledgedLinesAfterAnotherWriter(t *testing.T) {
	const lines = `{"type":"subagent_start","subAgentType":"sub","subSessionId":"s1-a","callId":"c"}
{"type":"text_delta","agentId":"s1-a","delta":"two"}
{"type":"text_delta","agentId":"s1-a","delta":"three"}
`
	root := chunk.RootSession(tenant, "s1")
	child := root.Child("s1-a")
	for name, test := range map[string]struct {
		write func(context.Context, *workers.Reaper, *retention.Eraser) error
		epoch int64
		left  int // records of the log with the text
	}{
		"the sub-agent is stopped": {func(ctx context.Context, r *workers.Reaper, _ *retention.Eraser) error {
			_, err := r.Abandon(ctx, child, true)
			return err
		}, 1, 1},
		"the run is stopped": {func(ctx context.Context, r *workers.Reaper, _ *retention.Eraser) error {
			_, err := r.Abandon(ctx, root, true)
			return err
		}, 2, 1},
		"both are stopped": {func(ctx context.Context, r *workers.Reaper, _ *retention.Eraser) error {
			if _, err := r.Abandon(ctx, child, true); err != nil {
				return err
			}
			_, err := r.Abandon(ctx, root, true)
			return err
		}, 2, 1},
		"the tree is deleted": {func(ctx context.Context, _ *workers.Reaper, e *retention.Eraser) error { return e.Delete(ctx, root) }, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t, nil)
			w.open(openS1)
			if a := w.append(chunksS1, lines, "Tailrace-First-Line", "1"); a.number("stored") != 3 || a.number("next") != 4 {
				t.Fatalf("%s %s", a, a.body)
			}
			js := w.NewProcess(natsauth.Projector).JS
			reaper := must(workers.NewReaper(js, workers.ReaperConfig{}))(t)
			eraser := must(retention.NewEraser(js, must(jssnapshots.New(js, jssnapshots.Config{}))(t), retention.EraserConfig{}))(t)
			if err := test.write(t.Context(), reaper, eraser); err != nil {
				t.Fatal(err)
			}
			a := w.ask(http.MethodPost, "/v1/sessions/s1/runs", openS1)
			if a.status != http.StatusOK || a.number("epoch") != test.epoch || a.number("stored") != 3 || a.number("next") != 4 {
				t.Errorf("opened again: %s %s", a, a.body)
			}
			if a := w.ask(http.MethodGet, "/v1/sessions/s1/runs/r1", ""); a.number("stored") != 3 || a.number("next") != 4 {
				t.Errorf("the state: %s %s", a, a.body)
			}
			path := fmt.Sprintf("/v1/sessions/s1/runs/r1/chunks?epoch=%d", test.epoch)
			if a := w.append(path, lines, "Tailrace-First-Line", "1"); a.status != http.StatusOK || a.number("stored") != 3 {
				t.Errorf("the lines again: %s %s", a, a.body)
			}
			n := 0
			for rec, err := range w.Log.Replay(t.Context(), chunk.Range{Session: child, FromOldest: true}) {
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(rec.Data), "two") {
					n++
				}
			}
			if n != test.left {
				t.Errorf("the text is stored %d times, want %d", n, test.left)
			}
		})
	}
}

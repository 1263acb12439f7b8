package chat

import (
	"context"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/producers"
)

// What a request to a chat reads counts for the memory of pages: a chat that needs more than there is gets 413 and is not read, and another one is served.
func TestRequestsReadWithinTheBudget(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(func(cfg *edgeConfig) { cfg.edge.ReadBytes = 4 << 20 })
	w.work(func(ctx context.Context, c control.Command, run *producers.Run, _ *env) error {
		pieces := 1
		if c.Input[0].Content == "long" {
			pieces = 4
		}
		for range pieces {
			if err := run.EmitBody(ctx, chunk.TextDelta{Delta: strings.Repeat("x", 300<<10)}); err != nil {
				return err
			}
		}
		return run.End(ctx, nil)
	})
	for id, again := range map[string]string{"short": "start(", "long": "413 {"} {
		e.base = "/api/chat/" + id
		if got := e.post("", chatBody("", user("u1", id))); !strings.HasPrefix(got, "start(") {
			t.Fatalf("%s: %.200s", id, got)
		}
		if got := e.post("", chatBody("", user("u1", id), user("u2", "short"))); !strings.HasPrefix(got, again) || strings.HasPrefix(again, "413") && !strings.Contains(got, "CONTENT_TOO_LARGE") {
			t.Errorf("another message to %s gets %.200s", id, got)
		}
	}
}

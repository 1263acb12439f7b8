package agentserver

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/workers"
)

// A tenant that has as many runs as it may have gets 429 on each surface, and its request is accepted when it is repeated after one has ended.
func TestTooManyRuns(t *testing.T) {
	w := newEnv(t, func(c *edgeConfig) { c.logic.MaxRuns = func(string) int { return 1 } })
	first := w.post("/start", `{"sessionId":"s1","agentType":"helper","message":"hi"}`)
	again := w.post("/start", `{"sessionId":"s1","agentType":"helper","message":"hi"}`)
	if first.status != http.StatusOK || again.status != http.StatusOK || again.body != first.body {
		t.Fatalf("%d %s, again %d %s", first.status, first.body, again.status, again.body)
	}
	for _, got := range []answered{
		w.post("/start", `{"sessionId":"s2","agentType":"helper","message":"hi"}`),
		w.ask(http.MethodPost, "/api/chat", `{"id":"s3","messages":[{"id":"u1","role":"user","parts":[{"type":"text","text":"hi"}]}]}`),
	} {
		if got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") != "2" || !strings.Contains(got.body, "TOO_MANY_RUNS_OF_TENANT") {
			t.Errorf("%d %v %s", got.status, got.header, got.body)
		}
	}
	w.work(func(ctx context.Context, t *workers.Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error { return s.Text(ctx, "done") })
	})
	natstest.Eventually(t, "a run of the second session", func(context.Context) error {
		if got := w.post("/start", `{"sessionId":"s2","agentType":"helper","message":"hi"}`); got.status != http.StatusOK {
			return fmt.Errorf("%d %s", got.status, got.body)
		}
		return nil
	})
}

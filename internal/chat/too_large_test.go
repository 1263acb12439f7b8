package chat

import (
	"context"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/producers"
)

// A page of the SDK keeps a message that was rejected as too large, and sends it again before each later one. The chat stays usable: only the last message
// of a request is rejected for its size.
func TestMessageAfterTooLargeOne(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	w.work(func(ctx context.Context, c control.Command, run *producers.Run, _ *env) error {
		if err := say(ctx, run, 1, c.Input[0].Content[:2]); err != nil {
			return err
		}
		return run.End(ctx, nil)
	})
	large := user("u1", strings.Repeat("x", 500<<10))
	const rejected = "413 {"
	if got := e.post("", chatBody("", large)); !strings.HasPrefix(got, rejected) {
		t.Fatalf("the large message gets %.100s", got)
	}
	want(t, e.post("", chatBody("", large, user("u2", "hi"))), "start(msg-1) start-step text-start text-delta(hi) text-end finish-step finish(stop) DONE")
	if got := e.post("", chatBody("", large, user("u2", "hi"), large)); !strings.HasPrefix(got, rejected) {
		t.Errorf("the large message at the end gets %.100s", got)
	}
	if got := e.page(); !strings.HasPrefix(got, "ended: msg-0 user") {
		t.Errorf("the snapshot is %s", got)
	}
}

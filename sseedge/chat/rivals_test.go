package chat

import (
	"context"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/producers"
)

// An answer that comes when the run has gone on, and is still at work, is told the
// first one: also when the log has not got it yet.
func TestAnsweredWhileItGoesOn(t *testing.T) {
	w := newWorld(t)
	e := w.newEdge(nil)
	ask, begun, release := asking("c1"), make(chan struct{}), make(chan struct{})
	w.work(func(ctx context.Context, c commands.Command, run *producers.Run, w *world) error {
		if c.Kind == commands.Resume {
			close(begun)
			<-release
		}
		return ask(ctx, c, run, w)
	})
	want(t, e.post("", chatBody("", user("u1", "hi"))), asked)
	want(t, e.post("/answers", `{"toolCallId":"c1","result":1}`), "204")
	<-begun
	got := e.post("/answers", `{"toolCallId":"c1","result":2}`)
	close(release)
	if !strings.HasPrefix(got, "409 ") || !strings.Contains(got, codeAnswered) || !strings.Contains(got, `"result":1`) {
		t.Errorf("the second answer is %s", got)
	}
}

package chat

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/producers"
)

// A page loses its connection inside a step, and a cleanup removes the step before the page returns. The edge no longer has the
// records of the step, so it cannot compute which parts the page has of it: a page of version 7, which removes no parts by itself,
// gets the whole message, and one of version 6 gets data-truncated, after which it loads the chat again.
func TestCursorInRemovedStep(t *testing.T) {
	for _, row := range []struct {
		major  int
		inside bool // the cursor is inside of the removed step
		want   string
	}{
		{7, true, "start(msg-1) start-step text-start text-delta(Kept. ) text-end finish-step start-step text-start text-delta(Right.) text-end finish-step finish(stop) DONE"},
		{7, false, "data-truncated start-step text-start text-delta(Right.) text-end finish-step finish(stop) DONE"},
		{6, true, "data-truncated start-step text-start text-delta(Right.) text-end finish-step finish(stop) DONE"},
	} {
		w := newEnv(t)
		half, lost := make(chan struct{}), make(chan struct{})
		w.work(func(ctx context.Context, _ control.Command, run *producers.Run, _ *env) error {
			if err := sayHalf(ctx, run); err != nil {
				return err
			}
			close(half)
			<-lost
			if _, err := run.CleanupToStep(ctx, 1, 0); err != nil {
				return err
			}
			if err := say(ctx, run, 2, "Right."); err != nil {
				return err
			}
			return run.End(ctx, nil)
		})
		e := w.newEdge(func(c *edgeConfig) { c.Dialect.Major = row.major })
		resp, err := e.try(http.MethodPost, "", chatBody("", user("m-1", "Well?")), nil)
		if err != nil {
			t.Fatal(err)
		}
		<-half
		cursor, last := "", "Kept. "
		if row.inside {
			last = "Wrong"
		}
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				cursor = id
			}
			if strings.Contains(lines.Text(), `"delta":"`+last) {
				break
			}
		}
		_ = resp.Body.Close() // the connection is lost
		close(lost)
		w.AwaitStatus(chunk.RootSession("acme", "s1"), "ended")
		got := e.get("/stream", http.Header{"X-Resume-From-Sequence": {cursor}})
		if !row.inside {
			_, got, _ = strings.Cut(got, "finish-step ") // of the step that is kept
		}
		if got != row.want {
			t.Errorf("version %d, cursor inside of the step %v:\ngot  %s\nwant %s", row.major, row.inside, got, row.want)
		}
	}
}

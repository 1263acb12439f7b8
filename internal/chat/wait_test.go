package chat

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/producers"
)

// No worker serves the agent: the page, the log and the metrics get to know it once, and the answer follows when there is a worker.
func TestNoWorker(t *testing.T) {
	w := newEnv(t)
	e, reg := w.newEdgeWithMetrics(func(c *edgeConfig) { c.edge.Heartbeat, c.WaitNotice = 10*time.Millisecond, time.Millisecond })
	page := e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
	page.until("data-run-waiting")
	if last := page.all[len(page.all)-1]; !strings.HasPrefix(last, `{"type":"data-run-waiting","data":{"runId":"run-`) || !strings.HasSuffix(last, `"seconds":0},"transient":true}`) {
		t.Errorf("the notice is %s", last)
	}
	natstest.Eventually(t, "the metric", func(context.Context) error {
		if got := nonzeroMetrics(t, reg); !strings.Contains(got, "waits_total 1\n") {
			return errors.New(got)
		}
		return nil
	})
	w.work(func(ctx context.Context, _ control.Command, run *producers.Run, _ *env) error {
		if err := say(ctx, run, 1, "hello"); err != nil {
			return err
		}
		return run.End(ctx, nil)
	})
	want(t, page.rest(), "start-step text-start text-delta(hello) text-end finish-step finish(stop) DONE")
}

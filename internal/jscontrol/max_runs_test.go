package jscontrol

import (
	"context"
	"errors"
	"testing"

	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// A tenant has at most MaxRuns commands on the queue, waiting and in progress, also while no worker is alive. Repeated requests, sub-agents, resumed runs and
// other tenants are not refused.
func TestRunsOfATenantAreLimited(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	workers := newQueue(t, js, QueueConfig{})
	q := newQueue(t, js, QueueConfig{MaxRuns: func(tenant string) int { return map[string]int{"acme": 2}[tenant] }})
	want := func(c control.Command, refused bool) {
		t.Helper()
		err := q.Request(t.Context(), c, 0)
		if got := errors.Is(err, control.ErrTooManyRuns); got != refused || !got && err != nil {
			t.Fatalf("request of %s: %v", c.Session, err)
		}
	}
	started, finish := make(chan string, 10), make(chan struct{})
	w := serve(t, workers, func(ctx context.Context, c control.Command) error {
		started <- c.Session.ID
		select {
		case <-finish:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	want(executeOf("acme", "s1"), false)
	natstest.Receive(t, "a run", started)
	want(executeOf("acme", "s2"), false)
	natstest.Receive(t, "a run", started)
	want(executeOf("acme", "s3"), true)
	want(executeOf("acme", "s1"), false) // again
	want(executeOf("globex", "s3"), false)
	natstest.Receive(t, "the run of another tenant", started)
	w.stop(t) // the runs have no worker now, and count
	want(executeOf("acme", "s3"), true)

	if err := q.Publish(t.Context(), executeOf("acme", "s3")); !errors.Is(err, control.ErrTooManyRuns) {
		t.Errorf("publish: %v", err)
	}

	child := executeOf("acme", "sub")
	child.Parent = &control.Parent{Session: "s1", AgentType: "support", RunID: "r-s1", CallID: "c1", ToolName: "subagent__support"}
	child.Session.Root = "s1"
	want(child, false)
	want(control.Command{Kind: control.Resume, Session: executeOf("acme", "s4").Session, AgentType: "support", RunID: "r4", Resumes: "r3"}, false)
	want(executeOf("acme", "s3"), true)

	close(finish)
	serve(t, workers, func(context.Context, control.Command) error { return nil })
	natstest.Eventually(t, "an empty queue", func(ctx context.Context) error { return empty(ctx, js, "TR_COMMANDS") })
	want(executeOf("acme", "s3"), false)
}

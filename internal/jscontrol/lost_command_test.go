package jscontrol

import (
	"context"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// A session is deleted and requested again while this process still runs its old command, in a model call that has not noticed it. The new command has the
// same id. It does not wait for the old one, and the old one does not acknowledge it.
func TestCommandOfRestartedSession(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	q := newQueue(t, js, QueueConfig{})
	calls := make(chan chan struct{}, 10)
	w := serve(t, q, func(context.Context, control.Command) error {
		finish := make(chan struct{})
		calls <- finish
		<-finish
		return nil
	})
	request(t, q, execute("s1", "r1"), 0)
	old := natstest.Receive(t, "the old command", calls)
	if some, err := q.DeleteSession(t.Context(), session1); err != nil || !some {
		t.Fatalf("deleted %t, %v", some, err)
	}
	request(t, q, execute("s1", "r1"), 0)
	restarted := natstest.Receive(t, "the new command", calls)
	close(old)
	wantPending(t, q, "r1")
	close(restarted)
	natstest.Eventually(t, "an empty queue", func(ctx context.Context) error { return empty(ctx, js, "TR_COMMANDS") })
	w.stop(t)
	if len(calls) != 0 {
		t.Error("a command was handled twice")
	}
}

// A session is deleted and requested again, and its run sets the same deadline: the server does not take it for a duplicate of the removed one.
func TestDeadlineOfRestartedSession(t *testing.T) {
	js := streamtest.Start(t).JetStream(t)
	q := newQueue(t, js, QueueConfig{})
	soon := time.Now().Add(time.Second)
	publishAt(t, q, "r1", soon)
	if some, err := q.DeleteSession(t.Context(), session1); err != nil || !some {
		t.Fatalf("deleted %t, %v", some, err)
	}
	publishAt(t, q, "r1", soon)
	w, got := serveArrivals(t, q)
	wantDue(t, natstest.Receive(t, "the deadline", got), "r1", soon)
	w.stop(t)
	wantNoDeadlines(t, js)
}

// The server has removed a command, and its response is lost. The follow-up of the command is not lost with it: another client has relied on the command.
func TestFollowUpAfterLostAcknowledgement(t *testing.T) {
	srv := streamtest.Start(t, natstest.Listen())
	js := srv.JetStream(t)
	near := newQueue(t, js, QueueConfig{})
	proxy := natstest.StartProxy(t, srv.NATS().ClientURL())
	far := newQueue(t, natstest.JetStream(t, proxy.URL), QueueConfig{})
	followed := make(chan error, 10)
	w := serve(t, far, func(context.Context, control.Command) error {
		proxy.DropReplies()
		return control.AfterAck{Func: func(ctx context.Context) error {
			followed <- ctx.Err()
			return nil
		}}
	})
	request(t, near, execute("s1", "r1"), 0)
	natstest.Eventually(t, "an empty queue", func(ctx context.Context) error { return empty(ctx, js, "TR_COMMANDS") })
	proxy.Restore()
	if err := natstest.Receive(t, "the follow-up", followed); err != nil {
		t.Errorf("context of the follow-up: %v", err)
	}
	w.stop(t)
}

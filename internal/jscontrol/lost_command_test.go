package jscontrol

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
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
	t.Parallel()
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	near := newQueue(t, js, QueueConfig{})
	proxy := natstest.StartProxy(t, srv.URL)
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

// All commands of a session are listed, also one that only a newer build can read, and none of another session.
func TestCommandsOfSession(t *testing.T) {
	js := streamtest.Start(t).JetStream(t)
	q := newQueue(t, js, QueueConfig{})
	publish(t, q, execute("s1", "r1"))
	publish(t, q, execute("s2", "r1"))
	if _, err := js.Publish(t.Context(), "tr.commands.acme.support.s1", []byte(`{"version":3,"tenant":"acme"}`)); err != nil {
		t.Fatal(err)
	}
	publish(t, q, execute("s1", "r2"))
	var got []string
	for c, err := range q.Commands(t.Context(), session1, "support") {
		if errors.Is(err, control.ErrBusy) {
			got = append(got, "unreadable")
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, c.RunID)
	}
	if want := []string{"r1", "unreadable", "r2"}; !slices.Equal(got, want) {
		t.Errorf("commands %q, want %q", got, want)
	}
	for _, err := range q.Commands(t.Context(), session1, "sup.port") {
		if !errors.Is(err, chunk.ErrInvalid) {
			t.Errorf("an agent type with a dot: %v", err)
		}
	}
}

// The consumer, or the whole stream, is deleted and recreated while a command is in progress. Later commands are delivered, and the acknowledgement of the old
// command does not remove the one that has its sequence now.
func TestQueueIsRecreated(t *testing.T) {
	for _, what := range []string{"consumer", "stream"} {
		t.Run(what, func(t *testing.T) {
			js := streamtest.Start(t).JetStream(t)
			q := newQueue(t, js, QueueConfig{})
			finish := map[string]chan struct{}{"r1": make(chan struct{}), "r2": make(chan struct{})}
			started, followed := make(chan string, 10), make(chan struct{}, 10)
			w := serve(t, q, func(_ context.Context, c control.Command) error {
				started <- c.RunID
				<-finish[c.RunID]
				return control.AfterAck{Func: func(context.Context) error { followed <- struct{}{}; return nil }}
			})
			publish(t, q, execute("s1", "r1"))
			natstest.Receive(t, "the first command", started)
			if what == "consumer" {
				if err := js.DeleteConsumer(t.Context(), "TR_COMMANDS", "agent-support"); err != nil {
					t.Fatal(err)
				}
			} else {
				if err := js.DeleteStream(t.Context(), "TR_COMMANDS"); err != nil {
					t.Fatal(err)
				}
				streamtest.Ensure(t, js, topology.Config{})
			}
			publish(t, q, execute("s1", "r2"))
			if got := natstest.Receive(t, "the second command", started); got != "r2" {
				t.Errorf("got %s, want r2", got)
			}
			close(finish["r1"])
			natstest.Receive(t, "the end of the first command", followed)
			wantPending(t, q, "r2")
			close(finish["r2"])
			natstest.Receive(t, "the end of the second command", followed)
			w.stop(t)
		})
	}
}

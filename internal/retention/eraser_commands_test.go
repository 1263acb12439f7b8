package retention

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// The inbox, the commands and the deadlines of a session are deleted with it, also if no worker has started it yet. Other sessions keep theirs, also one
// with the same name in another tree.
func TestCommandsAndInbox(t *testing.T) {
	w := newEnv(t)
	queue, err := jscontrol.NewQueue(w.JS, jscontrol.QueueConfig{})
	if err != nil {
		t.Fatal(err)
	}
	box, err := jscontrol.NewInbox(w.JS, jscontrol.InboxConfig{})
	if err != nil {
		t.Fatal(err)
	}
	deleted := chunk.RootSession("acme", "s1")
	others := []chunk.Session{chunk.RootSession("acme", "s2"), {Tenant: "acme", Root: "r9", ID: "s1"}, chunk.RootSession("umbrella", "s1")}
	for _, s := range append(others, deleted) {
		for _, agentType := range []string{"support", "billing"} {
			c := control.Command{Kind: control.Execute, Session: s, AgentType: agentType, RunID: agentType + "-" + s.Root}
			if err := queue.Publish(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			c.Kind = control.Expire
			for i := range 3 {
				if err := queue.PublishAt(t.Context(), c, time.Now().Add(time.Duration(i)*time.Hour)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := box.Answer(t.Context(), control.Answer{Session: s, RunID: "r1", CallID: "c1", Kind: control.ClientResult}); err != nil {
			t.Fatal(err)
		}
		if err := box.Stop(t.Context(), control.Stop{Session: s, RunID: "r1", Kind: control.StopAbort}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.eraser.Delete(t.Context(), deleted); err != nil {
		t.Fatalf("only a command: %v", err)
	}
	if _, _, err := queue.Pending(t.Context(), chunk.RootSession("acme", "s2"), "support"); err != nil {
		t.Errorf("the other session has none: %v", err)
	}
	natstest.Eventually(t, "what is due to come", func(ctx context.Context) error {
		for stream, want := range map[string]uint64{"TR_COMMANDS": 6, "TR_DEADLINES": 18, "KV_TR_INBOX": 6} {
			if err := holds(ctx, w.JS, stream, want); err != nil {
				return err
			}
		}
		return nil
	})
	if err := w.eraser.Delete(t.Context(), deleted); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("deleted twice: %v", err)
	}
}

func holds(ctx context.Context, js jetstream.JetStream, name string, want uint64) error {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return err
	}
	if n := stream.CachedInfo().State.Msgs; n != want {
		return fmt.Errorf("%s holds %d, want %d", name, n, want)
	}
	return nil
}

// A session is deleted while its worker runs. The worker is fenced, and its command is not redelivered: the session stays deleted.
func TestCommandDoesNotRestartADeletedSession(t *testing.T) {
	w := newEnv(t)
	queue, err := jscontrol.NewQueue(w.JS, jscontrol.QueueConfig{AckWait: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s := chunk.RootSession("acme", "s1")
	begun := make(chan struct{}, 100)
	deleted := make(chan struct{})
	ended := make(chan error, 100)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- queue.Serve(ctx, []string{"support"}, func(ctx context.Context, c control.Command) error {
			run, err := w.producer.Start(ctx, c.Session, chunk.RunStarted{RunID: c.RunID, Mode: "execute"})
			if err != nil {
				return err
			}
			begun <- struct{}{}
			<-deleted
			err = run.End(t.Context(), nil) // with ctx, the record might be in the queue of the producer when the test ends
			ended <- err
			return err
		})
	}()
	if err := queue.Request(t.Context(), control.Command{Kind: control.Execute, Session: s, AgentType: "support", RunID: "r1"}, 0); err != nil {
		t.Fatal(err)
	}
	natstest.Receive(t, "the run", begun)
	if err := w.eraser.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	close(deleted)
	if err := natstest.Receive(t, "the end of the run", ended); !errors.Is(err, chunk.ErrFenced) {
		t.Errorf("the run ended with %v, want ErrFenced", err)
	}
	if err := holds(t.Context(), w.JS, "TR_COMMANDS", 0); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := w.eraser.Delete(t.Context(), s); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("the session exists: %v", err)
	}
}

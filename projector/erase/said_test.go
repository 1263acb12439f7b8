package erase

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/internal/natstest"
)

// What people said to a session, what waits for it and when somebody was to look
// at it go with the session, also when no worker has begun yet. Others keep
// theirs, and so does a session of the same name in another tree.
func TestWhatWasSaidGoes(t *testing.T) {
	w := newWorld(t)
	queue, err := commands.New(w.js, commands.Config{})
	if err != nil {
		t.Fatal(err)
	}
	box, err := inbox.New(w.js, inbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	doomed := chunk.RootSession("acme", "s1")
	others := []chunk.Session{chunk.RootSession("acme", "s2"), {Tenant: "acme", Root: "r9", ID: "s1"}, chunk.RootSession("umbrella", "s1")}
	for _, s := range append(others, doomed) {
		for _, agentType := range []string{"support", "billing"} {
			c := commands.Command{Kind: commands.Execute, Session: s, AgentType: agentType, RunID: agentType + "-" + s.Root}
			if err := queue.Publish(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			c.Kind = commands.Expire
			for i := range 3 {
				if err := queue.PublishAt(t.Context(), c, time.Now().Add(time.Duration(i)*time.Hour)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := box.Answer(t.Context(), inbox.Answer{Session: s, RunID: "r1", CallID: "c1", Kind: inbox.ClientResult}); err != nil {
			t.Fatal(err)
		}
		if err := box.Stop(t.Context(), inbox.Stop{Session: s, RunID: "r1", Kind: inbox.Abort}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.eraser.Delete(t.Context(), doomed); err != nil {
		t.Fatalf("nothing but a command: %v", err)
	}
	if _, _, err := queue.Pending(t.Context(), chunk.RootSession("acme", "s2"), "support"); err != nil {
		t.Errorf("the other session has none: %v", err)
	}
	natstest.Await(t, "what is due to come", func(ctx context.Context) error {
		for stream, want := range map[string]uint64{"TR_COMMANDS": 6, "TR_DEADLINES": 18, "KV_TR_INBOX": 6} {
			if err := holds(ctx, w.js, stream, want); err != nil {
				return err
			}
		}
		return nil
	})
	if err := w.eraser.Delete(t.Context(), doomed); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("once more: %v", err)
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

// A worker is at work when its session is deleted. It is fenced, and nobody else
// gets its command: the session stays dead.
func TestCommandDoesNotBeginADeletedSessionAnew(t *testing.T) {
	w := newWorld(t)
	queue, err := commands.New(w.js, commands.Config{AckWait: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s := chunk.RootSession("acme", "s1")
	begun := make(chan struct{}, 100)
	deleted := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- queue.Serve(ctx, []string{"support"}, func(ctx context.Context, c commands.Command) error {
			run, err := w.producer.Start(ctx, c.Session, chunk.RunStarted{RunID: c.RunID, Mode: "execute"})
			if err != nil {
				return err
			}
			begun <- struct{}{}
			<-deleted
			return run.End(ctx, nil)
		})
	}()
	if err := queue.Request(t.Context(), commands.Command{Kind: commands.Execute, Session: s, AgentType: "support", RunID: "r1"}, 0); err != nil {
		t.Fatal(err)
	}
	<-begun
	if err := w.eraser.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	close(deleted)
	if err := holds(t.Context(), w.js, "TR_COMMANDS", 0); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := w.eraser.Delete(t.Context(), s); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("it lives: %v", err)
	}
}

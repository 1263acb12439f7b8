package natstest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/natstest"
)

// SIGKILL loses nothing that was acknowledged, and the same connection goes on.
func TestProcessIsKilledAndComesBack(t *testing.T) {
	p := natstest.StartProcess(t)
	js := p.JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s.1", []byte("one")); err != nil {
		t.Fatal(err)
	}
	url, pid := p.URL, p.PID(t)
	p.Restart(t)
	if p.URL != url || p.PID(t) == pid {
		t.Errorf("after the restart URL %s, pid %d; want %s and another pid than %d", p.URL, p.PID(t), url, pid)
	}
	if msg := lastMessage(t, js, "S", "s.1"); string(msg.Data) != "one" {
		t.Errorf("after the kill s.1 is %q, want %q", msg.Data, "one")
	}
	p.Shutdown(t)
	p.Start(t)
	if msg := lastMessage(t, js, "S", "s.1"); string(msg.Data) != "one" {
		t.Errorf("after the shutdown s.1 is %q, want %q", msg.Data, "one")
	}
}

// A stopped server keeps its connections and answers nobody until it goes on.
func TestProcessStopsAndGoesOn(t *testing.T) {
	p := natstest.StartProcess(t)
	nc := p.Conn(t)
	p.Stop(t)
	if err := nc.FlushTimeout(100 * time.Millisecond); !errors.Is(err, nats.ErrTimeout) {
		t.Errorf("flush to a stopped server: %v, want a timeout", err)
	}
	p.Cont(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := nc.FlushWithContext(ctx); err != nil {
		t.Errorf("flush to a server that goes on: %v", err)
	}
}

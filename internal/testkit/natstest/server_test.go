package natstest_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// Acknowledged messages survive a restart, and the connection reconnects
// automatically.
func TestServerKeepsItsFilesOverARestart(t *testing.T) {
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s.1", []byte("one")); err != nil {
		t.Fatal(err)
	}
	srv.Restart(t)
	msg := lastMessage(t, js, "S", "s.1")
	if string(msg.Data) != "one" {
		t.Errorf("after the restart s.1 is %q, want %q", msg.Data, "one")
	}
}

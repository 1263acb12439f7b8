package natstest_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// The leader of a replicated stream is killed: another node leads and has the acknowledged messages, and the killed
// node restarts and catches up.
func TestClusterAfterLeaderCrash(t *testing.T) {
	c := natstest.StartCluster(t, 3)
	js := c.JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}, Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	// A new leader may not be known to every node yet: a publish through another node has no responder until then.
	if _, err := js.Publish(t.Context(), "s.1", []byte("one"), jetstream.WithRetryAttempts(20)); err != nil {
		t.Fatal(err)
	}
	first := c.Leader(t, "S")
	c.Kill(t, first)
	if second := c.Leader(t, "S"); second == first {
		t.Errorf("node %d leads after it was killed", first)
	}
	if msg := lastMessage(t, js, "S", "s.1"); string(msg.Data) != "one" {
		t.Errorf("after the kill s.1 is %q, want %q", msg.Data, "one")
	}
	c.Restart(t, first)
	c.AwaitCurrent(t, "S")
	third := c.Leader(t, "S")
	if now := c.StepDown(t, "S"); now == third {
		t.Errorf("node %d leads after it stepped down", third)
	}
	c.AwaitCurrent(t, "S")
	c.KillAll(t)
	c.RestartAll(t)
	if msg := lastMessage(t, js, "S", "s.1"); string(msg.Data) != "one" {
		t.Errorf("after killing all s.1 is %q, want %q", msg.Data, "one")
	}
	if leader := c.MetaLeader(t); leader < 0 || leader > 2 {
		t.Errorf("meta leader is node %d", leader)
	}
}

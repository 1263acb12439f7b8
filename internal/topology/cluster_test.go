package topology

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/subjects"
)

// On a cluster: processes that start together on different nodes create three replicas of everything. After the leader was killed two of three servers are
// enough for Check.
func TestCluster(t *testing.T) {
	c := natstest.StartCluster(t, 3)
	cfg := Config{Layout: subjects.Layout{Partitions: 2}, Replicas: 3}
	var all sync.WaitGroup
	for i := range 3 {
		js := clusterNode(t, c, i)
		all.Go(func() {
			if err := Ensure(t.Context(), js, cfg); err != nil {
				t.Errorf("Ensure at node %d: %v", i, err)
			}
		})
	}
	all.Wait()
	js := c.JetStream(t)
	if err := Check(t.Context(), js, cfg); err != nil {
		t.Fatalf("Verify: %v", err)
	}
	for _, stream := range []string{"TR_CHUNKS_0", "TR_CHUNKS_1", "TR_COMMANDS", "TR_DEADLINES", "KV_TR_INBOX", "KV_TR_SNAPSHOTS"} {
		c.AwaitCurrent(t, stream)
	}
	single := cfg
	single.Replicas = 1
	if wantLine(t, js, single, "TR_CHUNKS_1: number of replicas is 3, want 1; change it with `nats stream edit TR_CHUNKS_1`, or set Replicas to 3") {
		t.Error("more replicas than required are of class Breaks")
	}

	leader := c.Leader(t, "TR_CHUNKS_0")
	c.Kill(t, leader)
	natstest.Eventually(t, "Verify after the leader fell", func(ctx context.Context) error { return Check(ctx, js, cfg) })
	c.Restart(t, leader)
	natstest.Eventually(t, "Ensure with all back", func(ctx context.Context) error { return Ensure(ctx, js, cfg) })
}

// A cluster that is smaller than the number of replicas: Ensure waits for the others, and then reports the servers, not the time.
func TestTooSmallACluster(t *testing.T) {
	js := natstest.StartCluster(t, 2).JetStream(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	wantSentence(t, Ensure(ctx, js, Config{Replicas: 3}),
		"create stream TR_CHUNKS_0: the cluster has too few servers with JetStream and storage for the replicas: start the missing ones, or set Replicas to 1")
}

func clusterNode(t *testing.T, c *natstest.Cluster, i int) jetstream.JetStream {
	t.Helper()
	return c.Node(i).JetStream(t)
}

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/subjects"
)

// Two edges are behind a balancer that answers 503 itself while no edge is ready, which ends an
// EventSource for good. One of two partitions of the log has no leader for ten seconds, 20 probes of
// the balancer, or more; then an operator edits the stream of the other one. Each time half of the
// 500 clients lose their connection. The edges stay ready, the sessions of the other partition
// continue, and every client has received the whole log at the end.
func TestOnePartitionWithoutLeader(t *testing.T) {
	cluster := natstest.StartCluster(t, 5)
	streams := topology.Config{Layout: subjects.Layout{Partitions: 2}, Replicas: 3}
	const lost, kept = 1, 0
	js := cluster.JetStream(t)
	createPlaced(t, js, streams, streams.Layout.Stream(lost))
	url := strings.Join(cluster.URLs()[:3], ",")
	rec := startWritersOn(t, url, writerConfig{streams: streams, prefix: "s", sessions: 20, pace: 400 * time.Millisecond})
	edges := make([]*edgeProcess, 2)
	for i := range edges {
		edges[i] = startEdge(t, url, "--partitions", "2", "--replicas", "3")
	}
	lb := startBalancer(t, edges...)
	lb.strict.Store(true)
	readers := rec.startReaders(t, lb.addr, 500, nil)
	readers.awaitAll(t)
	partition := func(s chunk.Session) int { return streams.Layout.Partition(s) }

	for i := range 2 {
		cluster.Kill(t, 3+i)
	}
	cluster.Kill(t, 2) // with the consumers of the edges, which cannot be created again
	cluster.Restart(t, 2)
	began, over := time.Now(), time.After(10*time.Second)
	awaitReport(t, edges, streams.Layout.Stream(lost), "failed")
	lb.cut()
	rec.awaitMoreOf(t, func(w *writer) bool { return partition(w.root) == kept })
	readers.awaitTips(t, func(f *follower) bool { return partition(f.root) == kept })
	<-over
	lb.cut()
	t.Logf("partition %d was without a leader for %s", lost, time.Since(began))
	for i := range 2 {
		cluster.Restart(t, 3+i)
	}
	cluster.AwaitCurrent(t, streams.Layout.Stream(lost))
	awaitReport(t, edges, streams.Layout.Stream(lost), "ok")
	rec.awaitMore(t)
	readers.awaitAll(t)

	setDirectGet(t, js, streams.Layout.Stream(kept), false)
	awaitReport(t, edges, streams.Layout.Stream(kept), "failed")
	lb.cut()
	rec.awaitMore(t)
	readers.awaitAll(t)
	setDirectGet(t, js, streams.Layout.Stream(kept), true)

	readers.checkAll(t)
	for _, to := range lb.backends {
		if n := to.unready.Load(); n > 0 {
			t.Errorf("edge %s was unready at %d probes, at last: %v", to.addr, n, to.reason.Load())
		}
	}
	cuts, refused := 0, 0
	for _, f := range readers.followers {
		cuts += f.statuses[http.StatusOK] - 1
		refused += f.refused
	}
	t.Logf("%d reconnects, %d of them rejected with a retry field", cuts, refused)
	if minCuts := len(readers.followers) / 2; cuts < minCuts {
		t.Errorf("%d reconnects, want at least %d", cuts, minCuts)
	}
}

// createPlaced creates the streams, all on the nodes 0 to 2 but apart, which is on the nodes 2 to 4.
func createPlaced(t *testing.T, js jetstream.JetStream, cfg topology.Config, apart string) {
	t.Helper()
	all, err := topology.Streams(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range all {
		stream.Placement = &jetstream.Placement{Tags: []string{"!n3", "!n4"}}
		if stream.Name == apart {
			stream.Placement.Tags = []string{"!n0", "!n1"}
		}
		natstest.Eventually(t, "the stream "+stream.Name, func(ctx context.Context) error {
			_, err := js.CreateStream(ctx, stream)
			if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
				return nil // the response to an earlier attempt was lost
			}
			return err
		})
	}
}

// setDirectGet edits a stream: without direct get, a guarantee of Tailrace does not hold.
func setDirectGet(t *testing.T, js jetstream.JetStream, name string, on bool) {
	t.Helper()
	natstest.Eventually(t, "the edit of "+name, func(ctx context.Context) error {
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return err
		}
		cfg := stream.CachedInfo().Config
		if cfg.AllowDirect == on {
			return nil
		}
		cfg.AllowDirect = on
		_, err = js.UpdateStream(ctx, cfg)
		return err
	})
}

// awaitReport waits until each edge reports the state of a dependency, ready or not.
func awaitReport(t *testing.T, edges []*edgeProcess, name, want string) {
	t.Helper()
	for _, e := range edges {
		natstest.Eventually(t, fmt.Sprintf("%s to be %s on %s", name, want, e.ops), func(context.Context) error {
			status, _, body := get(t, "http://"+e.ops+"/readyz")
			switch {
			case strings.Contains(body, fmt.Sprintf("%q:%q", name, want)):
				return nil
			case status != http.StatusOK && want == "failed", status == http.StatusOK && want == "ok" && !strings.Contains(body, "dependencies"):
				return nil // a version whose readiness depends on the streams
			}
			return errors.New(body)
		})
	}
}

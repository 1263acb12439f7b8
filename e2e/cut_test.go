//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
)

// The size of the test. Each writer emits a chunk every pace on average, so the test lasts about twenty seconds.
const (
	cutSessions = 50
	cutClients  = 4 // of each session
	cutChunks   = 150
	cutPace     = 100 * time.Millisecond
)

// Two hundred clients are disconnected after random bytes, also within events, while fifty sessions, some with
// sub-agents, are written. The NATS server is killed and restarted four times, and stays down until a new client gets
// 503. Each client resumes with the last complete id and has received the whole log at the end.
func TestClientsResumeWhileTheServerIsKilled(t *testing.T) {
	server := natstest.StartProcess(t)
	w := newEdgeEnv(t, edgeEnvConfig{
		write: server.Conn(t), feed: server.Conn(t, asEdge(t)...), edge: httpedge.Config{AttachTimeout: 500 * time.Millisecond, HubBytes: cutMemory},
	})
	w.runCuts(t, 4, treeOptions{chunks: cutChunks}, func() {
		server.Kill(t)
		awaitStatusCode(t, w.url+"/v1/sessions/unknown/events", http.StatusServiceUnavailable)
		server.Start(t)
	})
}

// Clients are disconnected as above while the leader of a cluster of three steps down repeatedly. The consumers of the
// edge move too, or lag behind the leader.
func TestCutClientsWhileTheLeaderMoves(t *testing.T) {
	cluster := natstest.StartCluster(t, 3)
	w := newEdgeEnv(t, edgeEnvConfig{replicas: 3, write: cluster.Conn(t), feed: cluster.Conn(t, asEdge(t)...), edge: httpedge.Config{HubBytes: cutMemory}})
	w.runCuts(t, 8, treeOptions{chunks: cutChunks}, func() { cluster.StepDown(t, "TR_CHUNKS_0") })
}

// The same with an edge that follows the sessions it serves: at each step-down, stored records are not republished. The sessions have no sub-agents: for a tree
// that misses a record of one session before a record of another one, clients would have to load a snapshot.
func TestCutClientsOfAnInterestFeedWhileTheLeaderMoves(t *testing.T) {
	cluster := natstest.StartCluster(t, 3)
	w := newEdgeEnv(t, edgeEnvConfig{
		replicas: 3, write: cluster.Conn(t), feed: cluster.Conn(t, asEdge(t)...), interest: true, edge: httpedge.Config{HubBytes: cutMemory},
	})
	w.runCuts(t, 4, treeOptions{chunks: cutChunks / 2, flat: true}, func() { cluster.StepDown(t, "TR_CHUNKS_0") })
}

// cutMemory is less than the size of the records, so that clients have to read from the log.
const cutMemory = 1 << 20

// runCuts writes the sessions while their clients read them, and calls fault at equal distances of the written
// records.
func (w *edgeEnv) runCuts(t *testing.T, faults int, opts treeOptions, fault func()) {
	t.Helper()
	generator := seedtest.Rand(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var emitted atomic.Int64
	due := make(chan struct{}, faults)
	opts.clients, opts.cut, opts.retryUnavailable = cutClients, 8_000, true
	opts.pace = func(ctx context.Context) error {
		share := int64(cutSessions * opts.chunks / (faults + 1))
		if n := emitted.Add(1); n%share == 0 && n/share <= int64(faults) {
			due <- struct{}{}
		}
		select {
		case <-time.After(cutPace):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	trees := make([]writtenTree, cutSessions)
	writing, ctx := errgroup.WithContext(ctx)
	for i := range trees {
		random := rand.New(rand.NewPCG(generator.Uint64(), uint64(i)))
		writing.Go(func() (err error) {
			trees[i], err = w.writeTree(ctx, chunk.RootSession("default", fmt.Sprintf("s%d", i)), opts, random)
			return err
		})
	}
	done := make(chan error, 1)
	go func() { done <- writing.Wait() }()
	for range faults { // on the goroutine of the test, because it may call FailNow
		select {
		case <-due:
			fault()
		case err := <-done:
			t.Fatalf("the writers ended before the last fault: %v", err)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	connections := 0
	for _, tree := range trees {
		w.check(t, tree)
		for _, client := range tree.clients {
			connections += client.connections
		}
	}
	t.Logf("%d connections, %d resets of the feed, %d pages read", connections, w.feed.Stats().Resets, w.hub.Stats().Reads)
	if minConnections := 3 * cutSessions * cutClients * opts.chunks / cutChunks; connections < minConnections {
		t.Errorf("%d connections, want %d: clients were not disconnected", connections, minConnections)
	}
}

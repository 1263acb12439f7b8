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
	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/sseedge"
	"github.com/tailrace/tailrace/sseedge/hub"
)

// The size of the storm on the edge. Each writer says something every pace on
// average: it lasts some twenty seconds.
const (
	cutSessions = 50
	cutClients  = 4 // of each session
	cutChunks   = 150
	cutPace     = 100 * time.Millisecond
)

// Two hundred clients are cut at random bytes, in the middle of events too, while
// fifty sessions, some with sub-agents, are written and the NATS server is killed
// with -9 and started again, four times, and stays away until a stranger is told
// so. Each client comes back with the last id it has whole, and holds the log in
// the end.
func TestCutClientsWhileTheServerDies(t *testing.T) {
	server := natstest.StartProcess(t)
	w := newEdgeWorld(t, worldConfig{
		write: server.Conn(t), feed: server.Conn(t), hub: cutMemory, edge: sseedge.Config{Attach: 500 * time.Millisecond},
	})
	w.cutStorm(t, 4, func() {
		server.Kill(t)
		awaitStatusCode(t, w.url+"/v1/sessions/stranger/events", http.StatusServiceUnavailable)
		server.Start(t)
	})
}

// The same over a cluster of three whose leader hands over again and again. The
// consumers of the edge move too, or lag behind the leader.
func TestCutClientsWhileTheLeaderMoves(t *testing.T) {
	cluster := natstest.StartCluster(t, 3)
	w := newEdgeWorld(t, worldConfig{replicas: 3, write: cluster.Conn(t), feed: cluster.Conn(t), hub: cutMemory})
	w.cutStorm(t, 8, func() { cluster.StepDown(t, "TR_CHUNKS_0") })
}

// cutMemory is less than is written, so that clients fall out of it.
var cutMemory = hub.Config{Memory: 1 << 20, Page: 64 << 10}

// cutStorm writes the sessions before their clients, and does to the server what
// fault does, at equal distances of what is written.
func (w *edgeWorld) cutStorm(t *testing.T, faults int, fault func()) {
	t.Helper()
	dice := seeded(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var said atomic.Int64
	marks := make(chan struct{}, faults)
	tale := plot{clients: cutClients, chunks: cutChunks, cut: 8_000, patient: true, pace: func(ctx context.Context) error {
		share := int64(cutSessions * cutChunks / (faults + 1))
		if n := said.Add(1); n%share == 0 && n/share <= int64(faults) {
			marks <- struct{}{}
		}
		select {
		case <-time.After(cutPace):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}
	stories := make([]told, cutSessions)
	storm, ctx := errgroup.WithContext(ctx)
	for i := range stories {
		random := rand.New(rand.NewPCG(dice.Uint64(), uint64(i)))
		storm.Go(func() (err error) {
			stories[i], err = w.tell(ctx, chunk.RootSession("default", fmt.Sprintf("s%d", i)), tale, random)
			return err
		})
	}
	over := make(chan error, 1)
	go func() { over <- storm.Wait() }()
	for range faults { // here, on the goroutine of the test, which may fail
		select {
		case <-marks:
			fault()
		case err := <-over:
			t.Fatalf("the storm was over before the faults were: %v", err)
		}
	}
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	connections := 0
	for _, story := range stories {
		w.check(t, story)
		for _, client := range story.clients {
			connections += client.connections
		}
	}
	t.Logf("%d connections, %d resets of the feed, %d pages read", connections, w.feed.Stats().Resets, w.hub.Stats().Reads)
	if least := 3 * cutSessions * cutClients; connections < least {
		t.Errorf("%d connections, want %d: nobody was cut", connections, least)
	}
}

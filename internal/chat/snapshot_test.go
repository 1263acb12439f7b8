package chat

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
)

// pausedSnapshots are snapshots whose reads of all messages wait for release.
type pausedSnapshots struct {
	conversation.Snapshots

	begun   chan struct{} // gets a value for each read
	release chan struct{}
}

func newPausedSnapshots() *pausedSnapshots {
	return &pausedSnapshots{begun: make(chan struct{}, 100), release: make(chan struct{})}
}

// Snapshot does not end with ctx: a client that leaves, or a timeout, ends no read that the server has begun.
func (p *pausedSnapshots) Snapshot(ctx context.Context, s chunk.Session) (fold.Snapshot, error) {
	p.begun <- struct{}{}
	<-p.release
	return p.Snapshots.Snapshot(context.WithoutCancel(ctx), s)
}

// newPausedEdge returns an edge whose reads of the snapshot of a chat wait for the test.
func (w *env) newPausedEdge(change func(*edgeConfig)) (*edge, *pausedSnapshots) {
	paused := newPausedSnapshots()
	return w.newEdge(func(cfg *edgeConfig) {
		paused.Snapshots, cfg.ports.Snapshots = cfg.ports.Snapshots, paused
		if change != nil {
			change(cfg)
		}
	}), paused
}

// goGet requests a path in the background. The returned channel receives the response.
func (e *edge) goGet(path string) <-chan string {
	got := make(chan string, 1)
	go func() { got <- e.get(path, nil) }()
	return got
}

// A snapshot that is being read is not the response to a request that arrives after a new message: a page that sends a message and is loaded again shows it.
func TestSnapshotWhileItIsRead(t *testing.T) {
	w := newEnv(t)
	e, paused := w.newPausedEdge(nil)
	w.newChat("s1")
	before := e.goGet("/snapshot")
	<-paused.begun
	w.Request(control.Command{
		Kind: control.Execute, Session: chunk.RootSession("acme", "s1"), AgentType: agentType, RunID: "r2", Input: []chunk.InputMessage{{Content: "second"}},
	})
	after := e.goGet("/snapshot")
	<-paused.begun
	close(paused.release)
	for i, got := range []string{<-before, <-after} {
		if !strings.HasPrefix(got, "200 ") || i == 1 && !strings.Contains(got, `"second"`) {
			t.Errorf("snapshot %d is %s", i, got)
		}
	}
}

// newChat writes the start of a chat.
func (w *env) newChat(id string) {
	w.t.Helper()
	started := chunk.RunStarted{RunID: "r1", Mode: "execute", Input: []chunk.InputMessage{{Content: "first"}}}
	run, err := w.NewWriter(producers.Config{}).Start(w.t.Context(), chunk.RootSession("acme", id), started, producers.AgentType(agentType))
	if err != nil {
		w.t.Fatal(err)
	}
	run.Close()
}

// The snapshots of chats take memory from the budget of the edge.
func TestSnapshotsShareTheReadBudget(t *testing.T) {
	w := newEnv(t)
	e, paused := w.newPausedEdge(func(cfg *edgeConfig) {
		cfg.edge.ReadBytes, cfg.edge.AttachTimeout = 4<<20, 50*time.Millisecond
	})
	w.newChat("s1")
	w.newChat("s2")
	first := e.goGet("/snapshot")
	<-paused.begun
	resp, err := http.Get(e.URL + "/api/chat/s2/snapshot")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%d, Retry-After %q; want 503 with a retry time", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
	close(paused.release)
	if got := <-first; !strings.HasPrefix(got, "200 ") {
		t.Errorf("the snapshot that was being read is %s", got)
	}
}

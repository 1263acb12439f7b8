//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/hublog"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/sseedge"
	"github.com/tailrace/tailrace/sseedge/hub"
	"github.com/tailrace/tailrace/sseedge/native"
)

// edgeWorld is an edge in this process over a real server, with writers and with
// a reader of the log that no fault of the edge's connections touches.
type edgeWorld struct {
	producer *producers.Producer
	reader   *consumers.Reader // of the log as it is
	feed     *consumers.Reader // of the edge
	hub      *hub.Hub
	url      string
}

type worldConfig struct {
	replicas  int
	write     *nats.Conn // of the writers, and of the reader of the log as it is
	feed      *nats.Conn // where the edge has its feed; write when nil
	history   *nats.Conn // where it reads history; feed when nil
	heartbeat time.Duration
	hub       hub.Config
	edge      sseedge.Config
}

func newEdgeWorld(t *testing.T, cfg worldConfig) *edgeWorld {
	t.Helper()
	if cfg.feed == nil {
		cfg.feed = cfg.write
	}
	if cfg.history == nil {
		cfg.history = cfg.feed
	}
	js := jetStream(t, cfg.write)
	if err := topology.Ensure(t.Context(), js, topology.Config{Replicas: cfg.replicas}); err != nil {
		t.Fatal(err)
	}
	producer, err := producers.New(cfg.write, js, producers.Config{Linger: time.Millisecond, Patience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	w := &edgeWorld{producer: producer, reader: newReader(t, cfg.write, consumers.Config{})}
	ofEdge := consumers.Config{Heartbeat: cfg.heartbeat, Log: log}
	w.feed = newReader(t, cfg.feed, ofEdge)
	cfg.hub.Encode, cfg.hub.Log = native.Encode, log
	cfg.edge.Retry, cfg.edge.Log = 100*time.Millisecond, log
	w.hub, err = hub.New(hublog.Log{Reader: newReader(t, cfg.history, ofEdge)}, hublog.Feed{Reader: w.feed}, cfg.hub)
	if err != nil {
		t.Fatal(err)
	}
	edge, err := sseedge.New(w.hub, noSnapshots{t}, cfg.edge)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running errgroup.Group
	running.Go(func() error { return w.hub.Run(ctx) })
	front := httptest.NewServer(edge)
	w.url = front.URL
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		cancel()
		if err := errors.Join(running.Wait(), producer.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

func jetStream(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func newReader(t *testing.T, nc *nats.Conn, cfg consumers.Config) *consumers.Reader {
	t.Helper()
	reader, err := consumers.New(nc, jetStream(t, nc), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return reader
}

// noSnapshots are for worlds in which nothing is ever lost: a client that needs
// one was told that something is.
type noSnapshots struct{ t *testing.T }

func (n noSnapshots) Snapshot(_ context.Context, s chunk.Session, _ sseedge.Want) (sseedge.Snapshot, error) {
	n.t.Errorf("a client of %s needs a snapshot", s)
	return sseedge.Snapshot{}, errors.New("no client may need a snapshot here")
}

// write is a random history: text, tools, sub-agents that talk at the same
// time, pauses.
func (w *edgeWorld) write(ctx context.Context, run *producers.Run, p plot, random *rand.Rand) error {
	var children errgroup.Group
	for n := range cmp.Or(p.chunks, 150+random.IntN(250)) {
		if p.pace != nil {
			if err := p.pace(ctx); err != nil {
				return err
			}
		}
		var err error
		switch random.IntN(12) {
		case 0:
			err = run.Say(ctx, chunk.Custom{EventName: "n", Data: chunk.Value(fmt.Sprint(n))})
		case 1:
			err = run.Say(ctx, chunk.ToolStart{ToolCallID: fmt.Sprint(n), ToolName: "t", Arguments: chunk.Value(`{}`)})
		case 2:
			_, err = run.Flush(ctx)
		case 3:
			if random.IntN(8) == 0 {
				err = w.child(ctx, run, &children, random.IntN(40))
			}
		default:
			err = run.Say(ctx, chunk.TextDelta{Delta: strings.Repeat("é\n", 1+random.IntN(40))})
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(children.Wait(), run.End(ctx, chunk.Value(`"done"`)), run.Close())
}

func (w *edgeWorld) child(ctx context.Context, run *producers.Run, children *errgroup.Group, size int) error {
	child, err := run.Child(ctx, chunk.SubagentStart{SubAgentType: "helper", CallID: "c"}, chunk.RunStarted{Mode: "execute"})
	if err != nil {
		return err
	}
	children.Go(func() error {
		for range size {
			if err := child.Say(ctx, chunk.TextDelta{Delta: "child "}); err != nil {
				return err
			}
		}
		return errors.Join(run.EndChild(ctx, child, chunk.Value(`1`)), child.Close())
	})
	return nil
}

// expected are the events of the log for a scope: what Replay reads, encoded
// one by one, without those that only move the cursor.
func (w *edgeWorld) expected(t *testing.T, root chunk.Session, scope chunk.Scope) []string {
	t.Helper()
	records := w.reader.ReplayTree(t.Context(), root, 0)
	if scope == chunk.ScopeSession {
		records = w.reader.Replay(t.Context(), root, chunk.Position{})
	}
	var events []string
	for rec, err := range records {
		if err != nil {
			t.Fatal(err)
		}
		frame := string(native.Encode(nil, rec, scope))
		if _, data, found := strings.Cut(frame, "data: "); found {
			events = append(events, fmt.Sprintf("%d %s", rec.Seq, strings.TrimSpace(data)))
		}
	}
	return events
}

func firstDifference(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("event %d is %.120s, want %.120s", i, got[i], want[i])
		}
	}
	return fmt.Sprintf("%d events, want %d", len(got), len(want))
}

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
	"github.com/tailrace/tailrace/codec/helix"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/jsinterest"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// edgeEnv is an edge in this process with a real server, with writers, and
// with a reader of the log that is not affected by faults of the edge's
// connections.
type edgeEnv struct {
	producer *producers.Producer
	reader   *consumers.Reader // not affected by faults
	feed     *consumers.Reader // used by the edge
	hub      *hub.Hub
	url      string
}

type edgeEnvConfig struct {
	replicas  int
	write     *nats.Conn // of the writers and the unaffected reader
	feed      *nats.Conn // of the edge's feed; defaults to write
	history   *nats.Conn // of the edge's reads of history; defaults to feed
	heartbeat time.Duration
	interest  bool // the edge follows the sessions that it serves
	edge      httpedge.Config
}

func newEdgeEnv(t *testing.T, cfg edgeEnvConfig) *edgeEnv {
	t.Helper()
	if cfg.feed == nil {
		cfg.feed = cfg.write
	}
	if cfg.history == nil {
		cfg.history = cfg.feed
	}
	js := jetStream(t, cfg.write)
	streamtest.Ensure(t, js, topology.Config{Replicas: cfg.replicas, Republish: cfg.interest})
	producer, err := producers.New(js, producers.Config{Positions: jssnapshots.NewPositions(js, subjects.Layout{}), Pace: time.Millisecond, RetryTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	w := &edgeEnv{producer: producer, reader: newReader(t, cfg.write, consumers.Config{})}
	ofEdge := consumers.Config{Heartbeat: cfg.heartbeat, Log: log}
	w.feed = newReader(t, cfg.feed, ofEdge)
	cfg.edge.RetryDelay, cfg.edge.Log = 100*time.Millisecond, log
	cfg.edge.Authenticator = authtest.None(t, "default")
	if cfg.interest {
		roots, err := jsinterest.New(jetStream(t, cfg.feed), jsinterest.Config{Log: log})
		if err != nil {
			t.Fatal(err)
		}
		cfg.edge.Feed = roots
	}
	edge, err := httpedge.New(separateLog{newReader(t, cfg.history, ofEdge), w.feed}, noSnapshots{t: t}, cfg.edge)
	if err != nil {
		t.Fatal(err)
	}
	w.hub = edge.Shared().Hub
	ctx, cancel := context.WithCancel(context.Background())
	var running errgroup.Group
	running.Go(func() error { return edge.Run(ctx) })
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

// asEdge returns the options of a connection of an edge.
func asEdge(t *testing.T) []nats.Option {
	t.Helper()
	return roletest.Shared().Options(t, natsauth.Edge)
}

// asWorker returns the options of a connection of a writer.
func asWorker(t *testing.T) []nats.Option {
	t.Helper()
	return roletest.Shared().Options(t, natsauth.Worker)
}

// separateLog reads history and live records with two readers.
type separateLog struct {
	hub.Log
	hub.PartitionLog
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
	reader, err := consumers.New(jetStream(t, nc), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return reader
}

// noSnapshots fails the test if a client requests a snapshot: without lost
// records no client needs one.
type noSnapshots struct {
	httpedge.Snapshots

	t *testing.T
}

func (n noSnapshots) Snapshot(_ context.Context, s chunk.Session) (fold.Snapshot, error) {
	n.t.Errorf("a client of %s requested a snapshot", s)
	return fold.Snapshot{}, errors.New("no snapshots in this test")
}

func (n noSnapshots) MessagePage(ctx context.Context, s chunk.Session, _ fold.PageQuery) (*fold.MessagePage, error) {
	_, err := n.Snapshot(ctx, s)
	return nil, err
}

// write writes a random history: text, tools, concurrent sub-agents, pauses.
func (w *edgeEnv) write(ctx context.Context, run *producers.Run, p treeOptions, random *rand.Rand) error {
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
			err = run.EmitBody(ctx, chunk.Custom{EventName: "n", Data: chunk.Value(fmt.Sprint(n))})
		case 1:
			err = run.EmitBody(ctx, chunk.ToolStart{ToolCallID: fmt.Sprint(n), ToolName: "t", Arguments: chunk.Value(`{}`)})
		case 2:
			_, err = run.Flush(ctx)
		case 3:
			if random.IntN(8) == 0 && !p.flat {
				err = w.child(ctx, run, &children, random.IntN(40))
			}
		default:
			err = run.EmitBody(ctx, chunk.TextDelta{Delta: strings.Repeat("é\n", 1+random.IntN(40))})
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(children.Wait(), run.End(ctx, chunk.Value(`"done"`)), run.Close())
}

func (w *edgeEnv) child(ctx context.Context, run *producers.Run, children *errgroup.Group, size int) error {
	child, err := run.Child(ctx, chunk.SubagentStart{SubAgentType: "helper", CallID: "c"}, chunk.RunStarted{Mode: "execute"})
	if err != nil {
		return err
	}
	children.Go(func() error {
		for range size {
			if err := child.EmitBody(ctx, chunk.TextDelta{Delta: "child "}); err != nil {
				return err
			}
		}
		return errors.Join(run.EndChild(ctx, child, chunk.Value(`1`)), child.Close())
	})
	return nil
}

// expected returns the events of the log for a scope: the records of Replay,
// encoded one by one, without those that only move the cursor.
func (w *edgeEnv) expected(t *testing.T, root chunk.Session, scope chunk.Scope) []string {
	t.Helper()
	records := w.reader.Replay(t.Context(), chunk.Range{Session: root, Tree: true})
	if scope == chunk.ScopeSession {
		records = w.reader.Replay(t.Context(), chunk.Range{Session: root})
	}
	var events []string
	for rec, err := range records {
		if err != nil {
			t.Fatal(err)
		}
		frame := string(helix.Encode(nil, rec, scope))
		if _, data, found := strings.Cut(frame, "data: "); found {
			events = append(events, fmt.Sprintf("%s %s", rec.Cursor(), strings.TrimSpace(data)))
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

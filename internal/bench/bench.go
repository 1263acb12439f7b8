package bench

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/embed"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/subjects"
)

// Config is the configuration of Run.
type Config struct {
	Rounds   int    // measured rounds of each side; defaults to 5
	Clients  int    // of the fan-out; defaults to 1000
	Window   int    // maximum number of chunks that an unpaced writer is ahead of its slowest client; defaults to 16
	Dir      string // for the server's files; defaults to a temporary directory
	LongTurn int    // most chunks of longturn; defaults to 100,000
	Quick    bool   // a fiftieth of the work, to test that the benchmarks run
}

// size returns n, or a fiftieth of it (at least 10) for Quick.
func (c Config) size(n int) int {
	if c.Quick {
		return max(10, n/50)
	}
	return n
}

const fanoutClients = 1000

// Names returns the benchmarks that take some minutes together.
func Names() []string {
	return []string{"publish", "burst", "follow", "replay", "fanout", "many", "catchup", "storm", "idle", "project", "snapshot", "chat", "open", "auth", "dialects", "ingest"}
}

// Standalone returns the benchmarks that are run separately.
func Standalone() []string { return []string{"fanout-10000", "longturn", "feeds"} }

// Run runs the named benchmarks on an embedded server, connected over loopback,
// and returns a row for each figure.
func Run(ctx context.Context, cfg Config, names ...string) ([]Row, error) {
	if cfg.Rounds <= 0 {
		cfg.Rounds = 5
	}
	if cfg.Clients <= 0 {
		cfg.Clients = fanoutClients
	}
	if cfg.LongTurn <= 0 {
		cfg.LongTurn = 100_000
	}
	if cfg.Window <= 0 {
		cfg.Window = 16
	}
	h, err := newHarness(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer h.close()
	var rows []Row
	for _, name := range names {
		pairs, err := h.pairs(ctx, name)
		if err != nil {
			return rows, err
		}
		for _, p := range pairs {
			more, err := p.run(ctx, cfg.Rounds)
			if err != nil {
				return rows, err
			}
			rows = append(rows, more...)
		}
	}
	return rows, nil
}

// harness is the embedded server with the clients of both sides.
type harness struct {
	cfg      Config
	dir      string
	server   *embed.Server
	nc       *nats.Conn // of Tailrace
	rawConn  *nats.Conn // of the baselines
	js       jetstream.JetStream
	raw      jetstream.JetStream
	producer *producers.Producer
	reader   *consumers.Reader
	envs     int            // number created so far
	closers  []func() error // of what benchmarks have started, in the order of the start
}

func newHarness(ctx context.Context, cfg Config) (*harness, error) {
	l := &harness{cfg: cfg, dir: cfg.Dir}
	var err error
	if l.dir == "" {
		if l.dir, err = os.MkdirTemp("", "tailrace-bench-"); err != nil {
			return nil, err
		}
	}
	quiet := slog.New(slog.DiscardHandler)
	if l.server, err = embed.Start(ctx, embed.Config{StoreDir: l.dir, Port: -1, Log: quiet}); err != nil {
		return nil, err
	}
	if err := l.connect(ctx, quiet); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *harness) connect(ctx context.Context, quiet *slog.Logger) (err error) {
	if l.nc, l.js, err = dial(l.server.ClientURL()); err != nil {
		return err
	}
	if l.rawConn, l.raw, err = dial(l.server.ClientURL()); err != nil {
		return err
	}
	if err = topology.Ensure(ctx, l.js, topology.Config{}); err != nil {
		return err
	}
	if l.producer, err = producers.New(l.js, producers.Config{Positions: jssnapshots.NewPositions(l.js, subjects.Layout{}), Log: quiet}); err != nil {
		return err
	}
	l.reader, err = consumers.New(l.js, consumers.Config{Log: quiet})
	return err
}

func dial(url string) (*nats.Conn, jetstream.JetStream, error) {
	nc, err := nats.Connect(url)
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc)
	return nc, js, err
}

func (l *harness) close() {
	for _, c := range slices.Backward(l.closers) {
		_ = c()
	}
	if l.producer != nil {
		_ = l.producer.Close()
	}
	for _, nc := range []*nats.Conn{l.nc, l.rawConn} {
		if nc != nil {
			nc.Close()
		}
	}
	_ = l.server.Shutdown(context.Background())
	if l.cfg.Dir == "" {
		_ = os.RemoveAll(l.dir)
	}
}

func (l *harness) pairs(ctx context.Context, name string) ([]pair, error) {
	switch name {
	case "publish":
		return l.publish(), nil
	case "burst":
		return l.bursts(), nil
	case "follow":
		return l.follow(ctx)
	case "replay":
		return l.replay(ctx)
	case "fanout":
		return l.fanout(l.cfg.Clients), nil
	case "fanout-10000":
		return l.fanout(10_000), nil
	case "many":
		return l.many(), nil
	case "catchup":
		return l.catchUps(ctx)
	case "storm":
		return l.reconnectBurst(ctx)
	case "idle":
		return l.idle(), nil
	case "project":
		return l.project(ctx)
	case "snapshot":
		return l.snapshot(ctx)
	case "longturn":
		return l.longTurn(ctx)
	case "feeds":
		return l.feeds(), nil
	case "chat":
		return l.chat()
	case "open":
		return l.openings(ctx)
	case "dialects":
		return l.dialects(ctx)
	case "ingest":
		return l.ingest(), nil
	case "auth":
		return l.auth(ctx)
	}
	return nil, fmt.Errorf("unknown benchmark %q: want one of %v", name, append(Names(), Standalone()...))
}

// body returns the chunk that every benchmark publishes: a custom event of
// about 250 bytes, which is never merged, so that both sides send the same
// messages.
func body(n int) chunk.Custom {
	return chunk.Custom{EventName: "bench", Data: chunk.Value(fmt.Sprintf(`{"n":%d,"pad":%q}`, n, pad))}
}

const pad = "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"

func rootSession(id string) chunk.Session { return chunk.RootSession("default", id) }

// event returns the n-th chunk of a session. Clients check its number.
func event(s chunk.Session, n int) chunk.Chunk {
	return chunk.Chunk{AgentID: s.ID, AgentType: "bench", Timestamp: time.Now().UnixMilli(), Step: 1, Body: body(n)}
}

package bench

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/embed"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
)

// Config says how much is measured.
type Config struct {
	Rounds  int    // measured rounds of each side; defaults to 5
	Clients int    // of the fan-out; defaults to 1000
	Window  int    // how many chunks a writer that writes flat out is ahead of its slowest client at most; defaults to 16
	Dir     string // for the server's files; defaults to a temporary directory
	Quick   bool   // a fiftieth of the work: to see that it runs, not how fast
}

// size is how much of n is done.
func (c Config) size(n int) int {
	if c.Quick {
		return max(10, n/50)
	}
	return n
}

const fanoutClients = 1000

// Names of the benchmarks that run together within some minutes.
func Names() []string {
	return []string{"publish", "follow", "replay", "fanout", "many", "catchup", "storm", "idle", "project", "snapshot", "history", "chat"}
}

// Alone are the names of those that are run by themselves.
func Alone() []string { return []string{"fanout-10000"} }

// Run runs the named benchmarks on an embedded server of their own, talking to
// it over loopback, and returns a row for each figure.
func Run(ctx context.Context, cfg Config, names ...string) ([]Row, error) {
	if cfg.Rounds <= 0 {
		cfg.Rounds = 5
	}
	if cfg.Clients <= 0 {
		cfg.Clients = fanoutClients
	}
	if cfg.Window <= 0 {
		cfg.Window = 16
	}
	lab, err := newLab(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer lab.close()
	var rows []Row
	for _, name := range names {
		pairs, err := lab.pairs(ctx, name)
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

// lab is the server with both kinds of clients.
type lab struct {
	cfg      Config
	dir      string
	server   *embed.Server
	nc       *nats.Conn // ours
	rawConn  *nats.Conn // the floor's, a connection of its own
	js       jetstream.JetStream
	raw      jetstream.JetStream
	producer *producers.Producer
	reader   *consumers.Reader
	worlds   int // made so far
}

func newLab(ctx context.Context, cfg Config) (*lab, error) {
	l := &lab{cfg: cfg, dir: cfg.Dir}
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

func (l *lab) connect(ctx context.Context, quiet *slog.Logger) (err error) {
	if l.nc, l.js, err = dial(l.server.ClientURL()); err != nil {
		return err
	}
	if l.rawConn, l.raw, err = dial(l.server.ClientURL()); err != nil {
		return err
	}
	if err = topology.Ensure(ctx, l.js, topology.Config{}); err != nil {
		return err
	}
	if l.producer, err = producers.New(l.nc, l.js, producers.Config{Log: quiet}); err != nil {
		return err
	}
	l.reader, err = consumers.New(l.nc, l.js, consumers.Config{Log: quiet})
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

func (l *lab) close() {
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

func (l *lab) pairs(ctx context.Context, name string) ([]pair, error) {
	switch name {
	case "publish":
		return l.publish(), nil
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
		return l.storm(ctx)
	case "idle":
		return l.idle(), nil
	case "project":
		return l.project(ctx)
	case "snapshot":
		return l.snapshot(ctx)
	case "history":
		return l.history(ctx)
	case "chat":
		return l.chat()
	}
	return nil, fmt.Errorf("no benchmark %q; there are %v", name, append(Names(), Alone()...))
}

// body is what every benchmark publishes: a custom event of some 250 bytes,
// which is never merged, so that both sides send the same messages.
func body(n int) chunk.Custom {
	return chunk.Custom{EventName: "bench", Data: chunk.Value(fmt.Sprintf(`{"n":%d,"pad":%q}`, n, pad))}
}

const pad = "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"

func rootSession(id string) chunk.Session { return chunk.RootSession("default", id) }

// event is the n-th of a session. Clients look for its number.
func event(s chunk.Session, n int) chunk.Chunk {
	return chunk.Chunk{AgentID: s.ID, AgentType: "bench", Timestamp: time.Now().UnixMilli(), Step: 1, Body: body(n)}
}

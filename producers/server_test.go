package producers

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/subjects"
)

// env is a server with the streams of Tailrace, and a reader of the log that does not use this package.
type env struct {
	nc *nats.Conn
	js jetstream.JetStream
}

func newEnv(tb testing.TB, nc *nats.Conn, replicas int) env {
	tb.Helper()
	return ensurePlace(tb, nc, topology.Config{Replicas: replicas})
}

func newEnvWith(tb testing.TB, nc *nats.Conn, layout subjects.Layout) env {
	tb.Helper()
	return ensurePlace(tb, nc, topology.Config{Layout: layout})
}

func ensurePlace(tb testing.TB, nc *nats.Conn, cfg topology.Config) env {
	tb.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		tb.Fatal(err)
	}
	streamtest.Ensure(tb, js, cfg)
	return env{nc: nc, js: js}
}

// local is an address in the process of the test.
func local(tb testing.TB) env {
	tb.Helper()
	return newEnv(tb, natstest.Start(tb).Conn(tb), 1)
}

func (p env) producer(tb testing.TB, cfg Config) *Producer {
	tb.Helper()
	return newTestProducer(tb, p.js, cfg)
}

// withoutPositions returns cfg with NoPositions, unless it has a PositionStore.
func withoutPositions(cfg Config) Config {
	if cfg.Positions == nil {
		cfg.Positions = NoPositions
	}
	return cfg
}

func newTestProducer(tb testing.TB, js jetstream.JetStream, cfg Config) *Producer {
	tb.Helper()
	producer, err := New(js, withoutPositions(cfg))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = producer.Close() }) // the error is checked where it matters
	return producer
}

func mustStart(tb testing.TB, p *Producer, s chunk.Session, opts ...StartOption) *Run {
	tb.Helper()
	r, err := p.Start(tb.Context(), s, chunk.RunStarted{Mode: "execute"}, opts...)
	if err != nil {
		tb.Fatalf("start %s: %v", s, err)
	}
	return r
}

// log reads the records of s one by one from the leader, without the proxy.
func (p env) log(tb testing.TB, s chunk.Session) []chunk.Record {
	tb.Helper()
	recs, err := p.read(tb.Context(), s)
	if err != nil {
		tb.Fatal(err)
	}
	return recs
}

func (p env) read(ctx context.Context, s chunk.Session) ([]chunk.Record, error) {
	var layout subjects.Layout
	subject, err := layout.Subject(s)
	if err != nil {
		return nil, err
	}
	var recs []chunk.Record
	for from := uint64(1); ; {
		// From the leader: a replica that was restarted may lack the end of the log.
		m, err := jsclient.New(p.js).NextRetry(ctx, time.Minute, layout.Stream(layout.Partition(s)), subject, from)
		if errors.Is(err, jsclient.ErrNotFound) {
			return recs, nil
		}
		if err != nil {
			return nil, err
		}
		rec, err := codec.Decode(codec.Stored{Session: s, Seq: chunk.Seq(m.Seq), At: m.Stored, Header: m.Header, Data: m.Data})
		if err != nil {
			return nil, fmt.Errorf("sequence %d: %w", m.Seq, err)
		}
		recs = append(recs, rec)
		from = m.Seq + 1
	}
}

func numbered(n int) chunk.Chunk {
	return chunk.Chunk{Step: 1, Body: chunk.Custom{EventName: "n", Data: chunk.Value(fmt.Sprint(n))}}
}

var testSession = chunk.RootSession("acme", "s1")

func badLayout() subjects.Layout { return subjects.Layout{Partitions: -1} }

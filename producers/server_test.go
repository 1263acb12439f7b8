package producers

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/subjects"
)

// place is a server with the streams of a Tailrace, and a look at the log that
// goes around this package.
type place struct {
	nc *nats.Conn
	js jetstream.JetStream
}

func newPlace(t testing.TB, nc *nats.Conn, replicas int) place {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := topology.Ensure(t.Context(), js, topology.Config{Replicas: replicas}); err != nil {
		t.Fatal(err)
	}
	return place{nc: nc, js: js}
}

// local is a place in the process of the test.
func local(t testing.TB) place {
	t.Helper()
	return newPlace(t, natstest.Start(t).Conn(t), 1)
}

func (p place) producer(t testing.TB, cfg Config) *Producer {
	t.Helper()
	return newTestProducer(t, p.nc, p.js, cfg)
}

func newTestProducer(t testing.TB, nc *nats.Conn, js jetstream.JetStream, cfg Config) *Producer {
	t.Helper()
	producer, err := New(nc, js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = producer.Close() }) // what it tells is checked where it matters
	return producer
}

func mustStart(t testing.TB, p *Producer, s chunk.Session, opts ...StartOption) *Run {
	t.Helper()
	r, err := p.Start(t.Context(), s, chunk.RunStarted{Mode: "execute"}, opts...)
	if err != nil {
		t.Fatalf("start %s: %v", s, err)
	}
	return r
}

// log reads the records of s one by one from the leader, with nothing between
// the test and the server.
func (p place) log(t testing.TB, s chunk.Session) []chunk.Record {
	t.Helper()
	recs, err := p.read(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return recs
}

func (p place) read(ctx context.Context, s chunk.Session) ([]chunk.Record, error) {
	var layout subjects.Layout
	subject, err := layout.Subject(s)
	if err != nil {
		return nil, err
	}
	stream, err := p.js.Stream(ctx, layout.Stream(layout.Partition(s)))
	if err != nil {
		return nil, err
	}
	info := stream.CachedInfo()
	var recs []chunk.Record
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; {
		m, err := stream.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(subject))
		if err != nil {
			break // none further on
		}
		rec, err := codec.Decode(s, chunk.Seq(m.Sequence), m.Time, m.Header, m.Data)
		if err != nil {
			return nil, fmt.Errorf("sequence %d: %w", m.Sequence, err)
		}
		recs = append(recs, rec)
		seq = m.Sequence + 1
	}
	return recs, nil
}

func numbered(n int) chunk.Chunk {
	return chunk.Chunk{Step: 1, Body: chunk.Custom{EventName: "n", Data: chunk.Value(fmt.Sprint(n))}}
}

var testSession = chunk.RootSession("acme", "s1")

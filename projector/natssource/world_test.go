package natssource

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/kvstore"
	"github.com/tailrace/tailrace/projector/storetest"
	"github.com/tailrace/tailrace/subjects"
)

func TestMain(m *testing.M) { natstest.Main(m) }

const stream = "TR_CHUNKS_0"

// world is a server with the log and the bucket, a hand that writes into the
// log, and what a projector is made of.
type world struct {
	tb     testing.TB
	srv    *natstest.Server
	js     jetstream.JetStream
	layout subjects.Layout
	store  *kvstore.Store
	log    Log
	reader *projector.Reader
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	srv := natstest.Start(tb)
	nc := srv.Conn(tb)
	js, err := jetstream.New(nc)
	if err != nil {
		tb.Fatal(err)
	}
	w := &world{tb: tb, srv: srv, js: js}
	w.ensure()
	reader, err := consumers.New(nc, js, consumers.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	if w.store, err = kvstore.New(js, kvstore.Config{}); err != nil {
		tb.Fatal(err)
	}
	w.log = Log{reader}
	w.reader = projector.NewReader(w.store, w.log)
	return w
}

func (w *world) ensure() {
	w.tb.Helper()
	if err := topology.Ensure(w.tb.Context(), w.js, topology.Config{}); err != nil {
		w.tb.Fatal(err)
	}
}

// copy writes records of a log in memory into the real one, under the same
// ordinals.
func (w *world) copy(records []chunk.Record) {
	w.tb.Helper()
	for _, rec := range records {
		subject, err := w.layout.Subject(rec.Session)
		if err != nil {
			w.tb.Fatal(err)
		}
		m := codec.EncodeJSON(rec.Session, rec.Epoch, rec.Ordinal, rec.Type, rec.Stored.UnixMilli(), rec.Data)
		w.publish(subject, m.Header, m.Data)
	}
}

func (w *world) publish(subject string, header map[string][]string, data []byte) {
	w.tb.Helper()
	_, err := w.js.PublishMsg(w.tb.Context(), &nats.Msg{Subject: subject, Header: header, Data: data})
	if err != nil {
		w.tb.Fatal(err)
	}
}

// project runs a projector on a connection of its own until stop is called.
type project struct {
	source *Source
	runner *projector.Runner
	nc     *nats.Conn
	stop   func()
}

func (w *world) project(cfg Config) project {
	w.tb.Helper()
	nc := w.srv.Conn(w.tb)
	js, err := jetstream.New(nc)
	if err != nil {
		w.tb.Fatal(err)
	}
	src, err := New(js, cfg)
	if err != nil {
		w.tb.Fatal(err)
	}
	store, err := kvstore.New(js, kvstore.Config{})
	if err != nil {
		w.tb.Fatal(err)
	}
	r, err := projector.NewRunner(src, store, w.log, projector.Config{SaveAfter: 20 * time.Millisecond, Patience: 2 * time.Second})
	if err != nil {
		w.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.tb.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Run(ctx); !errors.Is(err, context.Canceled) {
			w.tb.Errorf("Run: %v", err)
		}
	}()
	stop := sync.OnceFunc(func() {
		cancel()
		<-done
	})
	w.tb.Cleanup(stop)
	return project{src, r, nc, stop}
}

// caughtUp waits until the stored snapshot of s holds the last record of the
// log, and is what the log says.
func (w *world) caughtUp(s chunk.Session) {
	w.tb.Helper()
	last, err := w.log.Reader.Last(w.tb.Context(), s)
	if err != nil {
		w.tb.Fatal(err)
	}
	natstest.Await(w.tb, "the snapshot of "+s.String(), func(ctx context.Context) error {
		pos, _, err := w.reader.Head(ctx, s)
		if err == nil && pos != last.Position() {
			err = fmt.Errorf("head at %+v, log at %+v", pos, last.Position())
		}
		return err
	})
	storetest.Equal(w.tb, s.String(), storetest.Stored(w.tb, w.store, s), storetest.Fold(w.tb, w.log, s))
}

func natsMsg(subject string, m codec.Message) *nats.Msg {
	return &nats.Msg{Subject: subject, Header: m.Header, Data: m.Data}
}

// sweep deletes from the real log what marks have listed, as a writer does.
func (w *world) sweep(draft *storetest.Log, s chunk.Session) {
	w.tb.Helper()
	draft.Sweep(s)
	left := make(map[chunk.Ordinal]bool)
	for _, rec := range draft.Records(s) {
		left[rec.Ordinal] = true
	}
	str, err := w.js.Stream(w.tb.Context(), stream)
	if err != nil {
		w.tb.Fatal(err)
	}
	for rec, err := range w.log.Replay(w.tb.Context(), s, chunk.Position{}) {
		if err != nil {
			w.tb.Fatal(err)
		}
		if left[rec.Ordinal] {
			continue
		}
		if err := str.DeleteMsg(w.tb.Context(), uint64(rec.Seq)); err != nil {
			w.tb.Fatal(err)
		}
	}
}

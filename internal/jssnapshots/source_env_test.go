package jssnapshots

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/subjects"
)

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(childVariable); ok {
		os.Exit(runChild(text))
	}
	natstest.Main(m)
}

const stream = "TR_CHUNKS_0" // of the log

// env is a server with the log and the bucket, and the parts of a projector.
type env struct {
	tb     testing.TB
	srv    *natstest.Server // nil when it is a process
	conn   func() *nats.Conn
	js     jetstream.JetStream
	layout subjects.Layout
	store  *Store
	log    *consumers.Reader
	reader *projector.Reader
}

func newEnv(tb testing.TB) *env {
	tb.Helper()
	srv := natstest.Start(tb)
	w := newEnvOn(tb, func() *nats.Conn { return srv.Conn(tb) }, topology.Config{})
	w.srv = srv
	return w
}

func newEnvOn(tb testing.TB, conn func() *nats.Conn, cfg topology.Config) *env {
	tb.Helper()
	nc := conn()
	js, err := jetstream.New(nc)
	if err != nil {
		tb.Fatal(err)
	}
	w := &env{tb: tb, conn: conn, js: js, layout: cfg.Layout}
	streamtest.Ensure(tb, js, cfg)
	reader, err := consumers.New(js, consumers.Config{Layout: cfg.Layout})
	if err != nil {
		tb.Fatal(err)
	}
	if w.store, err = New(js, Config{Layout: cfg.Layout}); err != nil {
		tb.Fatal(err)
	}
	w.log = reader
	w.reader = projector.NewReader(w.store, w.log)
	return w
}

func (w *env) ensure() {
	w.tb.Helper()
	streamtest.Ensure(w.tb, w.js, topology.Config{})
}

// copy writes records of a log in memory into the real one, with the same ordinals.
func (w *env) copy(records []chunk.Record) {
	w.tb.Helper()
	for _, rec := range records {
		subject, err := w.layout.Subject(rec.Session)
		if err != nil {
			w.tb.Fatal(err)
		}
		m := codec.EncodeJSON(codec.Envelope{Session: rec.Session, Epoch: rec.Epoch, Ordinal: rec.Ordinal},
			codec.Header{Type: rec.Type, Timestamp: rec.StoredAt.UnixMilli()}, rec.Data)
		w.publish(subject, m.Header, m.Data)
	}
}

func (w *env) publish(subject string, header map[string][]string, data []byte) {
	w.tb.Helper()
	_, err := w.js.PublishMsg(w.tb.Context(), &nats.Msg{Subject: subject, Header: header, Data: data})
	if err != nil {
		w.tb.Fatal(err)
	}
}

// project runs a projector on its own connection until stop is called. If the bucket or the stream was recreated, it starts a new one, as the command does.
type project struct {
	source *Source
	runner *projector.Runner
	nc     *nats.Conn
	begun  chan projectStart
	stop   func()
}

// projectStart is the start of a projector.
type projectStart struct {
	source *Source
	cause  error // why it was started, nil for the first
}

// awaitStart waits until the next projector was started, for this cause, and has attached. One that has not attached takes a stream that is created now for the
// first one.
func (p *project) awaitStart(tb testing.TB, cause error) {
	tb.Helper()
	b := natstest.Receive(tb, "the start of a projector", p.begun)
	if !errors.Is(b.cause, cause) {
		tb.Errorf("the projector was started after %v, want %v", b.cause, cause)
	}
	natstest.Eventually(tb, "the projector to attach", func(context.Context) error {
		if attachCount(b.source) == 0 {
			return errors.New("it has not attached")
		}
		return nil
	})
}

func (w *env) project(cfg SourceConfig) *project {
	w.tb.Helper()
	return w.projectSaving(cfg, projector.Config{SaveAfter: 20 * time.Millisecond, StallTimeout: 2 * time.Second}, nil)
}

// projectSaving is project with a save policy and a store.
func (w *env) projectSaving(cfg SourceConfig, saving projector.Config, store projector.Store) *project {
	w.tb.Helper()
	p := &project{nc: w.conn(), begun: make(chan projectStart, 100)}
	js, err := jetstream.New(p.nc)
	if err != nil {
		w.tb.Fatal(err)
	}
	if store == nil {
		if store, err = New(js, Config{}); err != nil {
			w.tb.Fatal(err)
		}
	}
	p.source, p.runner = w.parts(js, cfg, saving, store)
	ctx, cancel := context.WithCancel(w.tb.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		source, runner := p.source, p.runner
		var err error
		for {
			p.begun <- projectStart{source, err}
			err = runner.Run(ctx)
			if errors.Is(err, ErrBucketRecreated) || errors.Is(err, ErrStreamRecreated) {
				source, runner = w.parts(js, cfg, saving, store)
				continue
			}
			if !errors.Is(err, context.Canceled) {
				w.tb.Errorf("Run of %s: %v", source.stream(), err)
			}
			return
		}
	}()
	p.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	w.tb.Cleanup(p.stop)
	return p
}

func (w *env) parts(js jetstream.JetStream, cfg SourceConfig, saving projector.Config, store projector.Store) (*Source, *projector.Runner) {
	src, err := NewSource(js, cfg)
	if err != nil {
		w.tb.Error(err)
	}
	src.poll = 200 * time.Millisecond
	r, err := projector.NewRunner(src, store, w.log, saving)
	if err != nil {
		w.tb.Error(err)
	}
	return src, r
}

// caughtUp waits until the stored snapshot of s has the last record of the log, and equals the fold of the log.
func (w *env) caughtUp(s chunk.Session) {
	w.tb.Helper()
	last, err := w.log.Last(w.tb.Context(), s)
	if err != nil {
		w.tb.Fatal(err)
	}
	natstest.Eventually(w.tb, "the snapshot of "+s.String(), func(ctx context.Context) error {
		pos, _, _, err := w.reader.StoredPosition(ctx, s)
		if err == nil && pos != last.Position() {
			err = fmt.Errorf("head at %+v, log at %+v, consumer %s", pos, last.Position(), w.consumerText(ctx))
		}
		return err
	})
	storetest.Equal(w.tb, s.String(), storetest.Stored(w.tb, w.store, s), storetest.Fold(w.tb, w.log, s))
}

func natsMsg(subject string, m codec.Encoded) *nats.Msg {
	return &nats.Msg{Subject: subject, Header: m.Header, Data: m.Data}
}

// sweep deletes the records that truncation records list, as a writer does.
func (w *env) sweep(draft *storetest.Log, s chunk.Session) {
	w.tb.Helper()
	draft.DeleteRemoved(s)
	left := make(map[chunk.Ordinal]bool)
	for _, rec := range draft.Records(s) {
		left[rec.Ordinal] = true
	}
	str, err := w.js.Stream(w.tb.Context(), stream)
	if err != nil {
		w.tb.Fatal(err)
	}
	for rec, err := range w.log.Replay(w.tb.Context(), chunk.Range{Session: s}) {
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

// consumerText describes the consumer, for a wait that times out.
func (w *env) consumerText(ctx context.Context) string {
	c, err := w.js.Consumer(ctx, stream, "projector")
	if err != nil {
		return err.Error()
	}
	info := c.CachedInfo()
	return fmt.Sprintf("delivered %+v, ack floor %+v, %d pending, %d not acknowledged, %d requests wait, pinned %+v",
		info.Delivered, info.AckFloor, info.NumPending, info.NumAckPending, info.NumWaiting, info.PriorityGroups)
}

// attachCount returns how often a Source was attached to its consumer: 1 if nothing failed.
func attachCount(s *Source) uint64 {
	if pinned := s.reader(); pinned != nil {
		return pinned.Attached()
	}
	return 0
}

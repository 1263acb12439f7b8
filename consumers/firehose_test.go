package consumers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsreader"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/subjects"
)

// sink runs a firehose in the background and keeps the records that it gets.
type sink struct {
	mu   sync.Mutex // guards recs and fail
	recs []chunk.Record
	fail func(chunk.Record) error

	done   chan struct{}
	err    error // readable once done is closed
	cancel context.CancelFunc
}

func (w *env) firehose(r *Reader, cfg FirehoseConfig) *sink { return w.firehoseFailing(r, cfg, nil) }

func (w *env) firehoseFailing(r *Reader, cfg FirehoseConfig, fail func(chunk.Record) error) *sink {
	w.t.Helper()
	f, err := r.Firehose(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	s := &sink{done: make(chan struct{}), cancel: cancel, fail: fail}
	go func() {
		defer close(s.done)
		s.err = f.Run(ctx, s.take)
	}()
	w.t.Cleanup(func() { cancel(); <-s.done })
	return s
}

func (s *sink) take(_ context.Context, rec chunk.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(rec); err != nil {
			return err
		}
	}
	s.recs = append(s.recs, rec)
	return nil
}

func (s *sink) got() []chunk.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.recs)
}

// stop cancels the run and waits.
func (s *sink) stop() error {
	s.cancel()
	<-s.done
	return s.err
}

func (w *env) sinkHas(s *sink, n int) []chunk.Record {
	w.t.Helper()
	limit := time.NewTimer(40 * time.Second)
	defer limit.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		recs := s.got()
		if len(recs) >= n {
			return recs
		}
		select {
		case <-tick.C:
		case <-s.done:
			w.t.Fatalf("the firehose ended with %d of %d records: %v", len(s.got()), n, s.err)
		case <-limit.C:
			w.t.Fatalf("after 40 seconds %d of %d records", len(recs), n)
		}
	}
}

func TestEphemeralFirehose(t *testing.T) {
	w := newEnv(t, Config{})
	bob := chunk.RootSession("other", "bob")
	want := w.sayAll(alice, 3)
	end := w.put(alice, 1, chunk.StreamEnd{StreamID: "x"})
	w.malformed(alice)
	want = append(want, end)
	want = append(want, w.sayAll(bob, 3)...)
	all := w.firehose(w.reader, FirehoseConfig{})
	tenant := w.firehose(w.reader, FirehoseConfig{Tenant: "other"})
	types := w.firehose(w.reader, FirehoseConfig{Types: []chunk.Type{chunk.TypeStreamEnd}})
	fresh := w.firehose(w.reader, FirehoseConfig{FromLatest: true})
	same(t, w.sinkHas(all, 7), want)
	same(t, w.sinkHas(tenant, 3), want[4:])
	same(t, w.sinkHas(types, 1), []chunk.Record{end})
	w.eventually("all are attached", func() bool {
		info, err := w.stream().Info(t.Context())
		return err == nil && info.State.Consumers == 4
	})
	last := w.say(bob, "last")
	same(t, w.sinkHas(fresh, 1), []chunk.Record{last})
	for _, s := range []*sink{all, tenant, types, fresh} {
		if err := s.stop(); !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v, want context.Canceled", err)
		}
	}
	w.noConsumers()
}

func TestDurableFirehoseRemembers(t *testing.T) {
	w := newEnv(t, Config{})
	want := w.sayAll(alice, 700)
	s := w.firehose(w.reader, FirehoseConfig{Name: "audit"})
	same(t, w.sinkHas(s, 700), want)
	if err := s.stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	w.acked("audit", want[699].Seq)
	more := w.sayAll(alice, 50)
	s = w.firehose(w.reader, FirehoseConfig{Name: "audit"})
	same(t, w.sinkHas(s, 50), more)
	more = w.sayAll(alice, 1)
	same(t, w.sinkHas(s, 51)[50:], more)
}

// acked waits until the server has the acknowledgement of everything up to seq.
func (w *env) acked(name string, seq chunk.Seq) {
	w.t.Helper()
	var last *jetstream.ConsumerInfo
	defer func() {
		if w.t.Failed() {
			w.t.Logf("%+v", last)
		}
	}()
	w.eventually(fmt.Sprintf("%d is acknowledged", seq), func() bool {
		c, err := w.js.Consumer(w.t.Context(), stream, name)
		if err == nil {
			last = c.CachedInfo()
		}
		return err == nil && last.AckFloor.Stream == uint64(seq) && last.NumAckPending == 0
	})
}

// A record whose handler failed is delivered again, by the next consumer too.
func TestFailedRecordIsRedelivered(t *testing.T) {
	w := newEnv(t, Config{})
	want := w.sayAll(alice, 30)
	broken := errors.New("the sink is full")
	s := w.firehoseFailing(w.reader, FirehoseConfig{Name: "audit"}, func(rec chunk.Record) error {
		if rec.Ordinal == 11 {
			return broken
		}
		return nil
	})
	<-s.done
	if !errors.Is(s.err, broken) {
		t.Fatalf("err = %v, want the handler's", s.err)
	}
	same(t, s.got(), want[:10])
	s = w.firehose(w.reader, FirehoseConfig{Name: "audit"})
	same(t, w.sinkHas(s, 20), want[10:])
}

func TestCommitComesBeforeAcknowledgement(t *testing.T) {
	w := newEnv(t, Config{})
	want := w.sayAll(alice, 25)
	var s *sink
	var committed []int
	broken := errors.New("no space")
	limit := 2
	ready := make(chan struct{})
	cfg := FirehoseConfig{Name: "audit", CommitRecords: 10, CommitInterval: 5 * time.Second, Commit: func(context.Context) error {
		<-ready
		if len(committed) == limit {
			return broken
		}
		committed = append(committed, len(s.got()))
		return nil
	}}
	s = w.firehose(w.reader, cfg)
	close(ready)
	w.sinkHas(s, 25)
	w.acked2("audit", want[19].Seq)
	if err := s.stop(); !errors.Is(err, broken) {
		t.Fatalf("err = %v, want that of Commit", err)
	}
	if !slices.Equal(committed, []int{10, 20}) {
		t.Errorf("committed after %v records, want 10 and 20", committed)
	}
	limit = 100
	s = w.firehose(w.reader, cfg)
	same(t, w.sinkHas(s, 5), want[20:])
}

// acked2 is acked while more is in flight.
func (w *env) acked2(name string, seq chunk.Seq) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%d is acknowledged", seq), func() bool {
		c, err := w.js.Consumer(w.t.Context(), stream, name)
		return err == nil && c.CachedInfo().AckFloor.Stream == uint64(seq)
	})
}

// A program crashes with records that it has not acknowledged, and another one takes over. Each gets the records in order, and together they get all.
func TestFirehoseTakeover(t *testing.T) {
	w := newEnv(t, Config{Heartbeat: 100 * time.Millisecond})
	cfg := FirehoseConfig{Name: "audit", Batch: 20, TakeoverTimeout: 500 * time.Millisecond}
	nc := natstest.Connect(t, w.srv.URL)
	want := w.sayAll(alice, 100)
	hang := make(chan struct{})
	first := w.firehoseFailing(w.newReader(Config{Heartbeat: 100 * time.Millisecond}, nc), cfg, func(rec chunk.Record) error {
		if rec.Ordinal == 48 {
			<-hang
			return errors.New("killed")
		}
		return nil
	})
	w.eventually("the first has most", func() bool {
		c, err := w.js.Consumer(t.Context(), stream, "audit")
		return err == nil && c.CachedInfo().AckFloor.Stream >= 20
	})
	second := w.firehose(w.reader, cfg)
	nc.Close()
	close(hang)
	<-first.done
	got := w.sinkHas(second, 1)
	got = w.sinkHas(second, int(want[99].Seq-got[0].Seq)+1)
	a := first.got()
	same(t, a, want[:len(a)])
	if got[0].Ordinal > a[len(a)-1].Ordinal+1 {
		t.Fatalf("the second begins at %d, the first had %d", got[0].Ordinal, a[len(a)-1].Ordinal)
	}
	same(t, got, want[got[0].Ordinal-1:])
}

// Two programs with the same name: one gets the records, the other waits.
func TestOneOfTwoFirehosesWorks(t *testing.T) {
	w := newEnv(t, Config{Heartbeat: 100 * time.Millisecond})
	cfg := FirehoseConfig{Name: "audit", Batch: 20, TakeoverTimeout: 500 * time.Millisecond}
	a, b := w.firehose(w.reader, cfg), w.firehose(w.newReader(Config{Heartbeat: 100 * time.Millisecond}, w.srv.Conn(t)), cfg)
	want := w.writeInBackground(alice, 500, time.Millisecond)()
	w.eventually("all is handled", func() bool { return len(a.got())+len(b.got()) >= len(want) })
	worker, idle := a, b
	if len(b.got()) > 0 {
		worker, idle = b, a
	}
	same(t, worker.got(), want)
	if n := len(idle.got()); n > 0 {
		t.Errorf("the waiting one got %d records", n)
	}
	w.acked("audit", want[len(want)-1].Seq)
	if err := worker.stop(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	more := w.sayAll(alice, 10)
	same(t, w.sinkHas(idle, 10), more)
}

// F27: the durable consumer is deleted while the firehose runs. The firehose continues at its position, not at the beginning and not at the end.
func TestFirehoseOverADeletedConsumer(t *testing.T) {
	for name, cfg := range map[string]FirehoseConfig{"from the beginning": {Name: "audit"}, "from now": {Name: "audit", FromLatest: true}} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t, Config{})
			old := w.sayAll(alice, 20)
			s := w.firehose(w.reader, cfg)
			w.eventually("it is attached", func() bool {
				_, err := w.js.Consumer(t.Context(), stream, "audit")
				return err == nil
			})
			want := w.sayAll(alice, 20)
			if !cfg.FromLatest {
				want = append(old, want...)
			}
			same(t, w.sinkHas(s, len(want)), want)
			w.acked("audit", want[len(want)-1].Seq)
			if err := w.js.DeleteConsumer(t.Context(), stream, "audit"); err != nil {
				t.Fatal(err)
			}
			want = append(want, w.sayAll(alice, 20)...)
			same(t, w.sinkHas(s, len(want)), want)
		})
	}
	t.Run("before anything was handled", func(t *testing.T) {
		w := newEnv(t, Config{})
		w.sayAll(alice, 20)
		s := w.firehose(w.reader, FirehoseConfig{Name: "audit", FromLatest: true})
		w.eventually("it is attached", func() bool {
			c, err := w.js.Consumer(t.Context(), stream, "audit")
			return err == nil && c.CachedInfo().NumWaiting > 0
		})
		if err := w.js.DeleteConsumer(t.Context(), stream, "audit"); err != nil {
			t.Fatal(err)
		}
		want := w.sayAll(alice, 5)
		same(t, w.sinkHas(s, 5), want)
	})
}

// If a handler takes longer than AckWait, the server redelivers a record that is still being handled. The record is not handled twice.
func TestSlowHandlerGetsNothingTwice(t *testing.T) {
	w := newEnv(t, Config{})
	want := w.sayAll(alice, 40)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	s := w.firehoseFailing(w.reader, FirehoseConfig{Name: "audit", AckWait: time.Second, Batch: 40, CommitRecords: 20}, func(chunk.Record) error {
		<-tick.C
		return nil
	})
	same(t, w.sinkHas(s, 40), want)
	w.acked("audit", want[39].Seq)
	same(t, s.got(), want)
}

func TestFirehoseOverCuts(t *testing.T) {
	w := newEnv(t, Config{})
	proxy := natstest.StartProxy(t, w.srv.URL)
	r := w.newReader(Config{Heartbeat: 100 * time.Millisecond}, natstest.Connect(t, proxy.URL))
	s := w.firehose(r, FirehoseConfig{Name: "audit"})
	e := w.firehose(r, FirehoseConfig{})
	wait := w.writeInBackground(alice, 500, time.Millisecond)
	cuts := time.NewTicker(100 * time.Millisecond)
	defer cuts.Stop()
	for range 4 {
		<-cuts.C
		proxy.CloseConnections()
	}
	want := wait()
	same(t, w.sinkHas(s, 500), want)
	same(t, w.sinkHas(e, 500), want)
	w.acked("audit", want[499].Seq)
}

func TestFirehoseOverPartitions(t *testing.T) {
	srv := natstest.Start(t)
	layout := subjects.Layout{Partitions: 3}
	w := &env{t: t, srv: srv, js: srv.JetStream(t), layout: layout, next: map[chunk.Session]chunk.Ordinal{}}
	streamtest.Ensure(t, w.js, topology.Config{Layout: layout})
	w.reader = w.newReader(Config{Layout: layout}, srv.Conn(t))
	var want []chunk.Record
	for i := range 90 {
		want = append(want, w.say(chunk.RootSession("acme", fmt.Sprint("s", i%9)), "x"))
	}
	for _, cfg := range []FirehoseConfig{{}, {Name: "audit"}} {
		s := w.firehose(w.reader, cfg)
		bySession := map[chunk.Session][]chunk.Record{}
		for _, rec := range w.sinkHas(s, len(want)) {
			bySession[rec.Session] = append(bySession[rec.Session], rec)
		}
		for session, got := range bySession {
			same(t, got, slices.DeleteFunc(slices.Clone(want), func(r chunk.Record) bool { return r.Session != session }))
		}
		if len(bySession) != 9 {
			t.Errorf("records of %d sessions, want 9", len(bySession))
		}
	}
}

func TestFirehoseOfARecreatedStream(t *testing.T) {
	w := newEnv(t, Config{})
	w.sayAll(alice, 5)
	durable, ephemeral := w.firehose(w.reader, FirehoseConfig{Name: "audit"}), w.firehose(w.reader, FirehoseConfig{})
	w.sinkHas(durable, 5)
	w.sinkHas(ephemeral, 5)
	w.recreate()
	<-durable.done
	truncated(t, durable.err, chunk.TruncatedRecreated)
	<-ephemeral.done
	truncated(t, ephemeral.err, chunk.TruncatedRecreated)
	want := w.sayAll(alice, 3)
	same(t, w.sinkHas(w.firehose(w.reader, FirehoseConfig{Name: "audit"}), 3), want)
}

func TestFirehoseRefusesAnotherConsumer(t *testing.T) {
	w := newEnv(t, Config{})
	if _, err := w.js.CreateConsumer(t.Context(), stream, jetstream.ConsumerConfig{Durable: "audit", AckPolicy: jetstream.AckNonePolicy}); err != nil {
		t.Fatal(err)
	}
	s := w.firehose(w.reader, FirehoseConfig{Name: "audit"})
	<-s.done
	if !errors.Is(s.err, jsreader.ErrConfigMismatch) {
		t.Errorf("err = %v, want ErrOtherSettings", s.err)
	}
}

func TestFirehoseConfigIsChecked(t *testing.T) {
	w := newEnv(t, Config{})
	for name, cfg := range map[string]FirehoseConfig{
		"name":        {Name: "a b"},
		"tenant":      {Tenant: "*"},
		"batch":       {Batch: 1},
		"commits":     {CommitRecords: 1000},
		"ack wait":    {AckWait: time.Millisecond},
		"commit time": {CommitInterval: time.Hour},
		"takeover":    {TakeoverTimeout: time.Millisecond},
	} {
		if _, err := w.reader.Firehose(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for name, cfg := range map[string]Config{
		"heartbeat":    {Heartbeat: time.Minute},
		"open timeout": {OpenTimeout: -1},
		"layout":       {Layout: subjects.Layout{Partitions: -1}},
	} {
		if _, err := New(w.js, cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if log := (Config{}).withDefaults().Log; log.Enabled(t.Context(), slog.LevelError) {
		t.Error("without a Log errors are logged")
	}
	if _, err := New(nil, Config{}); err == nil {
		t.Error("no JetStream: no error")
	}
}

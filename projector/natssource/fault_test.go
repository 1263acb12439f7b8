package natssource

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsapi"
	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/projector/storetest"
)

// everything is acknowledged, however often it was delivered.
func (w *world) settled() {
	w.tb.Helper()
	natstest.Await(w.tb, "acknowledgements", func(ctx context.Context) error {
		c, err := w.js.Consumer(ctx, stream, "projector")
		if err != nil {
			return err
		}
		if info := c.CachedInfo(); info.NumPending+uint64(info.NumAckPending) > 0 {
			return fmt.Errorf("%d pending, %d not acknowledged", info.NumPending, info.NumAckPending)
		}
		return nil
	})
}

// What an owner had and did not acknowledge when it died comes to the next one
// with the partition, not after AckWait.
func TestOrphansComeWithThePartition(t *testing.T) {
	w := newWorld(t)
	cfg := Config{Takeover: 3 * time.Second, AckWait: 10 * time.Minute}
	hoarder, err := New(w.js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.copy(storetest.NewAuthor(storetest.NewLog(), s1, 21).Write(t, 100))
	ctx, die := context.WithCancel(t.Context())
	defer die()
	hoarder.release(ctx) // as one that has no pin: nothing happens
	n := 0
	err = hoarder.Run(ctx, func(_ context.Context, batch []projector.Delivery) error {
		if n += len(batch); n >= 100 {
			hoarder.pin = "" // it dies without a word
			die()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	p := w.project(cfg)
	w.caughtUp(s1)
	w.settled()
	if p.runner.Stats().Delivered < 100 {
		t.Errorf("delivered %d, want all 100", p.runner.Stats().Delivered)
	}
}

// Records that are delivered again because their save took longer than AckWait
// change nothing.
func TestLateAcknowledgements(t *testing.T) {
	w := newWorld(t)
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	w.projectSaving(Config{AckWait: time.Second, Metrics: metrics}, projector.Config{SaveAfter: 2500 * time.Millisecond, SaveRecords: 1 << 20}, nil)
	draft := storetest.NewLog()
	w.copy([]chunk.Record{draft.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})})
	for i := range 50 {
		w.copy([]chunk.Record{draft.Append(t, s1, 1, chunk.TextDelta{Delta: fmt.Sprint(i)})})
	}
	w.caughtUp(s1)
	if n := testutil.ToFloat64(metrics.redelivered); n == 0 {
		t.Error("nothing was delivered again")
	}
	w.settled()
}

// The bucket is deleted and made again, while a projector runs and while none
// does: it is filled again from the log, also with sessions that say nothing more.
func TestBucketMadeAnew(t *testing.T) {
	w := newWorld(t)
	quiet, busy := storetest.NewAuthor(storetest.NewLog(), s1, 22), storetest.NewAuthor(storetest.NewLog(), chunk.RootSession("acme", "s2"), 23)
	deleteBucket := func() {
		t.Helper()
		if err := w.js.DeleteKeyValue(t.Context(), w.layout.Snapshots()); err != nil {
			t.Fatal(err)
		}
	}
	one, two := w.project(Config{Takeover: 3 * time.Second}), w.project(Config{Takeover: 3 * time.Second})
	w.copy(quiet.Write(t, 100))
	w.copy(busy.Write(t, 100))
	w.caughtUp(quiet.Session)
	w.caughtUp(busy.Session)
	<-one.begun
	<-two.begun

	deleteBucket()
	w.copy(busy.Write(t, 20))
	w.ensure()
	w.caughtUp(quiet.Session)
	w.caughtUp(busy.Session)
	<-one.begun // both have begun anew, the one that stands by too
	<-two.begun
	w.settled()

	one.stop()
	two.stop()
	deleteBucket()
	w.ensure()
	w.project(Config{})
	w.caughtUp(quiet.Session)
	w.caughtUp(busy.Session)
	w.settled()
}

// A consumer of a build that did not name its bucket is taken over where it is.
func TestConsumerWithoutABucket(t *testing.T) {
	w := newWorld(t)
	w.copy(storetest.NewAuthor(storetest.NewLog(), s1, 24).Write(t, 50))
	src, err := New(w.js, Config{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := src.want().Config()
	cfg.Metadata = nil
	if _, err := w.js.CreateConsumer(t.Context(), stream, cfg); err != nil {
		t.Fatal(err)
	}
	p := w.project(Config{})
	w.caughtUp(s1)
	w.settled()
	p.stop()
	again := w.project(Config{})
	w.copy(storetest.NewAuthor(storetest.NewLog(), chunk.RootSession("acme", "s2"), 25).Write(t, 5))
	w.caughtUp(chunk.RootSession("acme", "s2"))
	if n := again.runner.Stats().Delivered; n > 50 {
		t.Errorf("%d deliveries, want only the new ones", n)
	}
}

// The lag is told, and is gone when everything is saved.
func TestLag(t *testing.T) {
	w := newWorld(t)
	w.copy(storetest.NewAuthor(storetest.NewLog(), s1, 26).Write(t, 30))
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	src, err := New(w.js, Config{Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := src.consumer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := src.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	messages, seconds := metrics.messages.WithLabelValues("0"), metrics.seconds.WithLabelValues("0")
	if n, age := testutil.ToFloat64(messages), testutil.ToFloat64(seconds); n < 30 || age <= 0 || age > 60 {
		t.Errorf("%v messages, %v s; want 30 and some", n, age)
	}
	p := w.project(Config{})
	w.caughtUp(s1)
	w.settled()
	p.stop()
	if err := src.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, age := testutil.ToFloat64(messages), testutil.ToFloat64(seconds); n != 0 || age != 0 {
		t.Errorf("%v messages, %v s; want none", n, age)
	}
}

// stillborn is a Store whose caller is dead after a number of saves: nothing that
// it does then has an effect.
type stillborn struct {
	projector.Store

	mu   sync.Mutex // guards left
	left int
	die  func()
}

func (s *stillborn) Save(ctx context.Context, snap fold.Snapshot, after projector.Revision) (projector.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left == 0 {
		return 0, errors.New("dead")
	}
	revision, err := s.Store.Save(ctx, snap, after)
	if s.left--; s.left == 0 {
		s.die()
		return 0, errors.New("dead")
	}
	return revision, err
}

// Dead between the save of a head and its acknowledgement, a hundred times, over
// a real server: whoever comes next ends with what the log says.
func TestDeadBetweenSaveAndAck(t *testing.T) {
	const seed = 27
	w := newWorld(t)
	random := rand.New(rand.NewPCG(seed, 0))
	draft := storetest.NewLog()
	var authors []*storetest.Author
	for i := range 4 {
		a := storetest.NewAuthor(draft, chunk.RootSession("acme", fmt.Sprint("s", i)), uint64(i))
		a.Crashes = false // the log keeps what crashes leave, and each mark reads it again
		authors = append(authors, a)
	}
	for range 100 {
		for _, a := range authors {
			w.copy(a.Write(t, 1+random.IntN(8)))
		}
		dead := make(chan struct{})
		store := &stillborn{Store: w.store, left: 1 + random.IntN(3), die: func() { close(dead) }}
		p := w.projectSaving(childConfig, projector.Config{SaveAfter: time.Millisecond, SaveRecords: 3, Patience: time.Second}, store)
		select {
		case <-dead:
		case <-time.After(time.Minute):
			t.Fatal("the projector saved nothing")
		}
		p.nc.Close() // no acknowledgement, no word
		p.stop()
		w.unpin()
	}
	w.project(childConfig)
	for _, a := range authors {
		w.caughtUp(a.Session)
	}
	w.settled()
}

// unpin saves the time until the server notices a death.
func (w *world) unpin() {
	w.tb.Helper()
	str, err := w.js.Stream(w.tb.Context(), stream)
	if err != nil {
		w.tb.Fatal(err)
	}
	if err := str.UnpinConsumer(w.tb.Context(), "projector", jsapi.PinnedGroup); err != nil {
		w.tb.Fatal(err)
	}
}

// Processes that are killed with -9 between the save of a head and its
// acknowledgement, one after the other.
func TestKilledBetweenSaveAndAck(t *testing.T) {
	srv := natstest.StartProcess(t)
	w := newWorldOn(t, func() *nats.Conn { return srv.Conn(t) })
	url := w.js.Conn().ConnectedUrl()
	a := storetest.NewAuthor(storetest.NewLog(), s1, 28)
	for range 10 {
		w.copy(a.Write(t, 40))
		startChild(t, childJob{URL: url, Die: 1}).awaitDeath(t)
		w.unpin()
	}
	startChild(t, childJob{URL: url})
	w.caughtUp(s1)
	w.settled()
}

// Two processes on one partition. The one that has it is frozen, the other takes
// over; it wakes up and both are there; the other is killed, and the first has it
// again.
func TestTwoProcesses(t *testing.T) {
	srv := natstest.StartProcess(t)
	w := newWorldOn(t, func() *nats.Conn { return srv.Conn(t) })
	url := w.js.Conn().ConnectedUrl()
	a, b := storetest.NewAuthor(storetest.NewLog(), s1, 29), storetest.NewAuthor(storetest.NewLog(), chunk.RootSession("acme", "s2"), 30)
	a.Crashes, b.Crashes = false, false
	write := func(check bool) {
		t.Helper()
		for range 10 {
			w.copy(a.Write(t, 10))
			w.copy(b.Write(t, 10))
		}
		if check {
			w.caughtUp(a.Session)
			w.caughtUp(b.Session)
		}
	}
	one := startChild(t, childJob{URL: url})
	write(true)
	two := startChild(t, childJob{URL: url})
	write(false)
	one.signal(t, syscall.SIGSTOP)
	begun := time.Now()
	write(true)
	t.Logf("%s after the owner was frozen, the other one had caught up", time.Since(begun).Round(time.Millisecond))
	one.signal(t, syscall.SIGCONT)
	write(true)
	two.signal(t, syscall.SIGKILL)
	two.awaitDeath(t)
	begun = time.Now()
	write(true)
	t.Logf("%s after the owner was killed, the other one had caught up", time.Since(begun).Round(time.Millisecond))
	w.settled()
}

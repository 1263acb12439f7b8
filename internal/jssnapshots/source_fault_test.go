package jssnapshots

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsreader"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/outputtest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/projector/fold"
)

// allAcknowledged waits until every delivery is acknowledged, however often it was delivered.
func (w *env) allAcknowledged() {
	w.tb.Helper()
	natstest.Eventually(w.tb, "acknowledgements", func(ctx context.Context) error {
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

// Unacknowledged deliveries of a projector that crashed are delivered to the next one together with the partition, not after AckWait.
func TestUnackedDeliveriesFollowThePartition(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	cfg := SourceConfig{TakeoverTimeout: 3 * time.Second, AckWait: 10 * time.Minute}
	nc := w.conn()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	hoarder, err := NewSource(js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.copy(storetest.NewSessionGenerator(storetest.NewLog(), s1, 21).Write(t, 100))
	ctx, die := context.WithCancel(t.Context())
	defer die()
	n := 0
	err = hoarder.Run(ctx, func(_ context.Context, batch []projector.Delivery) error {
		if n += len(batch); n >= 100 {
			nc.Close() // like a crash: the pin is not released
			die()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	p := w.project(cfg)
	w.caughtUp(s1)
	w.allAcknowledged()
	if p.runner.Stats().Delivered < 100 {
		t.Errorf("delivered %d, want all 100", p.runner.Stats().Delivered)
	}
}

// Records that are redelivered because their save took longer than AckWait change nothing.
func TestLateAcknowledgements(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	var seen observed
	w.projectSaving(SourceConfig{AckWait: time.Second, Observe: &seen}, projector.Config{SaveAfter: 5 * time.Second, SaveRecords: 1 << 20}, nil)
	draft := storetest.NewLog()
	w.copy([]chunk.Record{draft.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})})
	w.caughtUp(s1) // the start of a run is saved at once, with all that was delivered by then
	for i := range 50 {
		w.copy([]chunk.Record{draft.Append(t, s1, 1, chunk.TextDelta{Delta: fmt.Sprint(i)})})
	}
	w.caughtUp(s1)
	if _, _, redelivered := seen.values(); redelivered == 0 {
		t.Error("nothing was delivered again")
	}
	w.allAcknowledged()
}

// The bucket is deleted and recreated, while a projector runs and while none does: it is filled again from the log, also with sessions without new records.
func TestBucketRecreated(t *testing.T) {
	w := newEnv(t)
	quiet, busy := storetest.NewSessionGenerator(storetest.NewLog(), s1, 22), storetest.NewSessionGenerator(storetest.NewLog(), chunk.RootSession("acme", "s2"), 23)
	deleteBucket := func() {
		t.Helper()
		if err := w.js.DeleteKeyValue(t.Context(), names.Layout(w.layout).Snapshots()); err != nil {
			t.Fatal(err)
		}
	}
	one, two := w.project(SourceConfig{TakeoverTimeout: 3 * time.Second}), w.project(SourceConfig{TakeoverTimeout: 3 * time.Second})
	w.copy(quiet.Write(t, 100))
	w.copy(busy.Write(t, 100))
	w.caughtUp(quiet.Session)
	w.caughtUp(busy.Session)
	one.awaitStart(t, nil)
	two.awaitStart(t, nil)

	deleteBucket()
	w.copy(busy.Write(t, 20))
	w.ensure()
	w.caughtUp(quiet.Session)
	w.caughtUp(busy.Session)
	one.awaitStart(t, ErrBucketRecreated) // both were started again, also the one that waits
	two.awaitStart(t, ErrBucketRecreated)
	w.allAcknowledged()

	one.stop()
	two.stop()
	deleteBucket()
	w.ensure()
	w.project(SourceConfig{})
	w.caughtUp(quiet.Session)
	w.caughtUp(busy.Session)
	w.allAcknowledged()
}

// A consumer without metadata, of an older version, is used from its position.
func TestConsumerWithoutABucket(t *testing.T) {
	w := newEnv(t)
	w.copy(storetest.NewSessionGenerator(storetest.NewLog(), s1, 24).Write(t, 50))
	src, err := NewSource(w.js, SourceConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := src.Run(t.Context(), func(context.Context, []projector.Delivery) error { return io.EOF }); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	c, err := w.js.Consumer(t.Context(), stream, "projector")
	if err != nil {
		t.Fatal(err)
	}
	cfg := c.CachedInfo().Config
	if err := w.js.DeleteConsumer(t.Context(), stream, "projector"); err != nil {
		t.Fatal(err)
	}
	cfg.Metadata = nil
	if _, err := w.js.CreateConsumer(t.Context(), stream, cfg); err != nil {
		t.Fatal(err)
	}
	p := w.project(SourceConfig{})
	w.caughtUp(s1)
	w.allAcknowledged()
	p.stop()
	again := w.project(SourceConfig{})
	w.copy(storetest.NewSessionGenerator(storetest.NewLog(), chunk.RootSession("acme", "s2"), 25).Write(t, 5))
	w.caughtUp(chunk.RootSession("acme", "s2"))
	if n := again.runner.Stats().Delivered; n > 50 {
		t.Errorf("%d deliveries, want only the new ones", n)
	}
}

// The lag is reported, and is 0 when everything is saved.
func TestLag(t *testing.T) {
	w := newEnv(t)
	w.copy(storetest.NewSessionGenerator(storetest.NewLog(), s1, 26).Write(t, 30))
	var seen observed
	src, err := NewSource(w.js, SourceConfig{Observe: &seen})
	if err != nil {
		t.Fatal(err)
	}
	if err := src.Run(t.Context(), func(context.Context, []projector.Delivery) error { return io.EOF }); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if n, _, _ := seen.values(); n != unknownLag {
		t.Errorf("%d records after the Source has ended, want that its lag is unknown", n)
	}
	if err := src.check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, age, _ := seen.values(); n < 30 || age <= 0 || age > time.Minute {
		t.Errorf("%d records, the oldest of %s; want 30 and some", n, age)
	}
	w.unpin()
	p := w.project(SourceConfig{})
	w.caughtUp(s1)
	w.allAcknowledged()
	p.stop()
	if err := src.check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, age, _ := seen.values(); n != 0 || age != 0 {
		t.Errorf("%d records, the oldest of %s; want none", n, age)
	}
}

// unknownLag is more than any log has.
const unknownLag = 1 << 62

// observed is a SourceObserver that keeps the last lag of partition 0 and counts.
type observed struct {
	mu          sync.Mutex // guards the fields below
	records     uint64
	oldest      time.Duration
	redelivered int
}

func (o *observed) Redelivered() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.redelivered++
}

func (o *observed) Lag(_ int, records uint64, oldest time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.records, o.oldest = records, oldest
}

func (o *observed) LagUnknown(int) { o.Lag(0, unknownLag, 0) }

func (o *observed) values() (records uint64, oldest time.Duration, redelivered int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.records, o.oldest, o.redelivered
}

// dyingStore is a Store that drops all saves after a number of them, as if its process had crashed.
type dyingStore struct {
	projector.Store

	mu   sync.Mutex // guards left, the remaining saves
	left int
	die  func()
}

func (s *dyingStore) Save(ctx context.Context, snap fold.Snapshot, after projector.Revision) (projector.Revision, error) {
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

// A projector crashes a hundred times between the save of a head and its acknowledgement, with a real server: the last one arrives at the fold of the log.
func TestDeadBetweenSaveAndAck(t *testing.T) {
	const seed = 27
	w := newEnv(t)
	random := rand.New(rand.NewPCG(seed, 0))
	draft := storetest.NewLog()
	var authors []*storetest.SessionGenerator
	for i := range 4 {
		a := storetest.NewSessionGenerator(draft, chunk.RootSession("acme", fmt.Sprint("s", i)), uint64(i))
		a.WithCleanups = false // the log keeps the records of crashed runs, and each truncation record reads them again
		authors = append(authors, a)
	}
	for range 100 {
		for _, a := range authors {
			w.copy(a.Write(t, 1+random.IntN(8)))
		}
		dead := make(chan struct{})
		store := &dyingStore{Store: w.store, left: 1 + random.IntN(3), die: func() { close(dead) }}
		p := w.projectSaving(childConfig, projector.Config{SaveAfter: time.Millisecond, SaveRecords: 3, StallTimeout: time.Second}, store)
		select {
		case <-dead:
		case <-time.After(time.Minute):
			t.Fatal("the projector saved nothing")
		}
		p.nc.Close() // without an acknowledgement and without a release of the pin
		p.stop()
		w.unpin()
	}
	w.project(childConfig)
	for _, a := range authors {
		w.caughtUp(a.Session)
	}
	w.allAcknowledged()
}

// unpin saves the time until the server detects a crash.
func (w *env) unpin() {
	w.tb.Helper()
	str, err := w.js.Stream(w.tb.Context(), stream)
	if err != nil {
		w.tb.Fatal(err)
	}
	if err := str.UnpinConsumer(w.tb.Context(), "projector", jsreader.PinnedGroup); err != nil {
		w.tb.Fatal(err)
	}
}

// Processes are killed with -9 between the save of a head and its acknowledgement, one after the other.
func TestKilledBetweenSaveAndAck(t *testing.T) {
	t.Parallel()
	srv := natstest.StartProcess(t)
	w := newEnvOn(t, func() *nats.Conn { return srv.Conn(t) }, topology.Config{})
	url := w.js.Conn().ConnectedUrl()
	a := storetest.NewSessionGenerator(storetest.NewLog(), s1, 28)
	for range 10 {
		w.copy(a.Write(t, 40))
		startChild(t, childJob{URL: url, Die: 1}).awaitExit(t)
		w.unpin()
	}
	startChild(t, childJob{URL: url})
	w.caughtUp(s1)
	w.allAcknowledged()
}

// Two processes on one partition. The one that has it is frozen, and the other takes over; the first resumes, and both run; the other is killed, and the first
// has the partition again.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	srv := natstest.StartProcess(t)
	w := newEnvOn(t, func() *nats.Conn { return srv.Conn(t) }, topology.Config{})
	url := w.js.Conn().ConnectedUrl()
	a, b := storetest.NewSessionGenerator(storetest.NewLog(), s1, 29), storetest.NewSessionGenerator(storetest.NewLog(), chunk.RootSession("acme", "s2"), 30)
	a.WithCleanups, b.WithCleanups = false, false
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
	two.awaitExit(t)
	begun = time.Now()
	write(true)
	t.Logf("%s after the owner was killed, the other one had caught up", time.Since(begun).Round(time.Millisecond))
	w.allAcknowledged()
}

// The stream is deleted and recreated while two projectors run. Both detect it, and the records of the new stream are saved although their sequences are lower
// than those that the projectors have read: a new session, and one that continues after its snapshot.
func TestStreamRecreated(t *testing.T) {
	w := newEnv(t)
	old := storetest.NewSessionGenerator(storetest.NewLog(), s1, 33)
	old.WithCleanups = false
	var logged outputtest.Buffer
	cfg := SourceConfig{TakeoverTimeout: 3 * time.Second, Log: slog.New(slog.NewTextHandler(&logged, nil))}
	one, two := w.project(cfg), w.project(cfg)
	w.copy(old.Write(t, 100))
	w.caughtUp(s1)
	one.awaitStart(t, nil)
	two.awaitStart(t, nil)
	for round := range 3 {
		if err := w.js.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
		w.ensure()
		other := storetest.NewSessionGenerator(storetest.NewLog(), chunk.RootSession("acme", fmt.Sprint("new", round)), uint64(34+round))
		w.copy(other.Write(t, 10))
		w.copy(old.Write(t, 10))
		w.caughtUp(other.Session)
		last, err := w.log.Last(t.Context(), s1)
		if err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, "the session that continues", func(ctx context.Context) error {
			pos, _, _, err := w.reader.StoredPosition(ctx, s1)
			if err == nil && pos != last.Position() {
				err = fmt.Errorf("snapshot at %+v, log at %+v", pos, last.Position())
			}
			return err
		})
		for _, p := range []*project{one, two} {
			p.awaitStart(t, ErrStreamRecreated)
		}
		w.allAcknowledged()
	}
	if n := strings.Count(logged.String(), `msg="log stream deleted, recreated or rolled back" stream=`+stream); n != 6 {
		t.Errorf("logged %d times, want once for each projector and round:\n%s", n, logged.String())
	}
}

// gateStore is a Store that loads one session only after open is closed.
type gateStore struct {
	*Store

	session chunk.Session
	waits   chan struct{} // a load waits
	open    chan struct{}
}

func (st *gateStore) Load(ctx context.Context, s chunk.Session) (fold.Snapshot, projector.Revision, error) {
	if s == st.session {
		select {
		case st.waits <- struct{}{}:
		default:
		}
		select {
		case <-st.open:
		case <-ctx.Done():
			return fold.Snapshot{}, 0, ctx.Err()
		}
	}
	return st.Store.Load(ctx, s)
}

// TestSlowSessionKeepsThePartition loads a session for longer than TakeoverTimeout, while many batches of other sessions arrive:
// they are saved meanwhile, and the standby does not get the partition. The Runner took no deliveries meanwhile before, so the
// Source stopped requesting them and lost the pin.
func TestSlowSessionKeepsThePartition(t *testing.T) {
	w := newEnv(t)
	store := &gateStore{
		Store: w.store, session: chunk.RootSession("acme", "slow"), waits: make(chan struct{}, 1), open: make(chan struct{}),
	}
	cfg := SourceConfig{TakeoverTimeout: 3 * time.Second, Batch: 10}
	saving := projector.Config{SaveAfter: 20 * time.Millisecond, StallTimeout: time.Minute}
	first := w.projectSaving(cfg, saving, store)
	w.copy(storetest.NewSessionGenerator(storetest.NewLog(), s1, 3).Write(t, 20))
	w.caughtUp(s1)
	standby := w.projectSaving(cfg, saving, nil)
	w.copy(storetest.NewSessionGenerator(storetest.NewLog(), store.session, 4).Write(t, 100))
	<-store.waits
	for i, began := 0, time.Now(); time.Since(began) < 2*cfg.TakeoverTimeout; i++ {
		s := chunk.RootSession("acme", fmt.Sprintf("other%d", i))
		w.copy(storetest.NewSessionGenerator(storetest.NewLog(), s, uint64(i)).Write(t, 20))
		w.caughtUp(s)
	}
	close(store.open)
	w.caughtUp(store.session)
	if n := standby.runner.Stats().Delivered; n > 0 {
		t.Errorf("the standby got %d records, want 0", n)
	}
	if n := attachCount(first.source); n != 1 {
		t.Errorf("the source was attached %d times, want once", n)
	}
}

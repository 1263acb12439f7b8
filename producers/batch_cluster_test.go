package producers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
)

var cutsFlag = flag.Int("cuts", 0, "number of batches that TestBatchIsCut interrupts; 0 is one of each kind")

// A batch is interrupted between two of its messages, while other sessions are written. Each record is stored once, in order, or the writer was fenced and no record
// of the batch is stored.
func TestBatchIsCut(t *testing.T) {
	c := newCutTest(t)
	cuts := *cutsFlag
	if cuts == 0 {
		cuts = len(cutKinds)
	}
	for begin := 0; begin < cuts; begin += len(cutKinds) {
		load := newNamedLoadTest(t, c.p, c.direct, 4, "cut"+strconv.Itoa(begin)+"-")
		load.burst = 4
		load.every = time.NewTicker(10 * time.Millisecond)
		load.writeDuring(func() {
			for n := begin; n < min(cuts, begin+len(cutKinds)); n++ {
				c.cut(t, n, cutKinds[n%len(cutKinds)])
			}
		})
		load.every.Stop()
		load.check()
	}
	t.Logf("%d batches were stored, %d were fenced; of %d another writer stored equal records", c.stored, c.fenced, c.equal)
}

// cutTest has writers behind proxies that can hold a message, and one that is connected to the cluster without a proxy.
type cutTest struct {
	cluster *natstest.Cluster
	p       env
	direct  *Producer
	random  *rand.Rand
	writers []heldWriter

	stored, fenced, equal int
}

type heldWriter struct {
	proxy    *natstest.HoldProxy
	nc       *nats.Conn
	producer *Producer
}

func newCutTest(t *testing.T) *cutTest {
	t.Helper()
	cluster := natstest.StartCluster(t, 3)
	c := &cutTest{cluster: cluster, p: newEnv(t, cluster.Conn(t, nats.ErrorHandler(quiet)), 3), random: seedtest.Rand(t)}
	c.direct = c.p.producer(t, shortTimeouts())
	for _, url := range cluster.URLs() {
		proxy := natstest.StartHoldProxy(t, url)
		nc := natstest.Connect(t, proxy.URL, nats.ErrorHandler(quiet))
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		c.writers = append(c.writers, heldWriter{proxy, nc, newTestProducer(t, js, shortTimeouts())})
	}
	return c
}

// holding is a batch of which some messages have arrived and the others are held.
type holding struct {
	t       *testing.T
	w       heldWriter
	session chunk.Session
	r       *Run
	size    int
	hold    *natstest.Hold
	result  chan error // of Flush

}

var cutKinds = []struct {
	name   string
	commit bool // the last message is held
	do     func(c *cutTest, h *holding)
}{
	{"the connection is closed", false, func(_ *cutTest, h *holding) {
		h.w.proxy.CloseConnections()
		h.hold.Release()
	}},
	{"the rest arrives after a repetition", false, func(c *cutTest, h *holding) {
		h.reconnect(h.t)
		c.awaitStored(h.t, h)
		h.hold.Release()
	}},
	{"the rest arrives after a takeover", false, func(c *cutTest, h *holding) {
		if c.random.IntN(2) == 0 {
			h.reconnect(h.t)
		}
		c.takeOver(h.t, h, func() { h.hold.Release() })
	}},
	{"the rest arrives during a takeover", true, func(c *cutTest, h *holding) {
		reads := c.random.IntN(4) // as many as a takeover makes, or less
		go func() {
			for range reads {
				_, _ = c.direct.Head(context.WithoutCancel(h.t.Context()), h.session)
			}
			h.hold.Release()
		}()
		c.takeOver(h.t, h, func() {})
	}},
	{"the responses are lost", true, func(c *cutTest, h *holding) {
		h.w.proxy.DropReplies()
		h.hold.Release()
		c.awaitStored(h.t, h)
		h.w.proxy.Restore()
	}},
	{"a writer of the same epoch stores the same records", false, func(c *cutTest, h *holding) {
		c.storeEqual(h.t, h)
		h.hold.Release()
	}},
	{"the leader is killed", false, func(c *cutTest, h *holding) {
		leader := c.cluster.Leader(h.t, "TR_CHUNKS_0")
		c.cluster.Kill(h.t, leader)
		h.hold.Release()
		c.cluster.Restart(h.t, leader)
	}},
	{"the leader is killed during the commit", true, func(c *cutTest, h *holding) {
		leader := c.cluster.Leader(h.t, "TR_CHUNKS_0")
		go h.hold.Release()
		c.cluster.Kill(h.t, leader)
		c.cluster.Restart(h.t, leader)
	}},
	{"the leader steps down", false, func(c *cutTest, h *holding) {
		c.cluster.StepDown(h.t, "TR_CHUNKS_0")
		h.hold.Release()
	}},
	{"the leader steps down during the commit", true, func(c *cutTest, h *holding) {
		go h.hold.Release()
		c.cluster.StepDown(h.t, "TR_CHUNKS_0")
	}},
}

func (h *holding) reconnect(t *testing.T) {
	t.Helper()
	if err := h.w.nc.ForceReconnect(); err != nil {
		t.Error(err)
	}
}

// cut writes a batch in a new session, interrupts it, and checks the session.
func (c *cutTest) cut(t *testing.T, n int, kind struct {
	name   string
	commit bool
	do     func(c *cutTest, h *holding)
},
) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), natstest.WaitTimeout)
	defer cancel()
	h := &holding{t: t, w: c.writers[c.random.IntN(len(c.writers))], session: chunk.RootSession("cut", strconv.Itoa(n)), size: 2 + c.random.IntN(12), result: make(chan error, 1)}
	at := 1 + c.random.IntN(h.size)
	if kind.commit {
		at = h.size
	}
	c.cluster.AwaitCurrent(t, "TR_CHUNKS_0")
	h.r = mustStart(t, h.w.producer, h.session)
	defer func() { _ = h.r.Close() }()

	first := h.w.proxy.Hold(func(m string) bool {
		return strings.Contains(m, "."+h.session.ID+"."+h.session.ID+" ") && strings.Contains(m, "ce-id: 1-2\r\n")
	})
	emitAll(t, h.r, stamped(0))
	<-first.Held
	for i := range h.size {
		emitAll(t, h.r, stamped(i+1))
	}
	h.hold = h.w.proxy.Hold(func(m string) bool { return strings.Contains(m, "Nats-Batch-Sequence: "+strconv.Itoa(at)+"\r\n") })
	first.Release()
	select {
	case <-h.hold.Held:
	case <-ctx.Done():
		t.Fatalf("cut %d: no batch", n)
	}
	go func() {
		_, err := h.r.Flush(ctx)
		h.result <- err
	}()
	kind.do(c, h)
	err := <-h.result
	fenced := errors.Is(err, chunk.ErrFenced)
	if err != nil && !fenced {
		t.Errorf("cut %d, %s at %d of %d: %v", n, kind.name, at, h.size, err)
	}
	c.check(t, h, fmt.Sprintf("cut %d, %s at %d of %d", n, kind.name, at, h.size), fenced)
}

// stamped is a numbered chunk that is the same for each writer.
func stamped(n int) chunk.Chunk {
	c := numbered(n)
	c.AgentType, c.Timestamp = defaultAgentType, 1_770_000_000_000
	return c
}

// awaitStored waits until the log has the whole batch.
func (c *cutTest) awaitStored(t *testing.T, h *holding) {
	t.Helper()
	natstest.Eventually(t, "the batch", func(context.Context) error {
		if n := len(c.p.log(t, h.session)); n != h.size+2 {
			return fmt.Errorf("%d records, want %d", n, h.size+2)
		}
		return nil
	})
}

// takeOver starts another run, which writes a burst before and one after then.
func (c *cutTest) takeOver(t *testing.T, h *holding, then func()) {
	t.Helper()
	b, err := c.direct.Start(t.Context(), h.session, chunk.RunStarted{Mode: modeTakeover})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 10 {
		if n == 5 {
			mustFlush(t, b)
			then()
		}
		emitAll(t, b, stamped(1000+n))
	}
	if err := b.End(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// storeEqual stores the records of the batch as a writer that continues the run, record by record.
func (c *cutTest) storeEqual(t *testing.T, h *holding) {
	t.Helper()
	head, err := c.direct.Head(t.Context(), h.session)
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.direct.Continue(t.Context(), head, h.r.ID())
	if err != nil {
		t.Fatal(err)
	}
	b.log = singleLog{b.log}
	for n := range h.size {
		emitAll(t, b, stamped(n+1))
	}
	mustFlush(t, b)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	c.equal++
}

// singleLog stores no batches.
type singleLog struct{ sessionLog }

func (singleLog) storesBatches(context.Context) bool { return false }

// check reads the session: its ordinals are dense, no record of the first epoch follows one of the second, and its records are those that were written, each once.
func (c *cutTest) check(t *testing.T, h *holding, what string, fenced bool) {
	t.Helper()
	var first, second []int
	epoch := chunk.Epoch(1)
	for i, rec := range c.p.log(t, h.session) {
		if rec.Ordinal != chunk.Ordinal(i+1) {
			t.Errorf("%s: record %d has ordinal %d", what, i+1, rec.Ordinal)
		}
		if rec.Epoch < epoch {
			t.Errorf("%s: record %d of epoch %d after %d", what, i+1, rec.Epoch, epoch)
		}
		epoch = rec.Epoch
		n, ok := numberOf(t, rec)
		switch {
		case ok && epoch == 1:
			first = append(first, n)
		case ok:
			second = append(second, n)
		}
	}
	whole := make([]int, h.size+1)
	for n := range whole {
		whole[n] = n
	}
	stored := slices.Equal(first, whole)
	if !stored && (!fenced || !slices.Equal(first, whole[:1])) {
		t.Errorf("%s: the log has %v, want all of %v; fenced: %t", what, first, whole, fenced)
	}
	if epoch == 2 && !slices.Equal(second, []int{1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009}) {
		t.Errorf("%s: the second run has %v", what, second)
	}
	if fenced {
		c.fenced++
	} else {
		c.stored++
	}
}

// numberOf returns the number of a numbered chunk.
func numberOf(t *testing.T, rec chunk.Record) (n int, ok bool) {
	t.Helper()
	c, err := rec.Decode()
	if err != nil {
		t.Fatal(err)
	}
	b, ok := c.Body.(chunk.Custom)
	if !ok {
		return 0, false
	}
	if n, err = strconv.Atoi(string(b.Data)); err != nil {
		t.Fatal(err)
	}
	return n, true
}

// Twenty writers take five sessions from each other and write bursts, while the leader steps down.
func TestBurstsAndTakeovers(t *testing.T) {
	cluster := natstest.StartCluster(t, 3)
	p := newEnv(t, cluster.Conn(t), 3)
	random := seedtest.Rand(t)
	contest := &contest{p: p, emitted: map[contestant]int{}, acked: map[contestant]int{}}
	var writers sync.WaitGroup
	for i := range 20 {
		producer := newTestProducer(t, newJS(t, cluster.Conn(t, nats.ErrorHandler(quiet))), shortTimeouts())
		own := rand.New(rand.NewPCG(random.Uint64(), 0))
		writers.Go(func() {
			for range 5 + *cutsFlag/4 {
				if err := contest.run(t.Context(), producer, contestSession(i%5), own); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 2 + *cutsFlag/20 {
		cluster.StepDown(t, "TR_CHUNKS_0")
	}
	writers.Wait()
	for i := range 5 {
		contest.check(t, contestSession(i))
	}
}

func newJS(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func contestSession(i int) chunk.Session { return chunk.RootSession("contest", strconv.Itoa(i)) }

// contest counts what the writers of some sessions have written.
type contest struct {
	p env

	mu      sync.Mutex // guards the fields below
	emitted map[contestant]int
	acked   map[contestant]int // and stored
}

type contestant struct {
	session chunk.Session
	epoch   chunk.Epoch
}

// run takes a session over and writes bursts until it is fenced.
func (c *contest) run(ctx context.Context, p *Producer, s chunk.Session, random *rand.Rand) error {
	r, err := p.Start(ctx, s, chunk.RunStarted{Mode: modeTakeover})
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	me := contestant{s, r.Epoch()}
	for n, burst := 0, 0; burst < 4; burst++ {
		for range random.IntN(12) {
			if err := r.Emit(ctx, numbered(n)); err != nil {
				return notFenced(err)
			}
			n++
			c.set(c.emitted, me, n)
		}
		if random.IntN(2) == 0 {
			_, err = r.Flush(ctx)
		} else {
			c.set(c.emitted, me, n+1)
			_, err = r.Write(ctx, numbered(n))
			n++
		}
		if err == nil {
			c.set(c.acked, me, n)
		}
		if err == nil && random.IntN(3) == 0 {
			err = errors.Join(r.Pause(ctx, ""), r.Activate(ctx))
		}
		if err != nil {
			return notFenced(err)
		}
	}
	return notFenced(r.End(ctx, nil))
}

func notFenced(err error) error {
	if errors.Is(err, chunk.ErrFenced) || errors.Is(err, ErrPaused) {
		return nil
	}
	return err
}

func (c *contest) set(counts map[contestant]int, of contestant, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts[of] = n
}

// check compares the log with what each run has written: the numbers of each are 0, 1, 2, at least those that are acknowledged.
func (c *contest) check(t *testing.T, s chunk.Session) {
	t.Helper()
	var epoch chunk.Epoch
	stored := map[contestant]int{}
	for i, rec := range c.p.log(t, s) {
		if rec.Ordinal != chunk.Ordinal(i+1) {
			t.Fatalf("%s: record %d has ordinal %d", s, i+1, rec.Ordinal)
		}
		if started := rec.Type == chunk.TypeRunStarted; rec.Epoch < epoch || started != (rec.Epoch > epoch) {
			t.Errorf("%s: a %s of epoch %d after epoch %d", s, rec.Type, rec.Epoch, epoch)
		}
		epoch = rec.Epoch
		if n, ok := numberOf(t, rec); ok {
			of := contestant{s, epoch}
			if n != stored[of] {
				t.Errorf("%s: epoch %d has %d after %d", s, epoch, n, stored[of]-1)
			}
			stored[of] = n + 1
		}
	}
	for of, n := range c.emitted {
		if of.session == s && (stored[of] < c.acked[of] || stored[of] > n) {
			t.Errorf("%s: %d records of epoch %d; %d were written and %d acknowledged", s, stored[of], of.epoch, n, c.acked[of])
		}
	}
}

// Two writers continue a run and write the same records with the same input positions at the same time, one with batches and one without.
func TestTwoWritersOfAnEpochOnACluster(t *testing.T) {
	cluster := natstest.StartCluster(t, 3)
	p := newEnv(t, cluster.Conn(t), 3)
	producer := p.producer(t, shortTimeouts())
	other := newTestProducer(t, newJS(t, cluster.Conn(t)), shortTimeouts())
	random := seedtest.Rand(t)
	first := mustStart(t, producer, testSession)
	next, fenced := 0, 0
	for range 40 + *cutsFlag {
		size := 2 + random.IntN(10)
		var errs [2]error
		var both sync.WaitGroup
		var heads [2]Head
		for i, from := range []*Producer{producer, other} {
			var err error
			if heads[i], err = from.Head(t.Context(), testSession); err != nil {
				t.Fatal(err)
			}
		}
		for i, from := range []*Producer{producer, other} {
			r, err := from.Continue(t.Context(), heads[i], first.ID())
			if err != nil {
				t.Fatal(err)
			}
			if i == 1 {
				r.log = singleLog{r.log}
			}
			both.Go(func() {
				for n := range size {
					r.SetInput(codec.InputPosition{Run: first.ID(), Line: int64(next + n + 1)})
					if errs[i] = r.Emit(t.Context(), stamped(next+n)); errs[i] != nil {
						break
					}
				}
				if errs[i] == nil {
					_, errs[i] = r.Flush(t.Context())
				}
				_ = r.Close()
			})
		}
		both.Wait()
		for _, err := range errs {
			if err != nil {
				fenced++
				if !errors.Is(err, chunk.ErrFenced) {
					t.Error(err)
				}
			}
		}
		if errs[0] != nil && errs[1] != nil {
			t.Errorf("both writers are fenced: %v; %v", errs[0], errs[1])
		}
		next += size
	}
	got := 0
	for i, rec := range p.log(t, testSession) {
		if rec.Ordinal != chunk.Ordinal(i+1) {
			t.Fatalf("record %d has ordinal %d", i+1, rec.Ordinal)
		}
		if n, ok := numberOf(t, rec); ok {
			if n != got {
				t.Fatalf("%d after %d", n, got-1)
			}
			got++
		}
	}
	if got != next {
		t.Errorf("%d records, want %d", got, next)
	}
	t.Logf("%d writers were fenced", fenced)
}

package producers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// A session has the same records, and its writer the same errors, whether the log stores batches or not.
func TestBatchesChangeNoRecord(t *testing.T) {
	stamp := func(c chunk.Chunk) chunk.Chunk {
		c.Timestamp = 1_770_000_000_000
		return c
	}
	for name, cfg := range map[string]Config{
		"no limit": {},
		"bytes":    {MaxSessionBytes: 1500},
		"chunks":   {MaxSessionChunks: 5},
	} {
		t.Run(name, func(t *testing.T) {
			results := [2]string{}
			for i := range results {
				synctest.Test(t, func(t *testing.T) {
					l, r := batchLog(t, cfg)
					l.batches = i == 1
					l.limit = 2000
					for n := range 12 {
						c := numbered(n + 1)
						if n == 6 {
							c.Body = chunk.Custom{EventName: "n", Data: chunk.Value(strings.Repeat("7", 1900))}
						}
						emitAll(t, r, stamp(c))
					}
					var b strings.Builder
					_, err := r.Flush(t.Context())
					fmt.Fprintln(&b, err)
					fmt.Fprintln(&b, r.Fail(t.Context(), "end", nil))
					for _, m := range l.msgs {
						if headerOf(m.header, headerType) == string(chunk.TypeCustom) {
							fmt.Fprintf(&b, "%s %s %s\n", headerOf(m.header, headerID), headerOf(m.header, "ce-sessionbytes"), m.data)
						} else {
							fmt.Fprintln(&b, headerOf(m.header, headerID), headerOf(m.header, headerType))
						}
					}
					results[i] = b.String()
				})
			}
			if results[0] != results[1] {
				t.Errorf("without batches:\n%s\nwith batches:\n%s", results[0], results[1])
			}
		})
	}
}

// The servers hold one open batch of a stream at most, and a client that never completes it holds that one: the records are stored one by one, and in batches again.
func TestLimitOfOpenBatches(t *testing.T) {
	cluster := natstest.StartCluster(t, 3, natstest.ServerConfig(`jetstream { limits { batch { max_inflight_per_stream: 1 } } }`))
	p := newEnv(t, cluster.Conn(t), 3)
	load := newNamedLoadTest(t, p, nil, 0, "limit")
	load.burst = 9
	for i := range 10 {
		producer := newTestProducer(t, newJS(t, cluster.Conn(t)), shortTimeouts())
		load.runs = append(load.runs, mustStart(t, producer, load.session(i)))
	}
	load.acked = make([][]chunk.Seq, len(load.runs))
	part := func(ctx context.Context, n int) error {
		m := &nats.Msg{Subject: "tr.chunks.0.other.s.s", Header: nats.Header{"Nats-Batch-Id": {"other"}, "Nats-Batch-Sequence": {strconv.Itoa(n)}}}
		answer, err := p.nc.RequestMsgWithContext(ctx, m)
		if err == nil && len(answer.Data) > 0 {
			err = errors.New(string(answer.Data))
		}
		return err
	}
	load.writeDuring(func() {
		load.await(300)
		natstest.Eventually(t, "an open batch", func(ctx context.Context) error { return part(ctx, 1) })
		for n := range 3 {
			load.await(100)
			if err := part(t.Context(), n+2); err != nil { // it stays open
				t.Error(err)
			}
		}
		if err := part(t.Context(), 9); err == nil || !strings.Contains(err.Error(), "10176") {
			t.Errorf("a gap: %v, want that the batch is closed", err)
		}
	})
	load.check()
	load.writeOne(t)
	if n := batched(t, p.producer(t, Config{}), load.session(0)); n < 2 {
		t.Errorf("%d records were stored in batches", n)
	}
}

// writeOne writes a burst of the first writer, and no other writes meanwhile.
func (s *loadTest) writeOne(t *testing.T) {
	t.Helper()
	if err := s.write(t.Context(), 0); err != nil {
		t.Error(err)
	}
}

// The configuration of the stream changes while bursts are written: it stores no batches, it stores them again, it has one replica, and three.
func TestStreamChangesDuringBursts(t *testing.T) {
	cluster := natstest.StartCluster(t, 3)
	p := newEnv(t, cluster.Conn(t), 3)
	load := newLoadTest(t, p, p.producer(t, shortTimeouts()), 6)
	load.burst = 7
	load.writeDuring(func() {
		for _, change := range []func(*jetstream.StreamConfig){
			func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false },
			func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = true },
			func(c *jetstream.StreamConfig) { c.Replicas = 1 },
			func(c *jetstream.StreamConfig) { c.Replicas = 3 },
		} {
			load.await(60)
			p.change(t, change)
			load.await(60)
		}
	})
	load.check()
}

// change changes the configuration of the stream.
func (p env) change(t *testing.T, change func(*jetstream.StreamConfig)) {
	t.Helper()
	natstest.Eventually(t, "the change of the stream", func(ctx context.Context) error {
		stream, err := p.js.Stream(ctx, "TR_CHUNKS_0")
		if err != nil {
			return err
		}
		cfg := stream.CachedInfo().Config
		change(&cfg)
		_, err = p.js.UpdateStream(ctx, cfg)
		return err
	})
}

// A record in the middle of a burst is too large for the stream, or for the servers since they have read their configuration again: it has its error, and the others
// are stored.
func TestRefusedRecordOnACluster(t *testing.T) {
	cluster := natstest.StartCluster(t, 3)
	p := newEnv(t, cluster.Conn(t, nats.ErrorHandler(quiet)), 3)
	r := mustStart(t, p.producer(t, shortTimeouts()), testSession)
	next := 0
	burst := func() {
		t.Helper()
		refused := 0
		isRefused := func(err error) bool {
			if !errors.Is(err, chunk.ErrTooLarge) || !strings.HasPrefix(err.Error(), "queued chunk: ") {
				return false
			}
			refused++
			return true
		}
		for i := range 9 {
			c := numbered(next)
			if i == 4 {
				c.Body = chunk.Custom{EventName: "large", Data: chunk.Value(strings.Repeat("1", 20_000))}
			} else {
				next++
			}
			err := r.Emit(t.Context(), c)
			if isRefused(err) { // the large one is already refused, and c is not queued
				err = r.Emit(t.Context(), c)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.Flush(t.Context()); err != nil && !isRefused(err) || refused != 1 {
			t.Errorf("%v, and %d chunks are too large, want one", err, refused)
		}
		mustFlush(t, r)
	}
	p.change(t, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 10_000 })
	burst()
	p.change(t, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1 << 20 })
	for i := range 3 {
		cluster.Node(i).Reload(t, "max_payload: 10000")
	}
	if err := p.nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the limit of the server", func(context.Context) error {
		if n := p.nc.MaxPayload(); n != 10_000 {
			return fmt.Errorf("%d bytes", n)
		}
		return nil
	})
	burst()
	wantAllNumbers(t, p, testSession, next)
}

// wantAllNumbers compares the numbered chunks of a session with 0 to n-1, and the ordinals of all records.
func wantAllNumbers(t *testing.T, p env, s chunk.Session, n int) {
	t.Helper()
	next := 0
	for i, rec := range p.log(t, s) {
		if rec.Ordinal != chunk.Ordinal(i+1) {
			t.Fatalf("%s: record %d has ordinal %d", s, i+1, rec.Ordinal)
		}
		if got, ok := numberOf(t, rec); ok {
			if got != next {
				t.Fatalf("%s: %d after %d", s, got, next-1)
			}
			next++
		}
	}
	if next != n {
		t.Errorf("%s: %d chunks, want %d", s, next, n)
	}
}

// The stream becomes full in the middle of the bursts of four writers. Each chunk is stored or reported as not stored, and later ones are stored when there is space.
func TestFullStreamDuringBursts(t *testing.T) {
	cluster := natstest.StartCluster(t, 3)
	p := newEnv(t, cluster.Conn(t), 3)
	p.change(t, func(c *jetstream.StreamConfig) { c.MaxBytes, c.Discard = 200<<10, jetstream.DiscardNew })
	producer := p.producer(t, Config{RetryTimeout: 10 * time.Second})
	type writer struct {
		emitted, lost int
		err           error
	}
	writers := make([]writer, 4)
	runs := make([]*Run, len(writers))
	done := make(chan int)
	for i := range writers {
		runs[i] = mustStart(t, producer, contestSession(i))
		go func() {
			w := &writers[i]
			for w.err == nil && w.emitted < 10_000 {
				for range 7 {
					if w.err = runs[i].Emit(t.Context(), numbered(w.emitted)); w.err != nil {
						break
					}
					w.emitted++
				}
				if w.err == nil {
					_, w.err = runs[i].Flush(t.Context())
				}
			}
			done <- i
		}()
	}
	for range writers {
		<-done
	}
	for i, w := range writers {
		if _, err := fmt.Sscanf(w.err.Error(), "%d queued chunks", &w.lost); err != nil && !strings.HasPrefix(w.err.Error(), "queued chunk: ") {
			t.Errorf("writer %d: %v", i, w.err)
		}
		w.lost = max(1, w.lost)
		if !errors.Is(w.err, chunk.ErrNoStorage) || !errors.Is(w.err, chunk.ErrNotStored) {
			t.Errorf("writer %d: %v, want that the stream is full", i, w.err)
		}
		wantAllNumbers(t, p, contestSession(i), w.emitted-w.lost)
		writers[i].lost = w.lost
	}
	p.change(t, func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 30 })
	for i, w := range writers {
		stored := w.emitted - w.lost
		for n := range 7 {
			emitAll(t, runs[i], numbered(stored+n))
		}
		mustFlush(t, runs[i])
		wantAllNumbers(t, p, contestSession(i), stored+7)
	}
}

// A connection does not accept the bytes of a batch while ten runs write. One run is closed meanwhile. When the connection accepts bytes again, or breaks, all others
// are stored.
func TestBlockedConnection(t *testing.T) {
	cluster := natstest.StartCluster(t, 3)
	p := newEnv(t, cluster.Conn(t), 3)
	for _, broken := range []bool{false, true} {
		d := &blockingDialer{blocked: make(chan struct{}), accept: make(chan struct{}), broken: broken}
		js := newJS(t, natstest.Connect(t, cluster.URL(), nats.ErrorHandler(quiet), nats.SetCustomDialer(d)))
		producer := newTestProducer(t, js, Config{})
		var runs []*Run
		for i := range 10 {
			runs = append(runs, mustStart(t, producer, chunk.RootSession("blocked", fmt.Sprintf("%t%d", broken, i))))
		}
		for _, r := range runs {
			for n := range 10 {
				emitAll(t, r, numbered(n))
			}
		}
		<-d.blocked
		closed := make(chan error)
		go func() { closed <- runs[0].Close() }()
		close(d.accept)
		<-closed // whether its chunks were stored before is open
		for _, r := range runs[1:] {
			mustFlush(t, r)
			wantAllNumbers(t, p, r.Session(), 10)
		}
	}
}

// blockingDialer makes connections of which one blocks when it writes a certain batch.
type blockingDialer struct {
	blocked chan struct{} // closed when it blocks
	accept  chan struct{}
	broken  bool // that connection is closed then

	once sync.Once
}

type blockingConn struct {
	net.Conn

	d *blockingDialer
}

func (d *blockingDialer) Dial(network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(context.Background(), network, address)
	return blockingConn{c, d}, err
}

func (c blockingConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("Nats-Batch-Sequence: 3\r\n")) {
		c.d.once.Do(func() {
			close(c.d.blocked)
			<-c.d.accept
			if c.d.broken {
				b = b[:len(b)/2]
				_, _ = c.Conn.Write(b)
				_ = c.Close()
			}
		})
	}
	return c.Conn.Write(b)
}

// Cleanups, pauses, sub-agents and the end of a run within bursts, on a cluster.
func TestBurstsWithTransitions(t *testing.T) {
	cluster := natstest.StartCluster(t, 3)
	p := newEnv(t, cluster.Conn(t), 3)
	producer := p.producer(t, Config{})
	r := mustStart(t, producer, testSession)
	burst := func(r *Run, from int) {
		t.Helper()
		for n := range 6 {
			emitAll(t, r, numbered(from+n))
		}
	}
	burst(r, 0)
	removed := make(chan error, 1)
	go func() {
		n, err := r.CleanupToStep(t.Context(), 0, 0)
		if err == nil && n < 6 {
			err = fmt.Errorf("%d records removed", n)
		}
		removed <- err
	}()
	for n := range 200 { // during the cleanup
		emitAll(t, r, chunk.Chunk{Body: chunk.Custom{EventName: "n", Data: chunk.Value(strconv.Itoa(6 + n))}})
	}
	if err := <-removed; err != nil {
		t.Fatal(err)
	}
	child, err := r.Child(t.Context(), chunk.SubagentStart{SubAgentType: "sub", CallID: "c"}, chunk.RunStarted{})
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	burst(child, 0)
	burst(r, 206)
	if err := r.Pause(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if err := r.Activate(t.Context()); err != nil {
		t.Fatal(err)
	}
	burst(child, 6)
	if err := r.EndChild(t.Context(), child, nil); err != nil {
		t.Fatal(err)
	}
	burst(r, 212)
	if err := r.End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	wantAllNumbers(t, p, child.Session(), 12)
	last, marks := chunk.Ordinal(0), 0
	next := -1
	for _, rec := range p.log(t, testSession) {
		if rec.Ordinal <= last {
			t.Fatalf("ordinal %d after %d", rec.Ordinal, last)
		}
		if rec.Type == chunk.TypeTruncated {
			marks++
		}
		last = rec.Ordinal
		if n, ok := numberOf(t, rec); ok {
			if n <= next {
				t.Fatalf("%d after %d", n, next)
			}
			next = n
		}
	}
	// Records of the session: run_started, 218 chunks, a truncation record, the two of the sub-agent, the pause and its end, and the end of the run.
	if next != 217 || marks != 1 || last != 225 {
		t.Errorf("the last number is %d, the last ordinal %d, with %d truncation records", next, last, marks)
	}
}

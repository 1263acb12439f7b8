package producers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/topology"
)

// loadTest has sessions that are written during faults. Each writer numbers its chunks; in the end the log must contain exactly these numbers.
type loadTest struct {
	t       *testing.T
	p       env // reads the log without the faults
	runs    []*Run
	acked   [][]chunk.Seq // 0 for a chunk that was stored with the next one
	burst   int           // chunks before each one that is waited for
	name    string        // prefix of the sessions
	every   *time.Ticker  // of the bursts of all writers; nil for no limit
	written atomic.Int64
	news    chan struct{} // gets a token from time to time while chunks are acknowledged
}

func newLoadTest(t *testing.T, p env, producer *Producer, writers int) *loadTest {
	t.Helper()
	return newNamedLoadTest(t, p, producer, writers, "s")
}

func newNamedLoadTest(t *testing.T, p env, producer *Producer, writers int, name string) *loadTest {
	t.Helper()
	s := &loadTest{t: t, p: p, news: make(chan struct{}, 1), acked: make([][]chunk.Seq, writers), name: name}
	for i := range writers {
		s.runs = append(s.runs, mustStart(t, producer, s.session(i)))
	}
	return s
}

func (s *loadTest) session(i int) chunk.Session {
	return chunk.RootSession("load", s.name+strconv.Itoa(i))
}

// writeDuring writes while fault runs, and returns when all writers have written a few more chunks after it.
func (s *loadTest) writeDuring(fault func()) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	var stop atomic.Bool
	var all sync.WaitGroup
	for i := range s.runs {
		all.Go(func() {
			for after := 0; after < 5; {
				if stop.Load() {
					after++
				}
				if err := s.write(ctx, i); err != nil {
					s.t.Errorf("writer %d, chunk %d: %v", i, len(s.acked[i]), err)
					stop.Store(true)
					return
				}
			}
		})
	}
	fault()
	stop.Store(true)
	all.Wait()
}

func (s *loadTest) write(ctx context.Context, i int) error {
	if s.every != nil {
		<-s.every.C
	}
	n := len(s.acked[i])
	for b := range s.burst {
		if err := s.runs[i].Emit(ctx, numbered(n+b)); err != nil {
			return err
		}
	}
	seq, err := s.runs[i].Write(ctx, numbered(n+s.burst))
	if err != nil {
		return err
	}
	s.acked[i] = append(append(s.acked[i], make([]chunk.Seq, s.burst)...), seq)
	s.written.Add(1)
	select {
	case s.news <- struct{}{}:
	default:
	}
	return nil
}

// await returns when n more chunks were acknowledged.
func (s *loadTest) await(n int64) {
	s.t.Helper()
	timeout := time.NewTimer(time.Minute)
	defer timeout.Stop()
	for want := s.written.Load() + n; s.written.Load() < want; {
		select {
		case <-s.news:
		case <-timeout.C:
			s.t.Fatal("the writers do not get on")
		}
	}
}

// check compares the log with the acknowledged chunks: every number once, in order, contiguous ordinals, and the returned sequences.
func (s *loadTest) check() {
	s.t.Helper()
	for i, acked := range s.acked {
		recs := s.p.log(s.t, s.session(i))
		if len(recs) != len(acked)+1 {
			s.t.Errorf("session %d: %d records, want %d and the run_started", i, len(recs), len(acked))
			continue
		}
		for n, rec := range recs {
			if rec.Ordinal != chunk.Ordinal(n+1) {
				s.t.Fatalf("session %d: record %d has ordinal %d", i, n, rec.Ordinal)
			}
			if n > 0 && (acked[n-1] != 0 && rec.Seq != acked[n-1] || !strings.Contains(string(rec.Data), `"data":`+strconv.Itoa(n-1)+`}`)) {
				s.t.Fatalf("session %d: record %d is %s at %d, acknowledged at %d", i, n, rec.Data, rec.Seq, acked[n-1])
			}
		}
	}
}

// shortTimeouts is a Config with a short wait for responses that were lost.
func shortTimeouts() Config {
	return Config{AttemptTimeout: 300 * time.Millisecond, RetryTimeout: time.Minute}
}

// throughProxy returns a producer behind a proxy that can lose responses of the server.
func throughProxy(t *testing.T, url string, cfg Config) (*natstest.Proxy, *Producer) {
	t.Helper()
	proxy := natstest.StartProxy(t, url)
	nc := natstest.Connect(t, proxy.URL, nats.ErrorHandler(quiet))
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return proxy, newTestProducer(t, js, cfg)
}

// quiet drops the log messages of the client about expected faults.
func quiet(*nats.Conn, *nats.Subscription, error) {}

// watch counts the messages that the server stores in a stream, without the proxy.
func (p env) watch(t *testing.T) <-chan *nats.Msg {
	t.Helper()
	stored := make(chan *nats.Msg, 10_000)
	sub, err := p.nc.ChanSubscribe("tr.chunks.0.>", stored)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	if err := p.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return stored
}

// Messages arrive and their acknowledgements are lost, repeatedly; then the connection breaks, and is restored (F12, F35).
func TestLostAcknowledgements(t *testing.T) {
	srv := natstest.Start(t)
	loseAcknowledgements(t, newEnv(t, srv.Conn(t), 1), srv.URL, 0)
}

// The same with three replicas, where the server checks in another order.
func TestLostAcknowledgementsOfACluster(t *testing.T) {
	cluster := natstest.StartCluster(t, 3)
	p := newEnv(t, cluster.Conn(t), 3)
	loseAcknowledgements(t, p, cluster.URLs()[0], 4)
}

func loseAcknowledgements(t *testing.T, p env, url string, burst int) {
	t.Helper()
	var adopted counter
	cfg := shortTimeouts()
	cfg.Log = slog.New(&adopted)
	proxy, producer := throughProxy(t, url, cfg)
	s := newLoadTest(t, p, producer, 4)
	s.burst = burst
	s.writeDuring(func() {
		for range 2 {
			s.await(20)
			arrived := p.watch(t)
			proxy.DropReplies()
			awaitRepeats(t, arrived, len(s.runs)) // every writer sends a message again that is already stored
			proxy.Restore()
		}
	})
	s.check()
	if n := adopted.n.Load(); n < 4 {
		t.Errorf("%d messages were found in the log after a lost acknowledgement: the test proves nothing", n)
	}
}

// awaitRepeats returns when n writers have sent a message twice.
func awaitRepeats(t *testing.T, arrived <-chan *nats.Msg, n int) {
	t.Helper()
	timeout := time.NewTimer(time.Minute)
	defer timeout.Stop()
	seen := map[string]bool{}
	repeated := map[string]bool{}
	for len(repeated) < n {
		select {
		case m := <-arrived:
			id := m.Subject + " " + m.Header.Get(headerID)
			if seen[id] {
				repeated[m.Subject] = true
			}
			seen[id] = true
		case <-timeout.C:
			t.Fatalf("%d of %d writers repeated something", len(repeated), n)
		}
	}
}

// counter is a log that counts messages found after a lost acknowledgement.
type counter struct{ n atomic.Int64 }

func (c *counter) WithAttrs([]slog.Attr) slog.Handler { return c }

func (c *counter) WithGroup(string) slog.Handler { return c }

func (c *counter) Enabled(context.Context, slog.Level) bool { return true }

func (c *counter) Handle(_ context.Context, r slog.Record) error {
	if r.Message == msgStoredEarlier {
		c.n.Add(1)
	}
	return nil
}

// The connection is closed every few chunks (F13).
func TestConnectionIsCutAgainAndAgain(t *testing.T) {
	srv := natstest.Start(t)
	p := newEnv(t, srv.Conn(t), 1)
	proxy, producer := throughProxy(t, srv.URL, Config{})
	s := newLoadTest(t, p, producer, 4)
	begin := time.Now()
	s.writeDuring(func() {
		for range 20 {
			s.await(10)
			proxy.CloseConnections()
		}
	})
	s.check()
	// A lost connection costs a reconnect, not the timeout of an attempt.
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("twenty cuts took %s: attempts wait for answers that cannot come", took)
	}
}

// The server is suspended for four seconds. Everything that was sent meanwhile is stored when it resumes, by the first attempts and the repeated ones (F07).
func TestServerSuspended(t *testing.T) {
	srv := natstest.StartProcess(t)
	p := newEnv(t, srv.Conn(t), 1)
	s := newLoadTest(t, p, p.producer(t, shortTimeouts()), 4)
	s.writeDuring(func() {
		s.await(40)
		srv.Stop(t)
		<-time.After(4 * time.Second) // the fault itself
		srv.Cont(t)
		s.await(40)
	})
	s.check()
}

// kill -9 of a single server, three times, restarted on the same files (F04).
func TestKilledServer(t *testing.T) {
	srv := natstest.StartProcess(t)
	p := newEnv(t, srv.Conn(t), 1)
	s := newLoadTest(t, p, p.producer(t, shortTimeouts()), 8)
	s.writeDuring(func() {
		for range 3 {
			s.await(100)
			srv.Kill(t)
			srv.Start(t)
		}
	})
	s.check()
}

// Takeovers, kill -9 of the leader of three, and step-downs (F05, F26).
func TestClusterWithoutItsLeader(t *testing.T) {
	cluster := natstest.StartCluster(t, 3)
	p := newEnv(t, cluster.Conn(t), 3)
	takeOverBusyRuns(t, p)
	s := newLoadTest(t, p, p.producer(t, shortTimeouts()), 4)
	s.burst = 4
	s.writeDuring(func() {
		for range 3 {
			s.await(40)
			if _, err := p.nc.Request("$JS.API.STREAM.LEADER.STEPDOWN.TR_CHUNKS_0", nil, 5*time.Second); err != nil {
				t.Error(err)
			}
		}
		s.await(40)
		leader := cluster.Leader(t, "TR_CHUNKS_0")
		cluster.Kill(t, leader)
		s.await(40)
		cluster.Restart(t, leader)
		s.await(40)
	})
	s.check()
}

// A worker hangs in the middle of its run, another takes over, and the first one resumes: none of its records is stored after the new epoch, not even those in
// flight, and its next publish returns the error (F08, G8).
func TestTakeoverFencesAWorkerThatResumes(t *testing.T) {
	srv := natstest.Start(t)
	p := newEnv(t, srv.Conn(t), 1)
	proxy, old := throughProxy(t, srv.URL, Config{})
	a := mustStart(t, old, testSession)
	if _, err := a.Write(t.Context(), numbered(0)); err != nil {
		t.Fatal(err)
	}
	proxy.Stall()
	onTheWay := make(chan error, 1)
	go func() {
		_, err := a.Write(t.Context(), numbered(1))
		onTheWay <- err
	}()
	b, err := p.producer(t, Config{}).Start(t.Context(), testSession, chunk.RunStarted{Mode: "takeover"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Write(t.Context(), numbered(2)); err != nil {
		t.Fatal(err)
	}
	proxy.Restore()
	var fenced *FencedError
	if err := <-onTheWay; !errors.As(err, &fenced) || fenced.By != b.Epoch() {
		t.Errorf("err = %v, want fenced by epoch %d", err, b.Epoch())
	}
	if err := a.Emit(t.Context(), numbered(3)); !errors.Is(err, chunk.ErrFenced) {
		t.Errorf("afterwards: %v", err)
	}
	if _, err := b.Write(t.Context(), numbered(4)); err != nil {
		t.Error(err)
	}
	wantEpochs(t, p.log(t, testSession), 1, 1, 2, 2, 2)
}

func wantEpochs(t *testing.T, recs []chunk.Record, want ...chunk.Epoch) {
	t.Helper()
	var got []chunk.Epoch
	for _, rec := range recs {
		got = append(got, rec.Epoch)
	}
	if !slices.Equal(got, want) {
		t.Errorf("epochs %v, want %v", got, want)
	}
}

// A run that writes at maximum speed is taken over nevertheless, and its earlier records remain.
func TestTakeoverOfABusyRun(t *testing.T) { takeOverBusyRuns(t, local(t)) }

func takeOverBusyRuns(t *testing.T, p env) {
	t.Helper()
	producer := p.producer(t, Config{})
	for round := range 5 {
		s := chunk.RootSession("busy", strconv.Itoa(round))
		a := mustStart(t, producer, s)
		var acked []chunk.Seq
		begun := make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			for n := 0; ; n++ {
				seq, err := a.Write(t.Context(), numbered(n))
				if err != nil {
					ended <- err
					return
				}
				acked = append(acked, seq)
				if n == 50 {
					close(begun)
				}
			}
		}()
		<-begun
		b, err := producer.Start(t.Context(), s, chunk.RunStarted{Mode: "takeover"})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, chunk.ErrFenced) {
			t.Errorf("err = %v, want fenced", err)
		}
		if err := b.End(t.Context(), nil); err != nil {
			t.Error(err)
		}
		recs := p.log(t, s)
		if n := len(recs); n != len(acked)+3 || recs[n-2].Epoch != 2 || recs[n-1].Epoch != 2 || recs[n-3].Epoch != 1 {
			t.Errorf("%d acknowledged, %d records", len(acked), n)
		}
	}
}

// Concurrent starts for one session over different connections: they have an order, each epoch occurs once, and the last one is not fenced.
func TestRacingStartsOnAServer(t *testing.T) {
	p := local(t)
	const racers = 8
	var all sync.WaitGroup
	runs := make([]*Run, racers)
	for i := range racers {
		producer := p.producer(t, Config{})
		all.Go(func() {
			var err error
			runs[i], err = producer.Start(t.Context(), testSession, chunk.RunStarted{RunID: "same", Mode: "takeover"})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	recs := p.log(t, testSession)
	if len(recs) != racers {
		t.Fatalf("%d records, want %d", len(recs), racers)
	}
	alive := 0
	for i, rec := range recs {
		if rec.Epoch != chunk.Epoch(i+1) || rec.Ordinal != chunk.Ordinal(i+1) {
			t.Errorf("record %d: epoch %d, ordinal %d", i, rec.Epoch, rec.Ordinal)
		}
	}
	slices.SortFunc(runs, func(a, b *Run) int { return int(a.Epoch()) - int(b.Epoch()) })
	for i, r := range runs {
		if r.Epoch() != chunk.Epoch(i+1) {
			t.Errorf("run %d has epoch %d", i, r.Epoch())
		}
		_, err := r.Write(t.Context(), numbered(i))
		switch {
		case err == nil:
			alive++
		case !errors.Is(err, chunk.ErrFenced):
			t.Error(err)
		}
	}
	if alive != 1 {
		t.Errorf("%d runs can write, want the last", alive)
	}
}

// A message for which the server would close the connection is not sent, and the connection stays open (F34).
func TestOversizedChunkDoesNotCloseTheConnection(t *testing.T) {
	p := ensurePlace(t, natstest.Start(t).Conn(t), topology.Config{MaxMsgSize: 1 << 20})
	producer := p.producer(t, Config{MaxChunk: 4 << 20})
	r := mustStart(t, producer, testSession)
	big := chunk.Chunk{Body: chunk.Custom{EventName: "n", Data: chunk.Value(`"` + strings.Repeat("x", 2<<20) + `"`)}}
	if _, err := r.Write(t.Context(), big); !errors.Is(err, chunk.ErrTooLarge) || !errors.Is(err, chunk.ErrNotStored) {
		t.Errorf("err = %v, want too large", err)
	}
	long := strings.Repeat("y", 2<<20)
	if _, err := r.Write(t.Context(), text(long)); err != nil {
		t.Error(err)
	}
	var got strings.Builder
	for _, rec := range p.log(t, testSession)[1:] {
		c, err := rec.Decode()
		if err != nil {
			t.Fatal(err)
		}
		s, _ := deltaText(c.Body)
		got.WriteString(s)
	}
	if got.String() != long {
		t.Errorf("the log has %d of %d bytes", got.Len(), len(long))
	}
	if n := p.nc.Stats().Reconnects; n != 0 || !p.nc.IsConnected() {
		t.Errorf("the connection broke %d times", n)
	}
}

// A stream with smaller limits than the default rejects the chunk and nothing else.
func TestStreamWithASmallerLimit(t *testing.T) {
	p := local(t)
	stream, err := p.js.Stream(t.Context(), "TR_CHUNKS_0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.MaxMsgSize = 10 << 10
	if _, err := p.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	r := mustStart(t, p.producer(t, Config{}), testSession)
	big := chunk.Chunk{Body: chunk.Custom{EventName: "n", Data: chunk.Value(`"` + strings.Repeat("x", 20<<10) + `"`)}}
	emitAll(t, r, numbered(1))
	if _, err := r.Write(t.Context(), big); !errors.Is(err, chunk.ErrNotStored) || !errors.Is(err, chunk.ErrTooLarge) {
		t.Errorf("err = %v, want too large", err)
	}
	if _, err := r.Write(t.Context(), numbered(2)); err != nil {
		t.Error(err)
	}
	if n := len(p.log(t, testSession)); n != 3 {
		t.Errorf("%d records, want 3", n)
	}
}

// A write is retried while the store is full; a store that stays full is an error, and a write
// after space was freed is stored (F19).
func TestFullStore(t *testing.T) {
	srv := natstest.Start(t, natstest.MaxStore(256<<20))
	p := newEnvOf(t, srv)
	stream, err := p.js.Stream(t.Context(), "TR_CHUNKS_0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.MaxBytes = 64 << 10
	cfg.Discard = jetstream.DiscardNew
	if _, err := p.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	r := mustStart(t, p.producer(t, Config{RetryTimeout: time.Second}), testSession)
	var full error
	n := 0
	for full == nil {
		if _, full = r.Write(t.Context(), numbered(n)); full == nil {
			n++
		}
	}
	if !errors.Is(full, chunk.ErrNotStored) || !errors.Is(full, chunk.ErrNoStorage) || !strings.Contains(full.Error(), "maximum bytes exceeded") {
		t.Fatalf("err = %v, want not stored because the store is full", full)
	}
	// Space is freed while the next write waits for it.
	freed := make(chan error, 1)
	go func() { freed <- stream.DeleteMsg(t.Context(), uint64(p.logSeq(t, 2))) }()
	if _, err := r.Write(t.Context(), numbered(n)); err != nil {
		t.Errorf("after space was freed: %v", err)
	}
	if err := <-freed; err != nil {
		t.Error(err)
	}
}

// A session whose stream is missing is an error that names the stream.
func TestMissingStream(t *testing.T) {
	nc := natstest.Start(t).Conn(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	_, err = newTestProducer(t, js, Config{RetryTimeout: time.Second}).Start(t.Context(), testSession, chunk.RunStarted{})
	if !errors.Is(err, chunk.ErrNotStored) || !strings.Contains(err.Error(), "TR_CHUNKS_0") {
		t.Errorf("err = %v, want the stream's name", err)
	}
}

// A worker without permission for the subject gets an error that names it, without retries.
func TestNoPermission(t *testing.T) {
	srv := natstest.Start(t, natstest.ServerConfig(`
		authorization { users = [
			{ user: "all", password: "x" }
			{ user: "some", password: "x", permissions: { publish: { deny: "tr.chunks.0.acme.>" } } }
		] }`))
	p := newEnv(t, srv.Conn(t, nats.UserInfo("all", "x")), 1)
	nc := srv.Conn(t, nats.UserInfo("some", "x"), nats.ErrorHandler(quiet))
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	producer := newTestProducer(t, js, shortTimeouts())
	_, err = producer.Start(t.Context(), testSession, chunk.RunStarted{})
	if !errors.Is(err, chunk.ErrNotStored) || !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), "tr.chunks.0.acme.s1.s1") {
		t.Errorf("err = %v, want no permission for the subject", err)
	}
	r := mustStart(t, producer, chunk.RootSession("other", "s1"))
	if _, err := r.Write(t.Context(), numbered(1)); err != nil {
		t.Errorf("where it may: %v", err)
	}
	if n := len(p.log(t, testSession)); n != 0 {
		t.Errorf("%d records", n)
	}
}

// After the owner has closed the connection, every call fails at once with that error.
func TestClosedConnection(t *testing.T) {
	p := local(t)
	r := mustStart(t, p.producer(t, Config{}), testSession)
	p.nc.Close()
	begin := time.Now()
	_, err := r.Write(t.Context(), numbered(1))
	if !errors.Is(err, chunk.ErrNotStored) || !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("err = %v, want that the connection is closed", err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

// The server is down when a run is started and when it writes; both succeed after a restart.
func TestRunWhileTheServerIsDown(t *testing.T) {
	srv := natstest.Start(t)
	p := newEnvOf(t, srv)
	producer := p.producer(t, Config{})
	r := mustStart(t, producer, testSession)
	srv.Shutdown()
	results := make(chan error, 2)
	go func() {
		_, err := r.Write(t.Context(), numbered(1))
		results <- err
	}()
	go func() {
		_, err := producer.Start(t.Context(), chunk.RootSession("acme", "s2"), chunk.RunStarted{})
		results <- err
	}()
	srv.Restart(t)
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if n := len(p.log(t, testSession)); n != 2 {
		t.Errorf("%d records, want 2", n)
	}
}

func newEnvOf(t *testing.T, srv *natstest.Server) env {
	t.Helper()
	return newEnv(t, srv.Conn(t), 1)
}

// logSeq returns the sequence of the nth record of the test's session.
func (p env) logSeq(t *testing.T, n int) chunk.Seq {
	t.Helper()
	recs := p.log(t, testSession)
	if len(recs) < n {
		t.Fatal(fmt.Sprint(len(recs), " records"))
	}
	return recs[n-1].Seq
}

package jscontrol

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// maxFairDelay is the promise for the first command of a tenant while slots become free.
const maxFairDelay = time.Second

const (
	large   = "large" // the tenant with many commands
	backlog = 10_000  // in benchmarks; the race detector makes reading it several times slower
	few     = backlog / 5
	runTime = 50 * time.Millisecond // of a command
)

func executeOf(tenant, session string) control.Command {
	return control.Command{Kind: control.Execute, Session: chunk.RootSession(tenant, session), AgentType: "support", RunID: "r-" + session}
}

// publishBacklog stores commands of one tenant, each of a session of its own.
func publishBacklog(tb testing.TB, q *Queue, tenant string, n int) {
	tb.Helper()
	var stored []jetstream.PubAckFuture
	for i := range n {
		_, msg, err := q.message(executeOf(tenant, fmt.Sprint("s", i)))
		if err != nil {
			tb.Fatal(err)
		}
		ack, err := q.js.PublishMsgAsync(msg, jetstream.WithStallWait(limit))
		if err != nil {
			tb.Fatal(err)
		}
		stored = append(stored, ack)
	}
	for _, ack := range stored {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			tb.Fatal(err)
		case <-time.After(limit):
			tb.Fatal("a command is not stored")
		}
	}
}

// starts records when the first command of each tenant has started.
type starts struct {
	mu    sync.Mutex
	first map[string]time.Time
	began chan string // of each command of another tenant than the large one
	large chan struct{}
}

func newStarts() *starts {
	return &starts{first: map[string]time.Time{}, began: make(chan string, 1000), large: make(chan struct{}, 2*backlog)}
}

// run is a command that takes a time.
func (s *starts) run(ctx context.Context, c control.Command) error {
	s.mu.Lock()
	if s.first[c.Session.Tenant].IsZero() {
		s.first[c.Session.Tenant] = time.Now()
	}
	s.mu.Unlock()
	if c.Session.Tenant == large {
		s.large <- struct{}{}
	} else {
		s.began <- c.Session.Tenant
	}
	select {
	case <-time.After(runTime):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// delays sends a command of each tenant, and returns how long the longest of them waited for its start.
func (s *starts) delays(tb testing.TB, q *Queue, tenants ...string) time.Duration {
	tb.Helper()
	sent := map[string]time.Time{}
	for _, tenant := range tenants {
		sent[tenant] = time.Now()
		request(tb, q, executeOf(tenant, "s"), 0)
	}
	for left := len(sent); left > 0; { // a stopped worker returns the command that it runs, which starts again
		if _, ok := sent[natstest.Receive(tb, "the start of a tenant", s.began)]; ok {
			left--
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []time.Duration
	for tenant, at := range sent {
		all = append(all, s.first[tenant].Sub(at))
	}
	slices.Sort(all)
	tb.Logf("%d tenants: first command started after %s (median), %s (longest)", len(all), all[len(all)/2].Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond))
	return all[len(all)-1]
}

func (s *starts) wantSoon(tb testing.TB, q *Queue, tenants ...string) time.Duration {
	tb.Helper()
	longest := s.delays(tb, q, tenants...)
	if longest > maxFairDelay {
		tb.Errorf("the first command of a tenant started after %s, want at most %s", longest, maxFairDelay)
	}
	return longest
}

func tenants(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(prefix, i))
	}
	return names
}

// A tenant has many commands on the queue before any worker starts. Other tenants wait for the next free slots only: one tenant, a hundred that come at once, and
// one after the worker was stopped and another has started.
func TestBacklogDoesNotDelayOtherTenants(t *testing.T) { backlogOf(t, few) }

// BenchmarkBacklog has ten thousand commands, and fails if another tenant waits for longer than it may.
func BenchmarkBacklog(b *testing.B) {
	for range b.N {
		b.ReportMetric(float64(backlogOf(b, backlog).Milliseconds()), "ms/start")
	}
}

// backlogOf returns the longest time until the first command of a tenant started.
func backlogOf(tb testing.TB, n int) time.Duration {
	tb.Helper()
	srv := streamtest.Start(tb)
	cfg := QueueConfig{Concurrency: 20}
	q := newQueue(tb, srv.JetStream(tb), cfg)
	publishBacklog(tb, q, large, n)
	s := newStarts()
	w := serve(tb, q, s.run)
	natstest.Receive(tb, "the large tenant", s.large)
	longest := max(
		s.wantSoon(tb, q, "first"), // the worker has not seen the backlog
		s.wantSoon(tb, q, "second"),
		s.wantSoon(tb, q, tenants("t", 100)...),
	)
	w.stop(tb)
	w = serve(tb, newQueue(tb, srv.JetStream(tb), cfg), s.run)
	longest = max(longest, s.wantSoon(tb, q, "stopped"))
	w.stop(tb)
	return longest
}

// A worker that holds the backlog of a tenant is killed. When the backlog is redelivered, the next worker still starts the first command of another tenant soon.
func TestBacklogOfAKilledWorker(t *testing.T) { backlogOfAKilledWorker(t, few) }

// BenchmarkBacklogOfAKilledWorker has ten thousand commands, and fails if another tenant waits for longer than it may.
func BenchmarkBacklogOfAKilledWorker(b *testing.B) {
	for range b.N {
		b.ReportMetric(float64(backlogOfAKilledWorker(b, backlog).Milliseconds()), "ms/start")
	}
}

func backlogOfAKilledWorker(tb testing.TB, n int) time.Duration {
	tb.Helper()
	srv := streamtest.Start(tb)
	cfg := QueueConfig{Concurrency: 1, AckWait: time.Second}
	q := newQueue(tb, srv.JetStream(tb), cfg)
	publishBacklog(tb, q, large, n)
	killed := srv.JetStream(tb)
	s := newStarts()
	w := serve(tb, newQueue(tb, killed, cfg), s.run)
	natstest.Eventually(tb, "a worker that holds everything", func(ctx context.Context) error { return fetchedAll(ctx, q.js) })
	killed.Conn().Close()
	natstest.Receive(tb, "the killed worker", w.done)
	next := newStarts()
	w = serve(tb, q, next.run)
	longest := next.wantSoon(tb, q, "before") // the lease of the backlog has not expired
	natstest.Receive(tb, "the redelivered backlog", next.large)
	longest = max(longest, next.wantSoon(tb, q, "after"))
	w.stop(tb)
	return longest
}

// fetchedAll returns an error while the server has commands that no worker has fetched.
func fetchedAll(ctx context.Context, js jetstream.JetStream) error {
	consumer, err := js.Consumer(ctx, "TR_COMMANDS", "agent-support")
	if err != nil {
		return err
	}
	if n := consumer.CachedInfo().NumPending; n > 0 {
		return fmt.Errorf("%d commands are not fetched", n)
	}
	return nil
}

// While one worker holds the backlog of a tenant, another one that starts gets its share, and every command is handled once.
func TestBacklogIsSharedByWorkers(t *testing.T) {
	srv := streamtest.Start(t)
	cfg := QueueConfig{Concurrency: 4}
	q := newQueue(t, srv.JetStream(t), cfg)
	const n = 2000
	publishBacklog(t, q, large, n)
	var mu sync.Mutex
	handled := map[string]int{}
	all := make(chan struct{}, n+100)
	run := func(calls chan struct{}) Handler {
		return func(_ context.Context, c control.Command) error {
			mu.Lock()
			handled[c.Session.ID]++
			mu.Unlock()
			calls <- struct{}{}
			<-time.After(5 * time.Millisecond)
			all <- struct{}{}
			return nil
		}
	}
	first, second := make(chan struct{}, n+100), make(chan struct{}, n+100)
	w1 := serve(t, q, run(first))
	for range 20 {
		natstest.Receive(t, "the first worker", first)
	}
	w2 := serve(t, newQueue(t, srv.JetStream(t), cfg), run(second))
	for range n {
		natstest.Receive(t, "a command", all)
	}
	w1.stop(t)
	w2.stop(t)
	t.Logf("handled by the first worker %d, by the second %d", 20+len(first), len(second))
	if len(second) < n/5 {
		t.Errorf("the second worker handled %d of %d commands", len(second), n)
	}
	for session, times := range handled {
		if times != 1 {
			t.Errorf("%s handled %d times", session, times)
		}
	}
	natstest.Eventually(t, "an empty queue", func(ctx context.Context) error { return empty(ctx, q.js, "TR_COMMANDS") })
}

// A worker in another language fetches one command at a time from the same consumer. It gets commands that the other one holds, and every
// command is handled once.
func TestBacklogIsSharedWithAWorkerOfOneCommand(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	q := newQueue(t, js, QueueConfig{Concurrency: 1})
	const n = 300
	publishBacklog(t, q, large, n)
	handled := make(chan string, 2*n)
	started := make(chan struct{}, n)
	w := serve(t, q, func(_ context.Context, c control.Command) error {
		started <- struct{}{}
		<-time.After(10 * time.Millisecond)
		handled <- c.Session.ID
		return nil
	})
	for range 10 {
		natstest.Receive(t, "the new worker", started)
	}
	consumer, err := js.Consumer(t.Context(), "TR_COMMANDS", "agent-support")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	old := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			msg, err := next(ctx, consumer)
			if err == nil && msg != nil {
				err = msg.DoubleAck(context.WithoutCancel(ctx))
				_, _, session, _ := names.Layout(q.cfg.Layout).ParseCommand(msg.Subject())
				handled <- session
			}
			if err != nil && ctx.Err() == nil {
				old <- err
				return
			}
		}
		old <- nil
	}()
	seen := map[string]bool{}
	for range n {
		session := natstest.Receive(t, "a command", handled)
		if seen[session] {
			t.Errorf("%s was handled twice", session)
		}
		seen[session] = true
	}
	cancel()
	if err := natstest.Receive(t, "the old worker", old); err != nil {
		t.Error(err)
	}
	w.stop(t)
	t.Logf("handled by the new worker %d, by the old one %d", 10+len(started), n-10-len(started))
	if len(started) > n/2 {
		t.Errorf("old worker handled %d of %d, want most of them", n-10-len(started), n)
	}
}

// finishOne ends a command that waits for it.
func finishOne(t *testing.T, finish chan<- struct{}) {
	t.Helper()
	select {
	case finish <- struct{}{}:
	case <-time.After(limit):
		t.Fatal("no command is in progress")
	}
}

// A worker whose slots are all in use for long returns what it holds of other tenants: another worker starts it.
func TestHeldCommandGoesToAFreeWorker(t *testing.T) {
	srv := streamtest.Start(t)
	cfg := QueueConfig{Concurrency: 1, AckWait: 2 * limit}
	q := newQueue(t, srv.JetStream(t), cfg)
	started, finish := make(chan string, 100), make(chan struct{})
	block := func(ctx context.Context, c control.Command) error {
		started <- c.Session.Tenant
		select {
		case <-finish:
		case <-ctx.Done():
		}
		return nil
	}
	publishBacklog(t, q, large, 5)
	serve(t, q, block)
	natstest.Receive(t, "the first command", started)
	request(t, q, executeOf("small", "s"), 0)
	finishOne(t, finish) // now the worker fetches everything
	natstest.Receive(t, "the second command", started)
	s := newStarts()
	other := QueueConfig{Concurrency: 1, AckWait: 2 * limit}
	serve(t, newQueue(t, srv.JetStream(t), other), s.run)
	for range 4 {
		select {
		case <-s.large:
		case <-s.began:
		case <-time.After(maxFairDelay):
			t.Fatal("a command waits in a worker without a free slot")
		}
	}
}

// newHolding returns an intake that holds n commands and starts none.
func newHolding(t *testing.T, q *Queue, n int) *intake {
	t.Helper()
	publishBacklog(t, q, large, n)
	s := &server{Queue: q}
	in := s.newIntake(s.sources("support")[0])
	if err := in.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, _, err := in.fetch(n); err != nil || got != n {
		t.Fatalf("fetched %d commands of %d, %v", got, n, err)
	}
	return in
}

// The state of the consumer cannot be read, perhaps because a permission is missing: the worker does not wait for it all the time.
func TestOfferPausesAfterAFailure(t *testing.T) {
	srv := streamtest.Start(t)
	lines := make(logLines, 10)
	in := newHolding(t, newQueue(t, srv.JetStream(t), QueueConfig{Log: slog.New(lines)}), 2)
	in.renewed = time.Now()
	in.attend(t.Context())
	if in.offered.After(time.Now()) || len(lines) != 0 {
		t.Errorf("offered %s from now, %d lines", time.Until(in.offered), len(lines))
	}
	if err := in.js.DeleteConsumer(t.Context(), "TR_COMMANDS", "agent-support"); err != nil {
		t.Fatal(err)
	}
	in.offered = time.Time{}
	in.attend(t.Context())
	if until := time.Until(in.offered); until < infoPause/2 || len(lines) != 1 {
		t.Errorf("the next check can be in %s, want about %s; %d lines, want 1", until+offerInterval, infoPause, len(lines))
	}
}

// A worker was frozen for longer than AckWait: another one may run the commands that wait here, and a renewal would be that of the other delivery. They are not
// renewed, and not started.
func TestExpiredCommandIsNotRenewed(t *testing.T) {
	srv := streamtest.Start(t)
	in := newHolding(t, newQueue(t, srv.JetStream(t), QueueConfig{}), 2)
	sent := watchSigns(t, srv.Conn(t, nats.Name("signs")))
	held := in.waiting.all()
	held[0].renewed = time.Now().Add(-in.cfg.AckWait)
	in.renew(t.Context())
	if left := in.waiting.all(); len(left) != 1 || left[0] != held[1] || !left[0].renewed.Equal(in.renewed) {
		t.Errorf("waiting after the renewal: %v", left)
	}
	if err := srv.Conn(t).Flush(); err != nil {
		t.Fatal(err)
	}
	all := sent.await(t, "a renewal", func(all []sign) bool { return len(all) > 0 })
	if len(all) != 1 || all[0].reply != held[1].msg.Reply() {
		t.Errorf("renewed %v, want only %s", all, held[1].msg.Reply())
	}
}

// A session is deleted while its command waits in a worker: the command does not start.
func TestHeldCommandOfADeletedSessionDoesNotStart(t *testing.T) {
	srv := streamtest.Start(t)
	in := newHolding(t, newQueue(t, srv.JetStream(t), QueueConfig{}), 3)
	var sessions []chunk.Session
	for _, f := range in.waiting.all() {
		c, err := in.from.decode(in.cfg.Layout, f.msg.Subject(), f.msg.Data())
		if err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, c.Session)
	}
	if _, err := in.DeleteSession(t.Context(), sessions[1]); err != nil {
		t.Fatal(err)
	}
	started := make(chan chunk.Session, len(sessions))
	in.running = make(map[commandKey]*inProgress)
	in.handle = func(_ context.Context, c control.Command) error {
		started <- c.Session
		return nil
	}
	in.fill(t.Context())
	in.handling.Wait()
	close(started)
	got := make(map[chunk.Session]bool)
	for s := range started {
		got[s] = true
	}
	if want := map[chunk.Session]bool{sessions[0]: true, sessions[2]: true}; !maps.Equal(got, want) {
		t.Errorf("started %v, want %v", got, want)
	}
}

// BenchmarkServe measures a queue that has the commands of one tenant.
func BenchmarkServe(b *testing.B) {
	q, err := NewQueue(streamtest.Start(b).JetStream(b), QueueConfig{})
	if err != nil {
		b.Fatal(err)
	}
	publishBacklog(b, q, large, b.N)
	done := make(chan struct{}, b.N)
	ctx, cancel := context.WithCancel(b.Context())
	served := make(chan error, 1)
	b.ResetTimer()
	go func() {
		served <- q.Serve(ctx, []string{"support"}, func(context.Context, control.Command) error {
			done <- struct{}{}
			return nil
		})
	}()
	for range b.N {
		<-done
	}
	b.StopTimer()
	cancel()
	if err := <-served; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
}

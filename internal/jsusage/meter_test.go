package jsusage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/subjects"
)

func newMeter(t *testing.T, js jetstream.JetStream, cfg Config) *Meter {
	t.Helper()
	m, err := NewMeter(js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// stored returns the tokens in the bucket, by "tenant day".
func stored(ctx context.Context, t *testing.T, js jetstream.JetStream) (map[string]int64, error) {
	t.Helper()
	s, err := NewStore(js, subjects.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int64{}
	for e, err := range s.List(ctx, "") {
		if err := errors.Join(err, e.Err); err != nil {
			return nil, err
		}
		all[e.Tenant+" "+e.Day.Format(time.DateOnly)] = e.Tokens
	}
	return all, nil
}

// awaitStored waits until the bucket has exactly these tokens.
func awaitStored(t *testing.T, js jetstream.JetStream, want map[string]int64) {
	t.Helper()
	natstest.Eventually(t, fmt.Sprint("usage ", want), func(ctx context.Context) error {
		got, err := stored(ctx, t, js)
		if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
			err = fmt.Errorf("usage %v", got)
		}
		return err
	})
}

// at returns a clock that always shows the same time.
func at(text string) func() time.Time {
	return func() time.Time {
		now, err := time.Parse(time.RFC3339, text)
		if err != nil {
			panic(err)
		}
		return now
	}
}

// logText is a log that a test can read.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), s)
}

func (l *logText) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// The bucket has the sum of all increments of all processes, by tenant and day, on one server and on a cluster whose leader changes.
func TestSumOfAllProcesses(t *testing.T) {
	const noon = "2026-11-25T12:00:00Z"
	for name, start := range map[string]func(t *testing.T) (connect func() jetstream.JetStream, disturb func()){
		"one server": func(t *testing.T) (func() jetstream.JetStream, func()) {
			t.Helper()
			srv := streamtest.Start(t)
			return func() jetstream.JetStream { return srv.JetStream(t) }, func() {}
		},
		"cluster": func(t *testing.T) (func() jetstream.JetStream, func()) {
			t.Helper()
			c := streamtest.StartCluster(t)
			c.AwaitCurrent(t, "KV_TR_USAGE")
			return func() jetstream.JetStream { return c.JetStream(t) }, func() { c.StepDown(t, "KV_TR_USAGE") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			connect, disturb := start(t)
			var acme, globex atomic.Int64
			var counting sync.WaitGroup
			var meters []*Meter
			for range 8 {
				meters = append(meters, newMeter(t, connect(), Config{Now: at(noon)}))
			}
			for _, m := range meters {
				counting.Go(func() {
					for range 20 {
						n := rand.Int64N(1000)
						m.Count("acme", n)
						acme.Add(n)
						m.Count("globex", 1)
						globex.Add(1)
						m.flush(t.Context())
					}
				})
			}
			disturb()
			counting.Wait()
			for _, m := range meters {
				m.Close()
			}
			want := map[string]int64{"acme 2026-11-25": acme.Load(), "globex 2026-11-25": globex.Load()}
			awaitStored(t, connect(), want)
		})
	}
}

// A process knows what another one has counted a moment ago, and at once what it has counted itself. Another tenant and another day have numbers of their own.
func TestTotal(t *testing.T) {
	srv := streamtest.Start(t)
	var now atomic.Pointer[string]
	clock := func() time.Time { return at(*now.Load())() }
	now.Store(new("2026-11-25T23:59:59Z"))
	a, b := newMeter(t, srv.JetStream(t), Config{Now: clock}), newMeter(t, srv.JetStream(t), Config{Now: clock})
	wantTotal := func(m *Meter, tenant string, want int64) {
		t.Helper()
		natstest.Eventually(t, "the total", func(ctx context.Context) error {
			if got := m.Total(ctx, tenant); got != want {
				return fmt.Errorf("total %d, want %d", got, want)
			}
			return nil
		})
	}
	a.Count("acme", 100)
	if got := a.Total(t.Context(), "acme"); got != 100 {
		t.Errorf("own total %d", got)
	}
	wantTotal(b, "acme", 100)
	b.Count("acme", 50)
	if got := b.Total(t.Context(), "acme"); got != 150 {
		t.Errorf("total with own tokens %d", got)
	}
	wantTotal(a, "acme", 150)
	wantTotal(a, "globex", 0)
	now.Store(new("2026-11-26T00:00:00Z"))
	wantTotal(a, "acme", 0)
	b.Count("acme", 7)
	wantTotal(a, "acme", 7)
	awaitStored(t, srv.JetStream(t), map[string]int64{"acme 2026-11-25": 150, "acme 2026-11-26": 7})

	now.Store(new("2026-11-25T23:59:58Z")) // the clock jumps back
	a.Count("acme", 1)
	wantTotal(b, "acme", 151)
	now.Store(new("2026-11-29T00:00:00Z"))
	wantTotal(a, "acme", 0)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.days) != 1 {
		t.Errorf("%d days in memory", len(a.days))
	}
}

// An acknowledgement is lost, the server restarts and another process writes before the repetition: the tokens count once. A stream of message counters with the id of the
// increment counts them twice, because a server that restarts knows the ids of the messages that it still has.
func TestLostAck(t *testing.T) {
	srv := streamtest.Start(t)
	direct := srv.JetStream(t)
	proxy := natstest.StartProxy(t, srv.URL)
	m := newMeter(t, natstest.JetStream(t, proxy.URL), Config{Now: at("2026-11-25T12:00:00Z")})
	other := newMeter(t, direct, Config{Now: at("2026-11-25T12:00:00Z")})
	proxy.DropReplies()
	m.Count("acme", 100)
	awaitStored(t, direct, map[string]int64{"acme 2026-11-25": 100})
	if m.Unstored() != 100 {
		t.Errorf("%d tokens are unstored without an acknowledgement", m.Unstored())
	}
	other.Count("acme", 10)
	awaitStored(t, direct, map[string]int64{"acme 2026-11-25": 110})
	srv.Restart(t)
	m.Count("acme", 1)
	proxy.Restore()
	awaitStored(t, direct, map[string]int64{"acme 2026-11-25": 111})
	natstest.Eventually(t, "the acknowledgement", func(context.Context) error {
		if n := m.Unstored(); n != 0 {
			return fmt.Errorf("%d tokens are unstored", n)
		}
		return nil
	})
}

// While the server is away, one number for each tenant waits, a total does not wait for the server more than a moment, and one line is logged. Then everything counts once.
func TestOutage(t *testing.T) {
	srv := streamtest.Start(t)
	direct := srv.JetStream(t)
	proxy := natstest.StartProxy(t, srv.URL)
	var log logText
	m := newMeter(t, natstest.JetStream(t, proxy.URL), Config{Now: at("2026-11-25T12:00:00Z"), Log: log.logger()})
	newMeter(t, direct, Config{Now: at("2026-11-25T12:00:00Z")}).Count("acme", 5)
	natstest.Eventually(t, "the total", func(ctx context.Context) error {
		if n := m.Total(ctx, "acme"); n != 5 {
			return fmt.Errorf("total %d", n)
		}
		return nil
	})
	proxy.Refuse()
	for range 1000 {
		m.Count("acme", 1)
		m.Count("globex", 2)
	}
	natstest.Eventually(t, "the log", func(ctx context.Context) error {
		began := time.Now()
		if n := m.Total(ctx, "acme"); n != 1005 {
			t.Errorf("total %d", n)
		}
		if d := time.Since(began); d > 2*totalTimeout {
			t.Errorf("the total took %s", d)
		}
		if log.count("token usage unavailable") == 0 {
			return errors.New("nothing is logged")
		}
		return nil
	})
	m.mu.Lock()
	days := len(m.days)
	m.mu.Unlock()
	if days != 2 || m.Unstored() != 3000 {
		t.Errorf("%d days with %d tokens wait", days, m.Unstored())
	}
	proxy.Restore()
	awaitStored(t, direct, map[string]int64{"acme 2026-11-25": 1005, "globex 2026-11-25": 2000})
	natstest.Eventually(t, "the end in the log", func(context.Context) error {
		if log.count("token usage available again") == 0 {
			return errors.New("it is not logged")
		}
		return nil
	})
	if n := log.count("token usage unavailable"); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

// A process that is killed loses what it has not stored, and nothing else. Close stores everything, or gives up in time and logs what is lost.
func TestEndOfProcess(t *testing.T) {
	srv := streamtest.Start(t)
	direct := srv.JetStream(t)
	clock := at("2026-11-25T12:00:00Z")
	killed := srv.JetStream(t)
	m := newMeter(t, killed, Config{Now: clock})
	m.Count("acme", 100)
	awaitStored(t, direct, map[string]int64{"acme 2026-11-25": 100})
	killed.Conn().Close()
	m.Count("acme", 1)

	closed := newMeter(t, direct, Config{Now: clock})
	closed.Count("acme", 10)
	closed.Close()
	closed.Close()
	closed.Count("acme", 1000)
	awaitStored(t, direct, map[string]int64{"acme 2026-11-25": 110})

	proxy := natstest.StartProxy(t, srv.URL)
	var log logText
	stopped := newMeter(t, natstest.JetStream(t, proxy.URL), Config{Now: clock, Log: log.logger()})
	proxy.Stall()
	stopped.Count("acme", 3)
	began := time.Now()
	stopped.Close()
	if d := time.Since(began); d > 2*closeTimeout {
		t.Errorf("Close took %s", d)
	}
	if log.count("token usage lost") != 1 || log.count("tokens=3") != 1 {
		t.Error("the loss is not logged")
	}
}

// A record that a program outside of Tailrace has written stops the number of its tenant and day only, and stays as it is.
func TestMalformedRecord(t *testing.T) {
	js := streamtest.Start(t).JetStream(t)
	for _, key := range []string{"acme.2026-11-25", "acme", "acme.today"} {
		if _, err := js.Publish(t.Context(), "$KV.TR_USAGE."+key, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	m := newMeter(t, js, Config{Now: at("2026-11-25T12:00:00Z")})
	m.Count("acme", 1)
	m.Count("globex", 2)
	m.flush(t.Context())
	if n := m.Unstored(); n != 1 {
		t.Errorf("%d tokens are unstored", n)
	}
	s, err := NewStore(js, subjects.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	var good, bad int
	for e, err := range s.List(t.Context(), "") {
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Err != nil:
			bad++
		case e.Tenant == "globex" && e.Tokens == 2:
			good++
		}
	}
	if good != 1 || bad != 2 { // the filter *.* does not match "acme"
		t.Errorf("%d usage records, %d malformed ones", good, bad)
	}
}

// The methods of the nil Meter do nothing, and a tenant that no command can have is not counted.
func TestNothingToCount(t *testing.T) {
	var none *Meter
	none.Count("acme", 1)
	none.Close()
	if none.Total(t.Context(), "acme")+none.Unstored() != 0 {
		t.Error("the nil Meter counts")
	}
	m := newMeter(t, streamtest.Start(t).JetStream(t), Config{})
	m.Count("*", 1)
	m.Count("acme", -1)
	if m.Total(t.Context(), "*")+m.Unstored() != 0 || len(m.days) != 0 {
		t.Error("tokens of no tenant are counted")
	}
	if _, err := NewMeter(nil, Config{Layout: subjects.Layout{Partitions: -1}}); err == nil {
		t.Error("an invalid layout was accepted")
	}
}

// What a step costs the process.
func BenchmarkCount(b *testing.B) {
	m, err := NewMeter(streamtest.Start(b).JetStream(b), Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	for b.Loop() {
		m.Count("acme", 10)
		m.Total(b.Context(), "acme")
	}
}

// What it costs to store the tokens of a tenant, from processes that write at the same time.
func BenchmarkWrite(b *testing.B) {
	for _, processes := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("processes=%d", processes), func(b *testing.B) {
			srv := streamtest.Start(b)
			var meters []*Meter
			for range processes {
				m, err := NewMeter(srv.JetStream(b), Config{})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(m.Close)
				meters = append(meters, m)
			}
			for b.Loop() {
				var writing sync.WaitGroup
				for _, m := range meters {
					writing.Go(func() {
						m.Count("acme", 10)
						if !m.flush(b.Context()) {
							b.Error("not stored")
						}
					})
				}
				writing.Wait()
			}
		})
	}
}

package health_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tailrace/tailrace/internal/health"
)

var errUnavailable = errors.New("unavailable")

// start runs a Monitor of one check until the test ends.
func start(t *testing.T, c health.Check) (m *health.Monitor, reg *prometheus.Registry, logged *bytes.Buffer) {
	t.Helper()
	logged, reg = new(bytes.Buffer), prometheus.NewRegistry()
	m = health.NewMonitor(reg, slog.New(slog.NewTextHandler(logged, nil)))
	m.Add(c)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return m, reg, logged
}

// Requests to /readyz cause no probe: the number of probes depends on the time alone.
func TestProbesOnlyAtTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var probes atomic.Int64
		m, _, _ := start(t, health.Check{Dependencies: []string{"a"}, Interval: 10 * time.Second, Probe: func(_ context.Context, report func(string, error)) {
			probes.Add(1)
			report("a", nil)
		}})
		handler := health.Probes{Monitor: m}.Handler()
		for range 1000 {
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/readyz", nil))
			time.Sleep(100 * time.Millisecond)
		}
		if n := probes.Load(); n < 10 || n > 21 { // 100 s at 5 to 10 s
			t.Errorf("%d probes in 100 s, want 10 to 21", n)
		}
		before := probes.Load()
		for range 100 {
			m.Wake()
		}
		time.Sleep(time.Second)
		if n := probes.Load() - before; n < 1 || n > 3 {
			t.Errorf("%d probes within a second of 100 wakes, want 1 to 3", n)
		}
	})
}

// A failure is one log line, whatever follows, until the dependency works again; a dependency that is not reported is unknown. The probe is bounded.
func TestStatesAreLoggedWhenTheyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var next atomic.Value // func(context.Context, func(string, error))
		probe := func(f func(ctx context.Context, report func(string, error))) { next.Store(f) }
		set := func(a, b error) {
			probe(func(_ context.Context, report func(string, error)) {
				report("a", a)
				report("b", b)
				report("c", errUnavailable) // not a dependency of the check
			})
		}
		set(nil, nil)
		m, reg, logged := start(t, health.Check{Dependencies: []string{"a", "b"}, Interval: time.Second, Timeout: time.Second,
			Probe: func(ctx context.Context, report func(string, error)) {
				next.Load().(func(context.Context, func(string, error)))(ctx, report)
			}})
		want := func(a, b health.State, lines int, text string) {
			t.Helper()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			states := m.States()
			if states["a"] != a || states["b"] != b || len(states) != 2 {
				t.Errorf("states %v, want %s and %s", states, a, b)
			}
			if got := logged.String(); strings.Count(got, "\n") != lines || !strings.Contains(got, text) {
				t.Errorf("logged %q, want %d lines with %q", got, lines, text)
			}
			logged.Reset()
		}
		want(health.OK, health.OK, 0, "")
		failedFor := func(low, high time.Duration) {
			t.Helper()
			if got := m.FailedFor("b"); got < low || got > high {
				t.Errorf("failed for %s, want %s to %s", got, low, high)
			}
		}
		failedFor(0, 0)
		set(nil, errUnavailable)
		want(health.OK, health.Failed, 1, `level=WARN msg="dependency failed" dependency=b error=unavailable`)
		failedFor(9*time.Second, 10*time.Second)
		probe(func(ctx context.Context, report func(string, error)) {
			report("a", nil)
			<-ctx.Done()
		})
		want(health.OK, health.Unknown, 0, "")
		failedFor(0, 0)
		set(nil, errors.New("other"))
		want(health.OK, health.Failed, 0, "")
		expected := "# HELP tailrace_dependency_up 1 if the last background probe of the dependency succeeded, else 0.\n" +
			"# TYPE tailrace_dependency_up gauge\ntailrace_dependency_up{dependency=\"a\"} 1\ntailrace_dependency_up{dependency=\"b\"} 0\n"
		if err := testutil.GatherAndCompare(reg, strings.NewReader(expected)); err != nil {
			t.Error(err)
		}
		set(nil, nil)
		want(health.OK, health.OK, 1, `level=INFO msg="dependency restored" dependency=b`)
	})
}

// The conditions decide the status; a dependency only changes the body.
func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, _ := start(t, health.Check{Dependencies: []string{"nats"}, Probe: func(_ context.Context, report func(string, error)) {
			report("nats", errUnavailable)
		}})
		synctest.Wait()
		var started, draining bool
		handler := health.Probes{
			Started: []health.Condition{{Name: "streams", Met: func() bool { return started }}},
			Ready:   []health.Condition{{Name: "draining", Met: func() bool { return !draining }}},
			Monitor: m,
		}.Handler()
		want := func(path string, status int, body string) {
			t.Helper()
			rec := httptest.NewRecorder()
			handler.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
			if rec.Code != status || strings.TrimSpace(rec.Body.String()) != body {
				t.Errorf("%s: %d %s, want %d %s", path, rec.Code, rec.Body, status, body)
			}
		}
		want("/livez", 200, `{"ok":true}`)
		want("/startupz", 503, `{"ok":false,"checks":{"streams":"failed"}}`)
		want("/readyz", 200, `{"ok":true,"checks":{"draining":"ok"},"dependencies":{"nats":"failed"}}`)
		started, draining = true, true
		want("/startupz", 200, `{"ok":true,"checks":{"streams":"ok"}}`)
		want("/readyz", 503, `{"ok":false,"checks":{"draining":"failed"},"dependencies":{"nats":"failed"}}`)
		want("/healthz", 200, `{"ok":true}`)
	})
}

package httpedge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/projector/fold"
)

// newCounted returns an env whose metrics are registered.
func newCounted(t *testing.T, cfg envConfig) (*env, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	cfg.edge.Metrics = reg
	return newEnv(t, cfg), reg
}

// scrape returns the metrics in the format of Prometheus.
func scrape(t *testing.T, reg *prometheus.Registry) string {
	t.Helper()
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if rec.Code != http.StatusOK {
		t.Fatalf("got %d %s", rec.Code, rec.Body)
	}
	return rec.Body.String()
}

// checkMetrics compares the values other than 0 of the families with these prefixes, without buckets.
func checkMetrics(t *testing.T, reg *prometheus.Registry, want string, families ...string) {
	t.Helper()
	var got strings.Builder
	for line := range strings.Lines(scrape(t, reg)) {
		line = strings.TrimPrefix(line, "tailrace_")
		if strings.HasSuffix(line, " 0\n") || strings.Contains(line, "_bucket{") {
			continue
		}
		for _, family := range families {
			if strings.HasPrefix(line, family) {
				got.WriteString(line)
			}
		}
	}
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

// One connection from its first byte to its last: two events from the history, one 20 ms after it was stored, heartbeats, the end.
func TestMetricsOfOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, reg := newCounted(t, envConfig{})
		w.log.Append(s1, chunk.TypeRunStarted, "")
		w.log.Append(s1, chunk.TypeTextDelta, `"delta":"Hel"`)
		time.Sleep(time.Second)
		resp := w.get(t.Context(), "/v1/sessions/s1/events", nil)
		defer resp.Body.Close()
		synctest.Wait()
		checkMetrics(t, reg, `edge_connections 1
edge_connects_total{outcome="opened"} 1
requests_total{code="200",route="events"} 1
`, "edge_connect", "requests", "edge_disconnects", "edge_delivery", "edge_catchup")

		go func() {
			time.Sleep(time.Second)
			w.log.PauseFeeds()
			w.log.Append(s1, chunk.TypeTextDelta, `"delta":"lo"`)
			time.Sleep(20 * time.Millisecond)
			w.log.Release()
			time.Sleep(time.Minute) // heartbeats are not counted as events
			w.log.Append(s1, chunk.TypeStreamEnd, "")
		}()
		body := readAll(t, resp.Body)
		synctest.Wait()
		_, events, _ := strings.Cut(body, "\n\n") // after the retry hint
		events = strings.ReplaceAll(events, ": keepalive\n\n", "")
		checkMetrics(t, reg, `edge_catchup_seconds_count 1
edge_connects_total{outcome="opened"} 1
edge_delivery_seconds_sum 0.02
edge_delivery_seconds_count 2
edge_disconnects_total{reason="end"} 1
edge_events_sent_total 4
requests_total{code="200",route="events"} 1
`, "edge_catchup", "edge_connect", "edge_delivery", "edge_disconnects", "edge_events", "requests", "edge_resumes")
		checkMetrics(t, reg, "edge_bytes_sent_total "+jsonOf(t, len(events))+"\n", "edge_bytes")
		checkMetrics(t, reg, "hub_reads_total 1\nhub_topics 1\n", "hub_reads", "hub_topics", "hub_watchers", "hub_holes", "hub_skipped", "hub_evicted")
	})
}

// A connection for several sessions counts as one, with the events of all.
func TestMetricsOfSeveralSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, reg := newCounted(t, envConfig{})
		s2 := chunk.RootSession("default", "s2")
		w.log.Append(s1, chunk.TypeRunStarted, "")
		w.log.Append(s2, chunk.TypeRunStarted, "")
		w.log.Append(s1, chunk.TypeStreamEnd, "")
		w.log.Append(s2, chunk.TypeStreamEnd, "")
		resp := w.get(soon(t), "/v1/events?session=s1&session=s2&after=1.4711", nil)
		defer resp.Body.Close()
		if n := strings.Count(readAll(t, resp.Body), "data: "); n != 2 {
			t.Fatalf("%d events", n)
		}
		synctest.Wait()
		checkMetrics(t, reg, `edge_connects_total{outcome="opened"} 1
edge_disconnects_total{reason="end"} 1
edge_events_sent_total 2
edge_resumes_total{outcome="exact"} 1
edge_resumes_total{outcome="future"} 1
requests_total{code="200",route="events"} 1
`, "edge_connect", "edge_disconnects", "edge_events", "edge_resumes", "requests")
	})
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestMetricsOfResumes checks the outcomes of resumed streams.
func TestMetricsOfResumes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cursor string
		setup  func(w *env)
		want   string
	}{
		{"from the beginning", "", nil, ""},
		{"where it was", "1", nil, "edge_resumes_total{outcome=\"exact\"} 1\n"},
		{"behind the end of a complete session", "4", nil, "edge_resumes_total{outcome=\"exact\"} 1\n"},
		{"beyond the end", "4711", nil, "edge_resumes_total{outcome=\"future\"} 1\n"},
		{"in another session", "3", nil, "edge_resumes_total{outcome=\"unknown\"} 1\n"},
		{"in another life of the stream", "1-nolife", nil, "edge_resumes_total{outcome=\"epoch\"} 1\n"},
		{"before the first sequence", "1", func(w *env) { w.log.Expire(2) }, "edge_resumes_total{outcome=\"truncated\"} 1\n"},
		{"all of it is gone", "1", func(w *env) { w.log.Expire(4) }, "edge_resumes_total{outcome=\"truncated\"} 1\n"},
		{"all of it is gone, and was seen", "9", func(w *env) { w.log.Expire(4) }, "edge_resumes_total{outcome=\"exact\"} 1\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cfg envConfig
				if strings.HasPrefix(tt.name, "all of it") {
					cfg.remembered = map[string]fold.Status{"s1": fold.Ended}
				}
				w, reg := newCounted(t, cfg)
				w.log.Append(s1, chunk.TypeRunStarted, "")
				w.log.Append(s1, chunk.TypeTextDelta, "")
				w.log.Append(chunk.RootSession("default", "other"), chunk.TypeRunStarted, "")
				w.log.Append(s1, chunk.TypeStreamEnd, "")
				if tt.setup != nil {
					tt.setup(w)
				}
				resp := w.get(soon(t), "/v1/sessions/s1/events", http.Header{"Last-Event-Id": {tt.cursor}})
				defer resp.Body.Close()
				readAll(t, resp.Body)
				synctest.Wait()
				checkMetrics(t, reg, tt.want, "edge_resumes")
			})
		})
	}
}

// Every reason for the end of a stream is logged, at a higher level if an operator should see it.
func TestMetricsOfEndings(t *testing.T) {
	const path = "/v1/sessions/s1/events"
	for _, tt := range []struct {
		reason string
		name   string
		level  string
		end    func(t *testing.T, w *env)
	}{
		{"end", "the session is complete", "DEBUG", func(t *testing.T, w *env) {
			t.Helper()
			w.log.Append(s1, chunk.TypeStreamEnd, "")
			resp := w.get(soon(t), path, nil)
			defer resp.Body.Close()
			readAll(t, resp.Body)
		}},
		{"client", "it leaves while nothing happens", "DEBUG", func(t *testing.T, w *env) {
			t.Helper()
			w.get(t.Context(), path, nil).Body.Close()
		}},
		{"client", "it leaves after an idle time longer than its write timeout", "DEBUG", func(t *testing.T, w *env) {
			t.Helper()
			resp := w.get(t.Context(), path, nil)
			defer resp.Body.Close()
			time.AfterFunc(14*time.Second, func() { resp.Body.Close() })
			if _, err := io.Copy(io.Discard, resp.Body); err == nil {
				t.Error("a clean end")
			}
		}},
		{"client", "it leaves in the middle of an event", "DEBUG", func(t *testing.T, w *env) {
			t.Helper()
			conn := rawStream(t, w, path)
			synctest.Wait()
			w.log.Append(s1, chunk.TypeTextDelta, `"delta":"x"`)
			synctest.Wait()
			conn.Close()
		}},
		{"client", "it resets its stream of HTTP/2", "DEBUG", func(t *testing.T, w *env) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://edge"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := memoryHTTP2(t, w).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			cancel()
		}},
		{"slow", "it takes nothing", "INFO", func(t *testing.T, w *env) {
			t.Helper()
			rawStream(t, w, path)
			time.Sleep(time.Minute)
		}},
		{"slow", "it takes nothing of a stream of HTTP/2", "INFO", func(t *testing.T, w *env) {
			t.Helper()
			memoryHTTP2(t, w).get(t, path)
			for range 10 { // more than the window of a stream
				w.log.Append(s1, chunk.TypeTextDelta, `"delta":"`+strings.Repeat("x", 20<<10)+`"`)
			}
			time.Sleep(time.Minute)
		}},
		{"client", "its connection of HTTP/2 is dead", "DEBUG", func(t *testing.T, w *env) {
			t.Helper()
			conn := dialFrames(t, w)
			conn.write(t, frameHeaders, flagEndHeaders|flagEndStream, 1, requestBlock(path))
			go conn.readUntilQuiet(time.Second)
			time.Sleep(2 * time.Second)
			w.log.Append(s1, chunk.TypeTextDelta, `"delta":"x"`)
			time.Sleep(time.Minute)
		}},
		{"drain", "the edge is stopped", "DEBUG", func(t *testing.T, w *env) {
			t.Helper()
			resp := w.get(t.Context(), path, nil)
			defer resp.Body.Close()
			if err := w.edge.Drain(t.Context()); err != nil {
				t.Error(err)
			}
		}},
		{"error", "no record to continue from", "INFO", func(t *testing.T, w *env) {
			t.Helper()
			// The ordinals start again, and the log does not reach the position of the snapshot.
			session := chunk.RootSession(s1.Tenant, "expired")
			w.log.Append(session, chunk.TypeRunStarted, "")
			resp := w.get(soon(t), "/v1/sessions/expired/events", nil)
			defer resp.Body.Close()
			synctest.Wait()
			w.log.Expire(w.log.End())
			w.log.Restart(session)
			w.log.Append(session, chunk.TypeRunStarted, "")
			if _, err := io.Copy(io.Discard, resp.Body); err == nil {
				t.Error("a clean end")
			}
		}},
	} {
		t.Run(tt.reason+": "+tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				w, reg := newCounted(t, envConfig{
					remembered: map[string]fold.Status{"expired": fold.Active},
					server:     httpkit.ServerConfig{H2C: true},
					edge:       httpedge.Config{Log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))},
				})
				w.log.Append(s1, chunk.TypeRunStarted, "")
				tt.end(t, w)
				synctest.Wait()
				checkMetrics(t, reg, "edge_disconnects_total{reason=\""+tt.reason+"\"} 1\n", "edge_connections", "edge_disconnects")
				w.close()
				checkLine(t, log.String(), tt.level, tt.reason)
			})
		})
	}
}

// checkLine checks that there is one log line about the end of a stream.
func checkLine(t *testing.T, log, level, reason string) {
	t.Helper()
	lines := 0
	for line := range strings.Lines(log) {
		var entry struct {
			Level    string         `json:"level"`
			Msg      string         `json:"msg"`
			Reason   string         `json:"reason"`
			Session  string         `json:"session"`
			Duration *time.Duration `json:"duration"`
			Events   *int           `json:"events"`
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if entry.Msg != "stream ended" {
			continue
		}
		lines++
		if entry.Level != level || entry.Reason != reason || entry.Session == "" || entry.Duration == nil || entry.Events == nil {
			t.Errorf("got %s, want %s", line, level)
		}
	}
	if lines != 1 {
		t.Errorf("%d lines in %s", lines, log)
	}
}

// Every request is counted once, by route and status; the text of a request never becomes a route label.
func TestMetricsOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, reg := newCounted(t, envConfig{edge: httpedge.Config{Limits: httpkit.Limits{PerAddress: 1}}})
		w.log.Append(s1, chunk.TypeStreamEnd, "")
		synctest.Wait() // until the edge is ready
		for path, header := range map[string]http.Header{
			"/v1/sessions/s1/events?after=1":  nil,
			"/v1/sessions/s1/events?after=x":  nil,
			"/v1/sessions/no/events":          nil,
			"/v1/sessions/a%20b/events":       nil,
			"/v1/sessions/s2/events":          {"Accept": {"application/json"}},
			"/v1/sessions/s1/snapshot":        nil,
			"/v1/sessions/s1/messages":        nil,
			"/v1/sessions/s1/messages?limit=": nil,
			"/v1/sessions/no/messages":        nil,
			"/healthz":                        nil,
			"/wp-login.php":                   nil,
			"/v1/sessions/s1/INJECTED":        nil,
		} {
			w.record(http.MethodGet, path, header)
		}
		w.record(http.MethodDelete, "/v1/sessions/s1/events", nil)
		w.record(http.MethodHead, "/v1/sessions/s1/events", nil)
		checkMetrics(t, reg, `edge_connects_total{outcome="bad_cursor"} 1
edge_connects_total{outcome="bad_session_id"} 1
edge_connects_total{outcome="ended"} 1
edge_connects_total{outcome="not_acceptable"} 1
edge_connects_total{outcome="stream_not_found"} 1
requests_total{code="200",route="events"} 1
requests_total{code="200",route="healthz"} 1
requests_total{code="200",route="messages"} 2
requests_total{code="200",route="snapshot"} 1
requests_total{code="204",route="events"} 1
requests_total{code="400",route="events"} 2
requests_total{code="404",route="events"} 1
requests_total{code="404",route="messages"} 1
requests_total{code="404",route="other"} 2
requests_total{code="405",route="events"} 1
requests_total{code="406",route="events"} 1
`, "requests", "edge_connect")
	})
}

// The output is valid for Prometheus, with every series from the start.
func TestMetricsAreWellFormed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, reg := newCounted(t, envConfig{})
		w.record(http.MethodGet, "/healthz", nil)
		problems, err := testutil.GatherAndLint(reg)
		if err != nil || len(problems) > 0 {
			t.Errorf("%v, %v", problems, err)
		}
		text := scrape(t, reg)
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "tailrace_") {
				t.Errorf("%q does not begin with tailrace_", line)
			}
		}
		for _, series := range []string{
			`edge_connects_total{outcome="too_many_streams_of_address"} 0`, `edge_disconnects_total{reason="slow"} 0`,
			`edge_resumes_total{outcome="epoch"} 0`, `edge_delivery_seconds_bucket{le="0.001"} 0`, `edge_catchup_seconds_bucket{le="30"} 0`,
			"hub_watchers 0", "hub_bytes 0",
		} {
			if !strings.Contains(text, "\ntailrace_"+series+"\n") {
				t.Errorf("no %s in\n%s", series, text)
			}
		}
		if _, err := httpedge.New(w.log, snapshotsOf{}, httpedge.Config{Authenticator: authtest.None(t, "default"), Metrics: reg}); err == nil {
			t.Error("two edges count into the same metrics")
		}
	})
}

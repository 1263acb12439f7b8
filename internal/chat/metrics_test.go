package chat

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/producers"
)

// newEdgeWithMetrics returns an edge whose metrics are registered.
func (w *env) newEdgeWithMetrics(change func(*edgeConfig)) (*edge, *prometheus.Registry) {
	w.t.Helper()
	reg := prometheus.NewPedanticRegistry()
	return w.newEdge(func(cfg *edgeConfig) {
		cfg.edge.Metrics = reg
		if change != nil {
			change(cfg)
		}
	}), reg
}

// nonzeroMetrics returns the metrics of chats that are not 0, without sums and buckets.
func nonzeroMetrics(tb testing.TB, reg *prometheus.Registry) string {
	tb.Helper()
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if rec.Code != http.StatusOK {
		tb.Fatalf("got %d %s", rec.Code, rec.Body)
	}
	var got strings.Builder
	for line := range strings.Lines(rec.Body.String()) {
		line, isChat := strings.CutPrefix(line, "tailrace_chat_")
		if isChat && !strings.HasSuffix(line, " 0\n") && !strings.Contains(line, "_bucket{") && !strings.Contains(line, "_sum ") {
			got.WriteString(line)
		}
	}
	return got.String()
}

// awaitMetrics waits until the metrics are want: the edge counts a response after its end, which the client may see earlier.
func awaitMetrics(tb testing.TB, reg *prometheus.Registry, want string) {
	tb.Helper()
	natstest.Eventually(tb, "the metrics", func(context.Context) error {
		if got := nonzeroMetrics(tb, reg); got != want {
			return fmt.Errorf("got\n%s\nwant\n%s", got, want)
		}
		return nil
	})
}

// The requests of one chat, from its first message to its last answer, are counted by outcome.
func TestMetricsOfAChat(t *testing.T) {
	w := newEnv(t)
	e, reg := w.newEdgeWithMetrics(nil)
	awaitMetrics(t, reg, "")
	want(t, e.get("", nil), "204")
	first := e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
	first.until("start(msg-1)")
	awaitMetrics(t, reg, `commands_total{outcome="requested"} 1
first_frame_seconds_count 1
posts_total{outcome="execute"} 1
resumes_total{outcome="nothing"} 1
streams 1
`)
	w.work(asking("c1"))
	first.rest()
	want(t, e.post("/answers", `{"toolCallId":"c9","result":1}`), `404 {"error":"nothing waits for this answer","code":"CALL_NOT_FOUND"}`)
	want(t, e.post("", answersC1), thanks)                                          // accepted
	want(t, e.post("", answersC1), thanks)                                          // a repetition
	e.post("/answers", `{"toolCallId":"c1","result":2}`)                            // 409
	e.post("", chatBody("", user("u1", "hi"), assistantMessage("msg-1 step c7=1"))) // not pending
	e.post("", `{}`)
	e.get("", http.Header{"X-Resume-From-Sequence": {first.id}})
	e.get("", http.Header{"X-Resume-From-Sequence": {"1"}})
	awaitMetrics(t, reg, `answers_total{outcome="accepted"} 1
answers_total{outcome="already_answered"} 1
answers_total{outcome="rejected"} 1
commands_total{outcome="requested"} 2
disconnects_total{reason="end"} 6
first_answer_seconds_count 2
first_frame_seconds_count 4
posts_total{outcome="execute"} 1
posts_total{outcome="rejection"} 1
posts_total{outcome="resume"} 1
posts_total{outcome="up_to_date"} 1
posts_total{outcome="validation_error"} 1
resumes_total{outcome="nothing"} 1
resumes_total{outcome="tail"} 1
resumes_total{outcome="whole"} 1
`)
}

// A repeated message requests its run again as long as the run has not started; another one is refused.
func TestMetricsOfConcurrentPosts(t *testing.T) {
	w := newEnv(t)
	e, reg := w.newEdgeWithMetrics(nil)
	for i := range 8 {
		e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil).until("start(msg-1)")
		if got := e.post("", chatBody("", user("u1", "hi"), user(fmt.Sprint("v", i), "me"))); !strings.HasPrefix(got, "409 ") {
			t.Errorf("another message gets %s", got)
		}
	}
	awaitMetrics(t, reg, `commands_total{outcome="busy"} 8
commands_total{outcome="requested"} 8
first_frame_seconds_count 8
posts_total{outcome="execute"} 8
posts_total{outcome="execution_error"} 8
streams 8
`)
}

// A response that ends before the answer is counted once, with its reason.
func TestMetricsOfDisconnects(t *testing.T) {
	w := newEnv(t)
	flood := strings.Repeat("x", 200<<10)
	w.work(func(ctx context.Context, c control.Command, run *producers.Run, w *env) error {
		if c.Input[0].Content != "flood" {
			return say(ctx, run, 1, "Hello ")
		}
		for range 100 { // more than the buffers of the kernel hold
			if err := say(ctx, run, 1, flood); err != nil {
				return err
			}
		}
		return nil
	})
	for reason, end := range map[string]func(e *edge){
		"client": func(e *edge) {
			s := e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
			s.until("start(msg-1)")
			s.close()
		},
		"drain": func(e *edge) {
			e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil).until("start(msg-1)")
			if err := e.service.surface.Drain(t.Context()); err != nil {
				t.Error(err)
			}
		},
		"slow": func(e *edge) {
			body := `{"messages":[` + user("u1", "flood") + `]}`
			e.base = "/api/chat/flood"
			s := e.send(t, len(body), body)
			if err := s.conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
				t.Error(err)
			}
		},
	} {
		e, reg := w.newEdgeWithMetrics(func(cfg *edgeConfig) { cfg.edge.WriteTimeout = 500 * time.Millisecond })
		end(e)
		natstest.Eventually(t, reason, func(context.Context) error {
			if got := nonzeroMetrics(t, reg); !strings.Contains(got, "disconnects_total{reason=\""+reason+"\"} 1\n") {
				return fmt.Errorf("got\n%s", got)
			}
			return nil
		})
		if got := nonzeroMetrics(t, reg); strings.Contains(got, "streams ") || strings.Count(got, "disconnects_total") != 1 {
			t.Errorf("%s: the metrics are\n%s", reason, got)
		}
	}
}

// Every known outcome has a series from the start, and two services do not share metrics.
func TestMetricsHaveEveryOutcome(t *testing.T) {
	w := newEnv(t)
	_, reg := w.newEdgeWithMetrics(nil)
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, line := range []string{
		`tailrace_chat_posts_total{outcome="too_many_bodies"} 0`, `tailrace_chat_posts_total{outcome="draining"} 0`,
		`tailrace_chat_posts_total{outcome="too_many_streams_of_address"} 0`, `tailrace_chat_resumes_total{outcome="stream_failed"} 0`,
		`tailrace_chat_disconnects_total{reason="slow"} 0`, `tailrace_chat_answers_total{outcome="call_expired"} 0`, `tailrace_chat_body_bytes 0`,
	} {
		if !strings.Contains(rec.Body.String(), line+"\n") {
			t.Errorf("metrics lack %s", line)
		}
	}
	e, _ := w.newEdgeWithMetrics(nil)
	if _, err := New(e.front, e.service.logic, Config{}); err == nil {
		t.Error("two services share their metrics")
	}
}

// The help of each metric, which docs/reference/metrics.md shows, has the values of its label, and the page has the codes of problems among them.
func TestHelpNamesLabelValues(t *testing.T) {
	_, reg := newEnv(t).newEdgeWithMetrics(nil)
	text, found := readPage(t), 0
	for _, family := range must(reg.Gather())(t) {
		if !strings.HasPrefix(family.GetName(), "tailrace_chat_") { // the others are those of the edge
			continue
		}
		found++
		for _, one := range family.GetMetric() {
			for _, label := range one.GetLabel() {
				word := label.GetValue()
				if !regexp.MustCompile(`\b`+word+`\b`).MatchString(family.GetHelp()) && !strings.Contains(text, "`"+strings.ToUpper(word)+"`") {
					t.Errorf("the help of %s does not have %s", family.GetName(), word)
				}
			}
		}
	}
	if found < 9 {
		t.Errorf("%d metrics, want at least 9", found)
	}
}

// Each route has a name for the metrics.
func TestRouteNames(t *testing.T) {
	service := newEnv(t).newEdge(nil).service
	for request, want := range map[string]string{
		"POST /api/chat": "chat_post", "POST /api/chat/x": "chat_post", "GET /api/chat/x/stream": "chat_stream", "GET /api/chat/x": "chat_stream",
		"GET /api/chat/x/snapshot": "chat_snapshot", "POST /api/chat/x/answers": "chat_answers", "POST /api/chat/x/stop": "chat_stop",
		"GET /api/chat": "chat_other", "PUT /api/chat/x": "chat_other", "GET /api/chat/x/y/z": "chat_other",
	} {
		method, path, _ := strings.Cut(request, " ")
		if got := service.surface.Name(httptest.NewRequest(method, path, nil)); got != want {
			t.Errorf("%s is %q, want %q", request, got, want)
		}
	}
}

// A page that leaves while the edge reads the log for it is not counted as an error of the edge.
func TestMetricsOfAClientThatLeaves(t *testing.T) {
	w := newEnv(t)
	following := make(chan struct{})
	e, reg := w.newEdgeWithMetrics(func(cfg *edgeConfig) {
		cfg.follow = func(ctx context.Context, _ chunk.Session, _ chunk.Position, _ chunk.Seq) (recordStream, error) {
			close(following)
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	run := must(w.NewWriter(producers.Config{}).Start(t.Context(), chunk.RootSession("acme", "s1"), chunk.RunStarted{RunID: "r1", Mode: "execute"}, producers.AgentType(agentType)))(t)
	if err := say(t.Context(), run, 1, "Hello"); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-following
		cancel()
	}()
	r := must(http.NewRequestWithContext(ctx, http.MethodGet, e.URL+"/api/chat/s1/stream", nil))(t)
	if resp, err := e.Client().Do(r); err == nil {
		t.Errorf("got %s", resp.Status)
		_ = resp.Body.Close()
	}
	awaitMetrics(t, reg, "resumes_total{outcome=\"client\"} 1\n")
}

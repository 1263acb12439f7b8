package otlp

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/sink/export"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// receiver is a receiver of OTLP that decodes requests as the collector of OpenTelemetry does.
type receiver struct {
	t   *testing.T
	url *url.URL

	mu       sync.Mutex
	requests [][]span                                              // that were answered with a success
	headers  []http.Header                                         // of all requests
	raw      []byte                                                // the bodies of all requests
	answer   func(n int, spans []span, w http.ResponseWriter) bool // reports whether it has answered request n, from 1 on
}

// span is a span with the schema of its scope.
type span struct {
	ptrace.Span

	schema string
}

func (s span) id() string     { id := s.SpanID(); return hex.EncodeToString(id[:]) }
func (s span) parent() string { id := s.ParentSpanID(); return hex.EncodeToString(id[:]) }
func (s span) trace() string  { id := s.TraceID(); return hex.EncodeToString(id[:]) }

func (s span) text(key string) string {
	v, ok := s.Attributes().Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{t: t}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	at, err := url.Parse("otlp+" + server.URL)
	if err != nil {
		t.Fatal(err)
	}
	r.url = at
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	unzipped, err := gzip.NewReader(req.Body)
	if err != nil {
		r.t.Error(err)
		return
	}
	body, err := io.ReadAll(unzipped)
	if err != nil {
		r.t.Error(err)
		return
	}
	request := ptraceotlp.NewExportRequest()
	if err := request.UnmarshalProto(body); err != nil {
		r.t.Error(err)
		return
	}
	var spans []span
	for _, resource := range request.Traces().ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			for _, s := range scope.Spans().All() {
				spans = append(spans, span{s, scope.SchemaUrl()})
			}
		}
	}
	r.mu.Lock()
	r.headers, r.raw = append(r.headers, req.Header), append(r.raw, body...)
	n, answer := len(r.headers), r.answer
	r.mu.Unlock()
	if req.URL.Path != "/v1/traces" {
		http.NotFound(w, req)
		return
	}
	if answer != nil && answer(n, spans, w) {
		return
	}
	r.mu.Lock()
	r.requests = append(r.requests, spans)
	r.mu.Unlock()
	out, err := ptraceotlp.NewExportResponse().MarshalProto()
	if err != nil {
		r.t.Error(err)
	}
	_, _ = w.Write(out)
}

func (r *receiver) spans() (all []span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, spans := range r.requests {
		all = append(all, spans...)
	}
	return all
}

// config returns that of an export to the receiver.
func (r *receiver) config(lines io.Writer) export.Config {
	r.t.Helper()
	log := slog.New(slog.NewTextHandler(lines, nil))
	client, err := New(r.url, "", prometheus.NewRegistry(), log)
	if err != nil {
		r.t.Fatal(err)
	}
	return export.Config{
		Name: "otlp", Select: Select, Deliver: client.Deliver, Batch: MaxSpans, Every: 10 * time.Millisecond,
		Delays: wait.Backoff{First: time.Millisecond, Max: 10 * time.Millisecond}, Log: log,
	}
}

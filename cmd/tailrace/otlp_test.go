package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// otlpReceiver is the collector of a test: it takes spans by OTLP over HTTP.
type otlpReceiver struct {
	url string

	mu               sync.Mutex
	statuses         []int // of the next responses, then 200
	requests         int
	path             string
	header           http.Header
	spans            []*otlp.Span
	services, scopes map[string]bool
}

func newOTLPReceiver(t *testing.T) *otlpReceiver {
	t.Helper()
	rec := &otlpReceiver{services: map[string]bool{}, scopes: map[string]bool{}}
	server := httptest.NewServer(rec)
	t.Cleanup(server.Close)
	rec.url = server.URL
	return rec
}

func (rec *otlpReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	spans, err := readExport(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.requests++
	rec.path, rec.header = r.URL.Path, r.Header
	if len(rec.statuses) > 0 {
		status := rec.statuses[0]
		rec.statuses = rec.statuses[1:]
		if status/100 != 2 {
			http.Error(w, "not now", status)
			return
		}
		w.WriteHeader(status)
	}
	for _, from := range spans {
		for _, kv := range from.GetResource().GetAttributes() {
			if kv.GetKey() == "service.name" {
				rec.services[kv.GetValue().GetStringValue()] = true
			}
		}
		for _, scope := range from.GetScopeSpans() {
			rec.scopes[scope.GetScope().GetName()] = true
			rec.spans = append(rec.spans, scope.GetSpans()...)
		}
	}
}

// readExport decodes an ExportTraceServiceRequest, which has the same fields as TracesData.
func readExport(r *http.Request) ([]*otlp.ResourceSpans, error) {
	if typ := r.Header.Get("Content-Type"); r.Method != http.MethodPost || typ != "application/x-protobuf" {
		return nil, fmt.Errorf("%s with %q", r.Method, typ)
	}
	in := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, err
		}
		in = unzipped
	}
	body, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	var data otlp.TracesData
	err = proto.Unmarshal(body, &data)
	return data.GetResourceSpans(), err
}

// find returns the first span whose name begins with prefix, nil if there is none.
func (rec *otlpReceiver) find(prefix string) *otlp.Span {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, s := range rec.spans {
		if strings.HasPrefix(s.GetName(), prefix) {
			return s
		}
	}
	return nil
}

// everySpan returns spans with all kinds of members.
func everySpan(t *testing.T) []sdktrace.ReadOnlySpan {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("scope")
	ctx, root := tracer.Start(t.Context(), "root", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.Bool("bool", true), attribute.Int("int", -1), attribute.Float64("float", 1.5), attribute.StringSlice("texts", []string{"a", ""}), attribute.IntSlice("ints", []int{1})))
	root.AddEvent("event", trace.WithAttributes(attribute.String("k", "v")))
	_, child := tracer.Start(ctx, "child", trace.WithLinks(trace.Link{SpanContext: root.SpanContext(), Attributes: []attribute.KeyValue{attribute.Int("n", 1)}}))
	child.SetStatus(codes.Error, "text")
	child.End()
	root.End()
	return recorder.Ended()
}

// export sends spans with the exporter of the environment.
func export(t *testing.T, spans []sdktrace.ReadOnlySpan) error {
	t.Helper()
	e, err := newSpanExporter(t.Context())
	if err != nil {
		return err
	}
	return errors.Join(e.ExportSpans(t.Context(), spans), e.Shutdown(t.Context()))
}

// All members of a span arrive at the receiver.
func TestOTLPMessage(t *testing.T) {
	spans := everySpan(t)
	rec := newOTLPReceiver(t)
	t.Setenv(otelEndpoint, rec.url)
	if err := export(t, spans); err != nil || len(rec.spans) != 2 || !rec.scopes["scope"] || len(rec.services) != 1 {
		t.Fatalf("%v, got %v of %v and %v", err, rec.spans, rec.scopes, rec.services)
	}
	child, root := rec.spans[0], rec.spans[1]
	for i, s := range rec.spans {
		if n := len(s.ProtoReflect().GetUnknown()); n > 0 {
			t.Errorf("%s: %d bytes of unknown fields", s.GetName(), n)
		}
		if s.GetStartTimeUnixNano() != uint64(spans[i].StartTime().UnixNano()) || s.GetEndTimeUnixNano() != uint64(spans[i].EndTime().UnixNano()) {
			t.Errorf("%s: times %d, %d", s.GetName(), s.GetStartTimeUnixNano(), s.GetEndTimeUnixNano())
		}
	}
	if root.GetKind() != otlp.Span_SPAN_KIND_SERVER || child.GetKind() != otlp.Span_SPAN_KIND_INTERNAL || root.GetFlags() != 0x101 ||
		len(root.GetParentSpanId()) != 0 || !bytes.Equal(child.GetParentSpanId(), root.GetSpanId()) || !bytes.Equal(child.GetTraceId(), root.GetTraceId()) {
		t.Errorf("got %v and %v", root, child)
	}
	if child.GetStatus().GetCode() != otlp.Status_STATUS_CODE_ERROR || root.GetStatus().GetCode() != otlp.Status_STATUS_CODE_UNSET {
		t.Errorf("status %v and %v", child.GetStatus(), root.GetStatus())
	}
	if link := child.GetLinks()[0]; !bytes.Equal(link.GetSpanId(), root.GetSpanId()) || link.GetAttributes()[0].GetKey() != "n" {
		t.Errorf("link %v", link)
	}
	if ev := root.GetEvents()[0]; ev.GetName() != "event" || ev.GetAttributes()[0].GetValue().GetStringValue() != "v" || ev.GetTimeUnixNano() == 0 {
		t.Errorf("event %v", ev)
	}
	values := root.GetAttributes()
	if !values[0].GetValue().GetBoolValue() || values[1].GetValue().GetIntValue() != -1 || values[2].GetValue().GetDoubleValue() != 1.5 ||
		len(values[3].GetValue().GetArrayValue().GetValues()) != 2 || values[4].GetValue().GetArrayValue().GetValues()[0].GetIntValue() != 1 {
		t.Errorf("attributes %v", values)
	}
	if err := export(t, nil); err != nil || rec.requests != 1 {
		t.Errorf("an export without spans: %v, %d requests", err, rec.requests)
	}
}

// A receiver that is busy gets the batch again; another error is reported at once.
func TestOTLPRetries(t *testing.T) {
	for name, tt := range map[string]struct {
		statuses []int
		requests int
		fails    bool
	}{
		"accepted":     {[]int{200}, 1, false},
		"busy":         {[]int{503, 429, 202}, 3, false},
		"not accepted": {[]int{400}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			rec := newOTLPReceiver(t)
			rec.statuses = tt.statuses
			t.Setenv(otelEndpoint, rec.url)
			if err := export(t, everySpan(t)); rec.requests != tt.requests || (err != nil) != tt.fails {
				t.Errorf("%d requests, want %d: %v", rec.requests, tt.requests, err)
			}
		})
	}
	t.Run("unreachable", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		server.Close()
		t.Setenv(otelEndpoint, server.URL)
		if err := export(t, everySpan(t)); err == nil {
			t.Error("exported without a receiver")
		}
	})
	t.Run("redirects", func(t *testing.T) {
		other := newOTLPReceiver(t)
		server := httptest.NewServer(http.RedirectHandler(other.url, http.StatusTemporaryRedirect))
		defer server.Close()
		t.Setenv(otelEndpoint, server.URL)
		t.Setenv(otelHeaders, "X-Key=secret")
		if err := export(t, everySpan(t)); err == nil || other.requests > 0 {
			t.Errorf("%d requests to the other host: %v", other.requests, err)
		}
	})
	t.Run("process ends", func(t *testing.T) {
		rec := newOTLPReceiver(t)
		rec.statuses = []int{503, 503, 503, 503, 503, 503}
		t.Setenv(otelEndpoint, rec.url)
		e, err := newSpanExporter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ending, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := e.ExportSpans(ending, everySpan(t)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("export after the limit: %v", err)
		}
	})
}

// The exporter reads the variables; those that it would skip are errors that name the variable and not the value, which may be a secret.
func TestOTLPEnvironment(t *testing.T) {
	rec := newOTLPReceiver(t)
	host := strings.TrimPrefix(rec.url, "http://")
	for _, tt := range []struct {
		env             map[string]string
		path, key, fail string
	}{
		{map[string]string{otelEndpoint: rec.url}, "/v1/traces", "", ""},
		{map[string]string{otelEndpoint: rec.url + "/base/"}, "/base/v1/traces", "", ""},
		{map[string]string{otelEndpoint: "http://unused.invalid", otelTracesEndpoint: rec.url + "/c"}, "/c", "", ""},
		{map[string]string{otelEndpoint: rec.url, otelHeaders: "Other=1, X-Key=a%20b", otelTimeout: "5000", otelCompression: "gzip"}, "/v1/traces", "a b", ""},
		{map[string]string{otelEndpoint: "collector:4318"}, "", "", otelEndpoint},
		{map[string]string{otelEndpoint: "http://user:secret@" + host}, "", "", otelEndpoint},
		{map[string]string{otelTracesEndpoint: rec.url + "/v1/traces?key=secret"}, "", "", otelTracesEndpoint},
		{map[string]string{otelTracesHeaders: "secret"}, "", "", otelTracesHeaders},
		{map[string]string{otelHeaders: "X-Key=secret%"}, "", "", otelHeaders},
		{map[string]string{otelTimeout: "secret"}, "", "", otelTimeout},
		{map[string]string{otelTracesTimeout: "0"}, "", "", otelTracesTimeout},
	} {
		for _, name := range []string{otelEndpoint, otelTracesEndpoint, otelHeaders, otelTracesHeaders, otelTimeout, otelTracesTimeout, otelCompression} {
			t.Setenv(name, tt.env[name])
		}
		err := export(t, everySpan(t))
		if tt.fail != "" {
			var usage usageError
			if !errors.As(err, &usage) || !strings.Contains(err.Error(), tt.fail+": want") || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v: %v", tt.env, err)
			}
			continue
		}
		if err != nil || rec.path != tt.path || rec.header.Get("X-Key") != tt.key || rec.header.Get("Content-Encoding") != tt.env[otelCompression] {
			t.Errorf("%v: %v, got %s with %v", tt.env, err, rec.path, rec.header)
		}
	}
}

const (
	otelHeaders       = otelPrefix + "HEADERS"
	otelTracesHeaders = otelPrefix + "TRACES_HEADERS"
	otelTimeout       = otelPrefix + "TIMEOUT"
	otelTracesTimeout = otelPrefix + "TRACES_TIMEOUT"
	otelCompression   = otelPrefix + "COMPRESSION"
)

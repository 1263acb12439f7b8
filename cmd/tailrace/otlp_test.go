package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

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

// The generated code of the protocol reads what the exporter writes, without a field that it does not know.
func TestOTLPMessage(t *testing.T) {
	spans := everySpan(t)
	var data otlp.TracesData
	if err := proto.Unmarshal(appendExport(nil, spans), &data); err != nil {
		t.Fatal(err)
	}
	scope := data.GetResourceSpans()[0].GetScopeSpans()[0]
	if len(scope.GetSpans()) != 2 || scope.GetScope().GetName() != "scope" || len(data.GetResourceSpans()[0].GetResource().GetAttributes()) == 0 {
		t.Fatalf("got %v", &data)
	}
	child, root := scope.GetSpans()[0], scope.GetSpans()[1]
	for i, s := range scope.GetSpans() {
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
	if child.GetStatus().GetCode() != otlp.Status_STATUS_CODE_ERROR || root.GetStatus() != nil {
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
		len(values[3].GetValue().GetArrayValue().GetValues()) != 2 || values[4].GetValue().GetStringValue() != "[1]" {
		t.Errorf("attributes %v", values)
	}
	if len(appendExport(nil, nil)) != 0 {
		t.Error("an export without spans is not empty")
	}
}

// roundTrip is a transport of a test.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A receiver that is busy gets the batch again; another error is reported at once, without the URL, which may have a password.
func TestOTLPRetries(t *testing.T) {
	for name, tt := range map[string]struct {
		statuses []int
		attempts int
		fails    bool
	}{
		"accepted":     {[]int{200}, 1, false},
		"busy once":    {[]int{503, 429, 202}, 3, false},
		"busy":         {[]int{503, 503, 503, 503, 200}, exportAttempts, true},
		"not accepted": {[]int{400, 200}, 1, true},
		"unreachable":  {[]int{0, 200}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			spans := everySpan(t)
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				e := &otlpExporter{url: "http://user:secret@receiver.example/v1/traces", header: http.Header{"X-Key": {"k"}}, client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					status := tt.statuses[attempts]
					attempts++
					if r.Header.Get("X-Key") != "k" {
						t.Error("the header is missing")
					}
					if status == 0 {
						return nil, errors.New("connection refused")
					}
					w := httptest.NewRecorder()
					w.WriteHeader(status)
					return w.Result(), nil
				})}}
				err := e.ExportSpans(t.Context(), spans)
				if attempts != tt.attempts || (err != nil) != tt.fails || err != nil && strings.Contains(err.Error(), "secret") {
					t.Errorf("%d attempts, want %d: %v", attempts, tt.attempts, err)
				}
			})
		})
	}
}

func TestOTLPEnvironment(t *testing.T) {
	for _, tt := range []struct {
		env            map[string]string
		url, key, fail string
		timeout        time.Duration
	}{
		{nil, "http://localhost:4318/v1/traces", "", "", 10 * time.Second},
		{map[string]string{otelEndpoint: "https://collector:4318/base/"}, "https://collector:4318/base/v1/traces", "", "", 10 * time.Second},
		{map[string]string{otelEndpoint: "http://a", otelTracesEndpoint: "http://b/c"}, "http://b/c", "", "", 10 * time.Second},
		{map[string]string{otelHeaders: "Other=1, X-Key=a%20b", otelTimeout: "500"}, "http://localhost:4318/v1/traces", "a b", "", 500 * time.Millisecond},
		{map[string]string{otelEndpoint: "collector:4318"}, "", "", otelEndpoint, 0},
		{map[string]string{otelTracesHeaders: "X-Key"}, "", "", otelTracesHeaders, 0},
		{map[string]string{otelTimeout: "soon"}, "", "", otelTimeout, 0},
	} {
		for _, name := range []string{otelEndpoint, otelTracesEndpoint, otelHeaders, otelTracesHeaders, otelTimeout, otelTracesTimeout} {
			t.Setenv(name, tt.env[name])
		}
		e, err := newOTLPExporter()
		if tt.fail != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fail) {
				t.Errorf("%v: %v", tt.env, err)
			}
			continue
		}
		if err != nil || e.url != tt.url || e.header.Get("X-Key") != tt.key || e.client.Timeout != tt.timeout {
			t.Errorf("%v: got %+v, %v", tt.env, e, err)
		}
		_ = e.Shutdown(context.WithoutCancel(t.Context()))
	}
}

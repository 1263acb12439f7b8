package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/openaitest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// A POST to `tailrace up` is one trace at a real receiver of OTLP, from the span of the client to the call of a tool; the fold and the delivery of its records are
// linked to the run.
func TestTracesOverOTLP(t *testing.T) {
	rec := newOTLPReceiver(t)
	t.Setenv(otelEndpoint, rec.url)
	t.Setenv("OTEL_SERVICE_NAME", "observed")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	tool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"sunny":true}`) }))
	t.Cleanup(tool.Close)
	end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
		if len(r.Messages) < 2 {
			return openaitest.StreamReply(openaitest.Call{ID: "c1", Name: "weather", Args: "{}"})
		}
		return openaitest.StreamReply(openaitest.Text("It is sunny."))
	})
	agents := writeFile(t, "agents.json", fmt.Sprintf(`{"agents":{"assistant":{"tools":[{"name":"weather","parameters":{"type":"object"},"url":%q}]}}}`, tool.URL))
	server := streamtest.Start(t)
	p := startProcess(t, "up", "--nats-url", server.URL, "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--drain", "0s",
		"--model-url", end.URL, "--model-key", openaitest.Key, "--model", "m1", "--agents", agents, "--access-log")
	edge := p.await(t, `is running: (\S+)`)

	const traceID, spanID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, edge+"/api/chat",
		strings.NewReader(`{"id":"s1","trigger":"submit-message","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"secret question"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Traceparent", "00-"+traceID+"-"+spanID+"-01")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(answer), "sunny") {
		t.Fatalf("answer: %s, %v", answer, err)
	}
	_ = resp.Body.Close()
	p.await(t, `msg="request ended" method=POST route=\w+ status=200 .*session=/default/s1/s1 reason=end`)

	chain := []string{"POST ", "send command", "process command", "invoke_agent assistant", "chat m1", "execute_tool weather"}
	natstest.Eventually(t, "all spans", func(context.Context) error {
		for _, name := range append([]string{"publish", "fold", "deliver run_started"}, chain...) {
			if rec.find(name) == nil {
				return fmt.Errorf("no span %q", name)
			}
		}
		return nil
	})
	parent := spanID
	for _, name := range chain {
		s := rec.find(name)
		if got := fmt.Sprintf("%x", s.GetTraceId()); got != traceID {
			t.Errorf("%s has the trace %s", s.GetName(), got)
		}
		if got := fmt.Sprintf("%x", s.GetParentSpanId()); got != parent && !strings.HasPrefix(name, "execute_tool") {
			t.Errorf("%s has the parent %s, want %s", s.GetName(), got, parent)
		}
		parent = fmt.Sprintf("%x", s.GetSpanId())
	}
	run := rec.find("invoke_agent")
	for _, name := range []string{"fold", "deliver run_started"} {
		s := rec.find(name)
		if len(s.GetLinks()) != 1 || !bytes.Equal(s.GetLinks()[0].GetSpanId(), run.GetSpanId()) || bytes.Equal(s.GetTraceId(), run.GetTraceId()) {
			t.Errorf("%s is not linked to the run: %v", name, s)
		}
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if !rec.services["observed"] || len(rec.services) != 1 {
		t.Errorf("services: %v", rec.services)
	}
	for _, s := range rec.spans {
		if text := s.String(); strings.Contains(text, "secret") || strings.Contains(text, "sunny") {
			t.Errorf("span with text: %s", text)
		}
	}
}

// The environment enables traces, and an invalid value is an error that names the variable.
func TestTracesAreOffByDefault(t *testing.T) {
	for _, tt := range []struct {
		env  map[string]string
		want bool
		err  string
	}{
		{env: nil},
		{env: map[string]string{otelEndpoint: "http://127.0.0.1:1"}, want: true},
		{env: map[string]string{otelTracesEndpoint: "http://127.0.0.1:1/v1/traces"}, want: true},
		{env: map[string]string{otelExporter: "otlp"}, want: true},
		{env: map[string]string{otelExporter: "none", otelEndpoint: "http://127.0.0.1:1"}},
		{env: map[string]string{otelDisabled: "true", otelEndpoint: "http://127.0.0.1:1"}},
		{env: map[string]string{otelExporter: "jaeger"}, err: otelExporter},
		{env: map[string]string{otelExporter: "otlp", otelProtocol: "grpc"}, err: otelProtocol},
	} {
		for _, name := range []string{otelDisabled, otelExporter, otelProtocol, otelTracesProtocol, otelEndpoint, otelTracesEndpoint} {
			t.Setenv(name, tt.env[name])
		}
		on, err := tracesWanted()
		if on != tt.want || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%v: got %v, %v", tt.env, on, err)
		}
	}
}

func TestSamplers(t *testing.T) {
	sampled := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled, Remote: true})
	unsampled := sampled.WithTraceFlags(0)
	for _, tt := range []struct {
		sampler, arg                   string
		root, parent, unsampledParent  bool
		linked, linkedToUnsampled, bad bool
	}{
		{sampler: "", root: true, parent: true, linked: true, linkedToUnsampled: true},
		{sampler: "always_on", root: true, parent: true, unsampledParent: true, linked: true, linkedToUnsampled: true},
		{sampler: "parentbased_always_off", parent: true, linked: true},
		{sampler: "parentbased_traceidratio", arg: "0", parent: true, linked: true},
		{sampler: "traceidratio", arg: "0", linked: true},
		{sampler: "traceidratio", arg: "2", bad: true},
		{sampler: "sometimes", bad: true},
	} {
		t.Setenv(otelSampler, tt.sampler)
		t.Setenv(otelSamplerArg, tt.arg)
		s, err := samplerFromEnv()
		var usage usageError
		if tt.bad != errors.As(err, &usage) {
			t.Errorf("%s %s: %v", tt.sampler, tt.arg, err)
		}
		if tt.bad {
			continue
		}
		decide := func(parent, link trace.SpanContext) bool {
			p := sdktrace.SamplingParameters{ParentContext: trace.ContextWithSpanContext(t.Context(), parent), TraceID: trace.TraceID{2}, Attributes: []attribute.KeyValue{}}
			if link.IsValid() {
				p.Links = []trace.Link{{SpanContext: link}}
			}
			return s.ShouldSample(p).Decision == sdktrace.RecordAndSample
		}
		none := trace.SpanContext{}
		got := [5]bool{decide(none, none), decide(sampled, none), decide(unsampled, none), decide(none, sampled), decide(none, unsampled)}
		if want := [5]bool{tt.root, tt.parent, tt.unsampledParent, tt.linked, tt.linkedToUnsampled}; got != want {
			t.Errorf("%s %s: got %v, want %v", tt.sampler, tt.arg, got, want)
		}
	}
}

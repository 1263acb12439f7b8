package tracing

import (
	"context"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
)

const valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestParse(t *testing.T) {
	for parent, want := range map[string]bool{
		valid: true,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00":       true,
		"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-extra": true, // a later version
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":       true,

		"": false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7":          false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-extra": false,
		"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01extra":  false,
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":       false,
		"0x-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":       false,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01":       false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01":       false,
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01":       false,
		"00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01":       false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x":       false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01":       false,
		strings.Repeat("0", 8000):                                       false,
	} {
		sc, ok := Parse(parent)
		if ok != want || ok && (!sc.IsRemote() || sc.TraceID().String() != valid[3:35]) {
			t.Errorf("%.80q: got %v %v, want %v", parent, sc, ok, want)
		}
		if _, linked := LinkTo(parent); linked != (want && !strings.HasSuffix(parent, "-00")) {
			t.Errorf("%.80q: link %v", parent, linked)
		}
	}
}

// A trace goes through a process with and without a TracerProvider, sampled or not.
func TestParentPassesOn(t *testing.T) {
	for _, parent := range []string{valid, valid[:len(valid)-1] + "0"} {
		ctx := WithParent(context.Background(), parent)
		if got := Parent(ctx); got != parent {
			t.Errorf("remote: got %s, want %s", got, parent)
		}
		off, none := Tracer(nil).Start(ctx, "off")
		if got := Parent(off); got != parent || none.IsRecording() {
			t.Errorf("without a provider: got %s, want %s", got, parent)
		}
		on, span := Tracer(trace.NewTracerProvider()).Start(ctx, "on")
		span.End() // its context stays valid
		got := Parent(on)
		if got == parent || got[:36] != parent[:36] || got[52:] != parent[52:] {
			t.Errorf("with a provider: got %s, want another span of the trace of %s", got, parent)
		}
		_, child := From(on).Start(on, "child")
		child.End()
		if child.SpanContext().SpanID() == oteltrace.SpanContextFromContext(on).SpanID() {
			t.Error("From has not returned the provider of the span in the context")
		}
	}
	if got := Parent(context.Background()); got != "" {
		t.Errorf("without a span: got %q", got)
	}
	if ctx := context.Background(); WithParent(ctx, "nonsense") != ctx {
		t.Error("a malformed parent has changed the context")
	}
}

package projector

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/tailrace/tailrace/internal/tracing"
)

// maxLinks bounds the runs that the span of one save is linked to.
const maxLinks = 8

// addTrace notes the traceparent of a delivery for the span of the save that contains it.
func (s *session) addTrace(parent string) {
	if s.cfg.TracerProvider == nil || parent == "" || len(s.traces) == maxLinks || slices.Contains(s.traces, parent) {
		return
	}
	if _, ok := tracing.LinkTo(parent); ok {
		s.traces = append(s.traces, parent)
	}
}

// endTrace makes the span of a save with the start, a pause or the end of a run that is traced: from the first unsaved delivery. It is linked to the span of the
// run and not its child, because it is not a part of the run: a projector may fold the records at any time, and again.
func (s *session) endTrace(ctx context.Context) {
	if len(s.traces) == 0 {
		return
	}
	links := make([]trace.Link, 0, len(s.traces))
	for _, parent := range s.traces {
		if link, ok := tracing.LinkTo(parent); ok {
			links = append(links, link)
		}
	}
	_, span := tracing.Tracer(s.cfg.TracerProvider).Start(ctx, "fold", trace.WithSpanKind(trace.SpanKindConsumer), trace.WithNewRoot(), trace.WithLinks(links...),
		trace.WithTimestamp(s.unackedSince), trace.WithAttributes(append(tracing.Session(s.id), tracing.Records.Int(len(s.unacked)))...))
	span.End()
	s.traces = nil
}

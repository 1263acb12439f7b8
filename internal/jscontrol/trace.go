package jscontrol

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/tracing"
)

// traced returns c with the traceparent of a span for its request, and the function that ends the span with the error of the request. Without a span in ctx
// there is none, and c has the traceparent of the remote span in ctx, if any.
func (q *Queue) traced(ctx context.Context, c control.Command) (context.Context, control.Command, func(error)) {
	ctx, span := tracing.From(ctx).Start(ctx, "send command", trace.WithSpanKind(trace.SpanKindProducer))
	c.TraceParent = tracing.Parent(ctx)
	if !span.IsRecording() {
		return ctx, c, func(error) {}
	}
	span.SetAttributes(append(CommandAttributes(c), tracing.MessagingSystem.String("nats"), tracing.MessagingOperation.String("send"),
		tracing.Destination.String(names.Layout(q.cfg.Layout).CommandStream()))...)
	return ctx, c, func(err error) {
		switch {
		case errors.Is(err, control.ErrBusy): // not a failure: the command that is there does the work, or the caller decides again
			span.SetAttributes(tracing.Outcome.String("busy"))
		case errors.Is(err, control.ErrTooManyRuns):
			tracing.Fail(span, "too_many_runs")
		case errors.Is(err, chunk.ErrUnknownOutcome):
			tracing.Fail(span, "unknown_outcome")
		case err != nil:
			tracing.Fail(span, "not_stored")
		}
		span.End()
	}
}

// CommandAttributes returns the attributes of the spans of a command.
func CommandAttributes(c control.Command) []attribute.KeyValue {
	return append(tracing.Session(c.Session), tracing.Run.String(c.RunID), tracing.Command.String(string(c.Kind)), tracing.AgentName.String(c.AgentType))
}

package workers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/tracing"
)

// traceCommand starts the span of a command, as a child of the span that requested it. The function ends the span with the result of the command.
func (w *Workers) traceCommand(ctx context.Context, c control.Command) (context.Context, func(error)) {
	serve := ctx
	ctx, span := w.tracer.Start(tracing.WithParent(ctx, c.TraceParent), "process command", trace.WithSpanKind(trace.SpanKindConsumer))
	if !span.IsRecording() {
		return ctx, func(error) {}
	}
	span.SetAttributes(append(jscontrol.CommandAttributes(c), tracing.MessagingSystem.String("nats"), tracing.MessagingOperation.String("process"),
		tracing.Destination.String(names.Layout(w.cfg.Layout).CommandStream()))...)
	return ctx, func(err error) {
		result := resultOf(serve, err)
		if result == CommandFailed {
			tracing.Fail(span, string(result))
		}
		span.SetAttributes(tracing.Outcome.String(string(result)))
		span.End()
	}
}

// runTrace is the span of a run in one worker.
type runTrace struct {
	trace.Span

	began   time.Time
	outcome string // "" if the run continues in another worker
}

// The outcomes of runs in spans. A run without one continues in another worker.
const (
	runCompleted   = "completed"
	runFailed      = "failed"
	runInterrupted = "interrupted"
	runSuspended   = "suspended"
)

// startRun starts the span of a run. Its traceparent is in the records of the run, so it exists before them; the span of a run that then cannot start is
// ended by fail.
func (j *commandJob) startRun(ctx context.Context, started *chunk.RunStarted) (context.Context, runTrace) {
	name := tracing.InvokeAgent + " " + j.cmd.AgentType
	if started.Mode == modeConclude {
		name = "conclude run"
	}
	t := runTrace{began: time.Now()}
	if ctx, t.Span = j.w.tracer.Start(ctx, name); t.IsRecording() { //nolint:spancheck // Turn.close ends it
		t.SetAttributes(append(tracing.Session(j.cmd.Session), tracing.Run.String(started.RunID), tracing.AgentName.String(j.cmd.AgentType), attribute.String("tailrace.mode", started.Mode))...)
		if started.Mode != modeConclude {
			t.SetAttributes(tracing.Operation.String(tracing.InvokeAgent))
		}
	}
	return ctx, t
}

// notStarted ends the span of a run that could not start.
func (t runTrace) notStarted() {
	tracing.Fail(t.Span, "not_started")
	t.End()
}

// endTrace ends the span of the run, with one span for all that it has published: a span for each delta would cost more than the delta.
func (t *Turn) endTrace() {
	if !t.trace.IsRecording() {
		return
	}
	if t.trace.outcome == "" {
		t.trace.outcome = "moved"
	}
	records, bytes, retries := t.run.Stats()
	_, span := t.w.tracer.Start(trace.ContextWithSpan(t.writeCtx, t.trace.Span), "publish", trace.WithSpanKind(trace.SpanKindProducer), trace.WithTimestamp(t.trace.began))
	layout := t.w.cfg.Layout
	span.SetAttributes(tracing.MessagingSystem.String("nats"), tracing.MessagingOperation.String("send"),
		tracing.Destination.String(layout.Stream(layout.Partition(t.cmd.Session))), tracing.BatchSize.Int64(records),
		tracing.Bytes.Int64(bytes), tracing.Retries.Int64(retries))
	span.End()
	t.trace.SetAttributes(tracing.Outcome.String(t.trace.outcome))
	t.trace.End()
}

// startTrace starts the span of the step, and those of approved calls, which the agent runs in it.
func (s *Step) startTrace(ctx context.Context) context.Context {
	t := s.turn
	ctx, s.span = t.w.tracer.Start(ctx, tracing.Chat) //nolint:spancheck // endTrace ends it
	if !s.span.IsRecording() {
		return ctx
	}
	s.span.SetAttributes(append(tracing.Session(t.cmd.Session), tracing.Operation.String(tracing.Chat), tracing.AgentName.String(t.cmd.AgentType),
		tracing.Run.String(t.cmd.RunID), tracing.Step.Int64(s.number))...)
	for _, c := range s.calls {
		c.startTrace(ctx)
	}
	return ctx
}

// endTrace ends the span of the step. err is what Turn.Step returns.
func (s *Step) endTrace(err error) {
	if !s.span.IsRecording() {
		return
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, c := range s.calls {
		c.endTrace("no_outcome")
	}
	if s.usage != nil {
		s.span.SetAttributes(tracing.InputTokens.Int64(tokens(s.usage.InputTokens)), tracing.OutputTokens.Int64(tokens(s.usage.OutputTokens)))
	}
	switch {
	case err == nil, errors.Is(err, ErrSuspended), errors.Is(err, ErrInterrupted):
		s.span.SetAttributes(tracing.FinishReasons.StringSlice([]string{*s.end().FinishReason}))
	case errors.Is(err, ErrStopping):
		tracing.Fail(s.span, "worker_stopping")
	case errors.Is(err, ErrAborted):
		tracing.Fail(s.span, CodeAborted)
	default:
		tracing.Fail(s.span, *detail(err, "").Code)
	}
	s.span.End()
}

// maxSpanName bounds a name that a model has made.
const maxSpanName = 128

// startTrace starts the span of a call that the agent runs.
func (c *Call) startTrace(ctx context.Context) {
	if !c.step.span.IsRecording() {
		return
	}
	_, c.span = c.step.turn.w.tracer.Start(ctx, fmt.Sprintf("%s %.*s", tracing.ExecuteTool, maxSpanName, c.name)) //nolint:spancheck // endTrace ends it
	c.span.SetAttributes(append(tracing.Session(c.step.turn.cmd.Session), tracing.Operation.String(tracing.ExecuteTool), tracing.ToolType.String("function"),
		tracing.AgentName.String(c.step.turn.cmd.AgentType))...)
	c.span.SetAttributes(c.attributes()...)
}

func (c *Call) attributes() []attribute.KeyValue {
	return []attribute.KeyValue{tracing.ToolName.String(c.name), tracing.ToolCall.String(c.id)}
}

// endTrace ends the span of the call, if it has one. code is the error of the call, "" for none.
func (c *Call) endTrace(code string) {
	if c.span == nil {
		return
	}
	if code != "" {
		tracing.Fail(c.span, code)
	}
	c.span.End()
	c.span = nil
}

// handedOver records that a browser, a user or another agent completes the call. It waits for days, so it has an event and no span.
func (c *Call) handedOver(to string) {
	if c.span != nil {
		c.span.SetAttributes(tracing.Outcome.String("handed_over"))
	}
	c.endTrace("")
	c.step.span.AddEvent("tool call handed over", trace.WithAttributes(append(c.attributes(), attribute.String("tailrace.awaits", to))...))
}

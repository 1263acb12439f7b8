// Package tracing connects the spans of OpenTelemetry across processes: through the HTTP header traceparent at the edge, and through the CloudEvents extension
// attribute traceparent of commands and of the records of a run.
//
// Only the first span of a process needs a TracerProvider. The others take that of the span in their context, so that a process without tracing has none and
// pays nothing. No span has text that a user, a model or a tool has written, except names and ids.
package tracing

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/tailrace/tailrace/chunk"
)

// Scope is the name of the tracer.
const Scope = "github.com/tailrace/tailrace"

// Names of attributes of Tailrace itself.
const (
	Run     = attribute.Key("tailrace.run")
	Command = attribute.Key("tailrace.command")
	Step    = attribute.Key("tailrace.step")
	Outcome = attribute.Key("tailrace.outcome")
	Records = attribute.Key("tailrace.records")
	Bytes   = attribute.Key("tailrace.bytes")
	Retries = attribute.Key("tailrace.retries")
	Route   = attribute.Key("tailrace.route")

	tenant  = attribute.Key("tailrace.tenant")
	session = attribute.Key("tailrace.session")
)

// Names of the attributes and operations of the semantic conventions. Those for generative AI are not stable yet, so that they are here in one place.
const (
	ErrorType = attribute.Key("error.type")

	Method = attribute.Key("http.request.method")
	Status = attribute.Key("http.response.status_code")

	MessagingSystem    = attribute.Key("messaging.system")
	MessagingOperation = attribute.Key("messaging.operation.type")
	Destination        = attribute.Key("messaging.destination.name")
	BatchSize          = attribute.Key("messaging.batch.message_count")

	Operation     = attribute.Key("gen_ai.operation.name")
	Provider      = attribute.Key("gen_ai.provider.name")
	AgentName     = attribute.Key("gen_ai.agent.name")
	Conversation  = attribute.Key("gen_ai.conversation.id")
	RequestModel  = attribute.Key("gen_ai.request.model")
	FinishReasons = attribute.Key("gen_ai.response.finish_reasons")
	InputTokens   = attribute.Key("gen_ai.usage.input_tokens")
	OutputTokens  = attribute.Key("gen_ai.usage.output_tokens")
	ToolName      = attribute.Key("gen_ai.tool.name")
	ToolCall      = attribute.Key("gen_ai.tool.call.id")
	ToolType      = attribute.Key("gen_ai.tool.type")

	InvokeAgent = "invoke_agent"
	Chat        = "chat"
	ExecuteTool = "execute_tool"
)

// Session returns the attributes of a session. A conversation is a root session with its sub-agents.
func Session(s chunk.Session) []attribute.KeyValue {
	return []attribute.KeyValue{tenant.String(s.Tenant), session.String(s.ID), Conversation.String(s.Root)}
}

// Tracer returns the tracer of a provider. That of nil makes no spans, and passes on the context of a remote one.
func Tracer(p trace.TracerProvider) trace.Tracer {
	if p == nil {
		p = noop.NewTracerProvider()
	}
	return p.Tracer(Scope)
}

// From returns the tracer of the span in ctx.
func From(ctx context.Context) trace.Tracer {
	return Tracer(trace.SpanFromContext(ctx).TracerProvider())
}

// Fail marks a span as failed. The kind is a code or a class of errors, never the text of an error.
func Fail(span trace.Span, kind string) {
	span.SetAttributes(ErrorType.String(kind))
	span.SetStatus(codes.Error, "")
}

// parentSize is the size of a traceparent of version 00: version, trace id, id of the parent span and flags.
const parentSize = len("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")

// Parent returns the traceparent of the span in ctx, "" if there is none.
func Parent(ctx context.Context) string {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return ""
	}
	flags := sc.TraceFlags() & trace.FlagsSampled
	return "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-" + flags.String()
}

// Parse returns the remote span of a traceparent. A malformed one is not an error, as W3C Trace Context requires: the trace begins here then.
func Parse(parent string) (trace.SpanContext, bool) {
	// A later version may have more fields behind these, which this one ignores. ff is not a version.
	if len(parent) < parentSize || parent[2] != '-' || parent[35] != '-' || parent[52] != '-' || strings.ToLower(parent) != parent {
		return trace.SpanContext{}, false
	}
	version := parent[:2]
	if !isHex(version) || version == "ff" || len(parent) > parentSize && (version == "00" || parent[parentSize] != '-') {
		return trace.SpanContext{}, false
	}
	traceID, err := trace.TraceIDFromHex(parent[3:35])
	if err != nil {
		return trace.SpanContext{}, false
	}
	spanID, err := trace.SpanIDFromHex(parent[36:52])
	if err != nil || !isHex(parent[53:55]) {
		return trace.SpanContext{}, false
	}
	var flags trace.TraceFlags
	if strings.IndexByte("13579bdf", parent[54]) >= 0 {
		flags = trace.FlagsSampled
	}
	sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: flags, Remote: true})
	return sc, sc.IsValid()
}

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}

// WithParent returns ctx with the remote span of a traceparent as the parent of the next one. It returns ctx if parent is not valid.
func WithParent(ctx context.Context, parent string) context.Context {
	if sc, ok := Parse(parent); ok {
		return trace.ContextWithRemoteSpanContext(ctx, sc)
	}
	return ctx
}

// LinkTo returns the link to a sampled span by its traceparent; false for one that is malformed or that no one records.
func LinkTo(parent string) (trace.Link, bool) {
	sc, ok := Parse(parent)
	return trace.Link{SpanContext: sc}, ok && sc.IsSampled()
}

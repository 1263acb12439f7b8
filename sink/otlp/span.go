package otlp

import (
	"cmp"
	"encoding/hex"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/tailrace/tailrace/sink/export"
	"github.com/tailrace/tailrace/sink/row"
)

// Select reports whether a row becomes a span: an observation that has ended, or a deletion.
func Select(r export.Row) bool { return r.Deletion != nil || r.EndTime != nil }

// spanOf returns the span of a row.
func spanOf(r export.Row) *trace.Span {
	if r.Deletion != nil {
		return deletionOf(r)
	}
	o := r.Observation
	end := *o.EndTime
	if end.Before(o.StartTime) { // the clock of the writer went backwards
		end = o.StartTime
	}
	s := &trace.Span{
		TraceId: bytesOf(o.TraceID), SpanId: bytesOf(o.SpanID), ParentSpanId: bytesOf(o.ParentSpanID), Kind: trace.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: nanoseconds(o.StartTime), EndTimeUnixNano: nanoseconds(end),
	}
	a := attributes{&s.Attributes}
	a.session(o.Place)
	a.text(keyUserID, o.UserID)
	a.text(keyUserIssuer, o.UserIssuer)
	a.text(keyAgentName, o.AgentType)
	a.text(keyRun, o.RunID)
	a.text(keyTurn, o.TurnID)
	a.text(keyStatus, string(o.Status))
	a.flag(keyIncomplete, o.Incomplete)
	if o.Level == "ERROR" {
		s.Status = &trace.Status{Code: trace.Status_STATUS_CODE_ERROR, Message: o.StatusMessage}
		a.text(keyErrorType, cmp.Or(o.ErrorCode, string(o.Status)))
	}
	switch o.Kind {
	case row.Run:
		runAttributes(s, a, o)
	case row.Step:
		stepAttributes(s, a, o)
	case row.Tool:
		toolAttributes(s, a, o)
	default: // a wait
		waitAttributes(s, a, o)
	}
	return s
}

func runAttributes(s *trace.Span, a attributes, o *row.Observation) {
	s.Name = named(invokeAgent, o.AgentType)
	a.text(keyOperation, invokeAgent)
	a.text(keyProvider, o.Provider)
	a.text(keyRequestModel, o.Model)
	a.text(keyMode, o.Mode)
	a.number(keyAttempts, o.Attempts)
	a.text(keyParent, o.ParentSession)
	a.text(keyParentCall, o.ParentCallID)
	a.text(keyInputMessages, inputMessages(o.Input))
	a.text(keyOutputMessages, runOutput(o.Output))
}

func stepAttributes(s *trace.Span, a attributes, o *row.Observation) {
	requested := cmp.Or(o.RequestModel, o.Model)
	s.Name, s.Kind = named(chat, requested), trace.Span_SPAN_KIND_CLIENT
	a.text(keyOperation, chat)
	a.text(keyProvider, o.Provider)
	a.text(keyRequestModel, requested)
	a.text(keyResponseModel, o.Model)
	a.texts(keyFinishReasons, o.FinishReason)
	if o.TimeToFirstTokenMS != nil {
		a.real(keyFirstChunk, time.Duration(*o.TimeToFirstTokenMS*int64(time.Millisecond)).Seconds())
	}
	a.number(keyStep, &o.Step)
	a.number(keyInputUsage, o.InputTokens)
	a.number(keyOutputUsage, o.OutputTokens)
	a.number(keyCacheRead, o.CachedTokens)
	a.number(keyCacheWrite, o.CacheWriteTokens)
	a.number(keyCacheCreation, o.CacheWriteTokens)
	a.number(keyReasoning, o.ReasoningTokens)
	if o.Cost != nil {
		a.real(keyCost, float64(*o.Cost)/1e9)
		a.text(keyCurrency, o.Currency)
		a.text(keyCostSource, o.CostSource)
	}
	a.text(keyOutputMessages, stepOutput(o.Output, o.FinishReason))
}

func toolAttributes(s *trace.Span, a attributes, o *row.Observation) {
	s.Name = named(executeTool, o.ToolName)
	a.text(keyOperation, executeTool)
	a.text(keyToolType, toolIsFunction)
	a.call(o)
	a.text(keyArguments, string(o.Input))
	a.text(keyResult, string(o.Output))
}

func waitAttributes(s *trace.Span, a attributes, o *row.Observation) {
	s.Name = named(waitOperation, o.ToolName)
	a.text(keyWait, string(o.Kind))
	a.call(o)
	if o.Approved != nil {
		a.add(keyApproved, boolean(*o.Approved))
	}
	if o.DecidedAutomatically != nil {
		a.add(keyAutomatic, boolean(*o.DecidedAutomatically))
	}
}

// deletionOf returns a span without duration in a trace of its own. What was sent of the session is not deleted: OTLP has no way to do that.
func deletionOf(r export.Row) *trace.Span {
	id, at := bytesOf(r.Hash()), nanoseconds(r.Place().StoredAt)
	s := &trace.Span{
		TraceId: id, SpanId: id[:8], Name: spanDeleted, Kind: trace.Span_SPAN_KIND_INTERNAL, StartTimeUnixNano: at, EndTimeUnixNano: at,
	}
	attributes{&s.Attributes}.session(r.Place())
	return s
}

// named returns an operation with what it is about, which may be empty.
func named(operation, what string) string {
	if what == "" {
		return operation
	}
	return operation + " " + what
}

// bytesOf returns the bytes of an id, nil for none.
func bytesOf(id string) []byte {
	b, err := hex.DecodeString(id)
	if err != nil || len(b) == 0 {
		return nil
	}
	return b
}

func nanoseconds(at time.Time) uint64 { return uint64(max(at.UnixNano(), 0)) }

// attributes adds attributes that are not empty.
type attributes struct{ list *[]*common.KeyValue }

func (a attributes) add(key string, value *common.AnyValue) {
	*a.list = append(*a.list, &common.KeyValue{Key: key, Value: value})
}

func (a attributes) text(key, value string) {
	if value != "" {
		a.add(key, text(value))
	}
}

func (a attributes) texts(key string, value string) {
	if value != "" {
		a.add(key, &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{Values: []*common.AnyValue{text(value)}}}})
	}
}

func (a attributes) number(key string, value *int64) {
	if value != nil {
		a.add(key, &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: *value}})
	}
}

func (a attributes) real(key string, value float64) {
	a.add(key, &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: value}})
}

func (a attributes) flag(key string, value bool) {
	if value {
		a.add(key, boolean(value))
	}
}

// session adds the attributes of each span.
func (a attributes) session(p row.Place) {
	a.text(keyTenant, p.Tenant)
	a.text(keyConversation, p.Root)
	a.text(keySessionID, p.Root)
	a.text(keySession, p.Session)
	a.number(keySequence, &p.Seq)
}

func (a attributes) call(o *row.Observation) {
	a.text(keyToolName, o.ToolName)
	a.text(keyToolCall, o.ToolCallID)
}

func text(s string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: s}}
}

func boolean(b bool) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: b}}
}

package main

import (
	"math"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of the fields are those of opentelemetry/proto/collector/trace/v1, trace/v1, resource/v1 and common/v1, which do not change. The test decodes the
// message with the generated code.

// appendMessage appends a field that is a message.
func appendMessage(dst []byte, field protowire.Number, write func(dst []byte) []byte) []byte {
	return appendText(dst, field, write(nil))
}

func appendText[T string | []byte](dst []byte, field protowire.Number, text T) []byte {
	return append(protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.BytesType), uint64(len(text))), text...)
}

func appendNumber(dst []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), n)
}

func appendFixed64(dst []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(dst, field, protowire.Fixed64Type), n)
}

// appendExport appends an ExportTraceServiceRequest. All spans of a process have one resource and one scope.
func appendExport(dst []byte, spans []sdktrace.ReadOnlySpan) []byte {
	if len(spans) == 0 {
		return dst
	}
	return appendMessage(dst, 1, func(dst []byte) []byte { // resource_spans
		dst = appendMessage(dst, 1, func(dst []byte) []byte { return appendResource(dst, spans[0].Resource()) })
		return appendMessage(dst, 2, func(dst []byte) []byte { // scope_spans
			dst = appendMessage(dst, 1, func(dst []byte) []byte { return appendScope(dst, spans[0].InstrumentationScope()) })
			for _, s := range spans {
				dst = appendMessage(dst, 2, func(dst []byte) []byte { return appendSpan(dst, s) })
			}
			return dst
		})
	})
}

func appendResource(dst []byte, r *resource.Resource) []byte {
	return appendAttributes(dst, 1, r.Attributes())
}

func appendScope(dst []byte, s instrumentation.Scope) []byte {
	return appendText(dst, 1, s.Name)
}

func appendSpan(dst []byte, s sdktrace.ReadOnlySpan) []byte {
	sc, parent := s.SpanContext(), s.Parent()
	dst = appendContext(dst, sc, 3)
	if parent.HasSpanID() {
		id := parent.SpanID()
		dst = appendText(dst, 4, id[:])
	}
	dst = appendText(dst, 5, s.Name())
	dst = appendNumber(dst, 6, uint64(s.SpanKind())) // the same numbers
	dst = appendFixed64(dst, 7, uint64(s.StartTime().UnixNano()))
	dst = appendFixed64(dst, 8, uint64(s.EndTime().UnixNano()))
	dst = appendAttributes(dst, 9, s.Attributes())
	for _, ev := range s.Events() {
		dst = appendMessage(dst, 11, func(dst []byte) []byte {
			dst = appendFixed64(dst, 1, uint64(ev.Time.UnixNano()))
			return appendAttributes(appendText(dst, 2, ev.Name), 3, ev.Attributes)
		})
	}
	for _, link := range s.Links() {
		dst = appendMessage(dst, 13, func(dst []byte) []byte {
			dst = appendContext(dst, link.SpanContext, 3)
			dst = appendAttributes(dst, 4, link.Attributes)
			return appendFlags(dst, 6, link.SpanContext.IsRemote(), link.SpanContext.TraceFlags())
		})
	}
	if status := s.Status(); status.Code != codes.Unset {
		code := uint64(1) // OK
		if status.Code == codes.Error {
			code = 2
		}
		dst = appendMessage(dst, 15, func(dst []byte) []byte { return appendNumber(dst, 3, code) })
	}
	return appendFlags(dst, 16, parent.IsRemote(), sc.TraceFlags())
}

// appendContext appends trace_id and span_id, which are the fields 1 and 2 of spans and links, and trace_state.
func appendContext(dst []byte, sc trace.SpanContext, state protowire.Number) []byte {
	traceID, spanID := sc.TraceID(), sc.SpanID()
	dst = appendText(appendText(dst, 1, traceID[:]), 2, spanID[:])
	if text := sc.TraceState().String(); text != "" {
		dst = appendText(dst, state, text)
	}
	return dst
}

// appendFlags appends the flags of W3C, with those that say whether the context is of another process.
func appendFlags(dst []byte, field protowire.Number, remote bool, flags trace.TraceFlags) []byte {
	const hasIsRemote, isRemote = 0x100, 0x200
	n := uint32(flags) | hasIsRemote
	if remote {
		n |= isRemote
	}
	return protowire.AppendFixed32(protowire.AppendTag(dst, field, protowire.Fixed32Type), n)
}

func appendAttributes(dst []byte, field protowire.Number, list []attribute.KeyValue) []byte {
	for _, kv := range list {
		dst = appendMessage(dst, field, func(dst []byte) []byte {
			dst = appendText(dst, 1, string(kv.Key))
			return appendMessage(dst, 2, func(dst []byte) []byte { return appendValue(dst, kv.Value) })
		})
	}
	return dst
}

func appendValue(dst []byte, v attribute.Value) []byte {
	switch v.Type() {
	case attribute.BOOL:
		return appendNumber(dst, 2, protowire.EncodeBool(v.AsBool()))
	case attribute.INT64:
		return appendNumber(dst, 3, uint64(v.AsInt64())) // two's complement
	case attribute.FLOAT64:
		return appendFixed64(dst, 4, math.Float64bits(v.AsFloat64()))
	case attribute.STRINGSLICE:
		return appendMessage(dst, 5, func(dst []byte) []byte {
			for _, text := range v.AsStringSlice() {
				dst = appendMessage(dst, 1, func(dst []byte) []byte { return appendText(dst, 1, text) })
			}
			return dst
		})
	default:
		return appendText(dst, 1, v.String())
	}
}

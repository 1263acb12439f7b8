package httpkit

import (
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/trace"

	"github.com/tailrace/tailrace/internal/tracing"
)

// IsTraced reports whether a request gets a span of its own: one that may change something, and that has no span yet, from another Edge or from the program that
// has the Edge. A GET may be a stream of days, and has metrics and a line in the log.
func IsTraced(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return !trace.SpanContextFromContext(r.Context()).IsValid()
}

// Trace serves a request in a span, which continues the trace of the client if the request has a valid header traceparent. Its name is the name of the route,
// which has no id.
func Trace(p trace.TracerProvider, route string, w http.ResponseWriter, r *http.Request, next http.Handler) {
	ctx := r.Context()
	if parent := r.Header["Traceparent"]; len(parent) == 1 {
		ctx = tracing.WithParent(ctx, parent[0])
	}
	ctx, span := tracing.Tracer(p).Start(ctx, r.Method+" "+route, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(tracing.Method.String(r.Method), tracing.Route.String(route)))
	defer span.End() // also of a handler that panics to end its connection
	if !span.IsRecording() {
		next.ServeHTTP(w, r.WithContext(ctx))
		return
	}
	next.ServeHTTP(&tracedWriter{ResponseWriter: w, span: span}, r.WithContext(ctx))
}

// tracedWriter notes the status of a response in its span.
type tracedWriter struct {
	http.ResponseWriter

	span  trace.Span
	known bool
}

func (w *tracedWriter) WriteHeader(status int) {
	if !w.known && status >= http.StatusOK {
		w.known = true
		w.span.SetAttributes(tracing.Status.Int(status))
		if status >= http.StatusInternalServerError {
			tracing.Fail(w.span, strconv.Itoa(status))
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *tracedWriter) Write(b []byte) (int, error) {
	if !w.known {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController, which flushes and sets deadlines.
func (w *tracedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

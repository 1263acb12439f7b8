package httpkit

import (
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/trace"

	"github.com/tailrace/tailrace/internal/tracing"
)

// isTraced reports whether a request gets a span of its own: one that may change something, and that has no span yet, from another Router or from the program that
// has the Edge. A GET may be a stream of days, and has metrics and a line in the log.
func isTraced(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return !trace.SpanContextFromContext(r.Context()).IsValid()
}

// trace serves a request in a span, which continues the trace of the client if the request has a valid header traceparent. Its name is the name of the route,
// which has no id. The client was identified: others must not add spans to a trace, nor decide what is sampled.
//
//go:noinline
func (rr *Router) trace(w http.ResponseWriter, r *http.Request, rt *Route, id string) (p *Problem) {
	ctx := r.Context()
	if parent := r.Header["Traceparent"]; len(parent) == 1 {
		ctx = tracing.WithParent(ctx, parent[0])
	}
	ctx, span := tracing.Tracer(rr.o.Tracer).Start(ctx, r.Method+" "+rt.Name, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(tracing.Method.String(r.Method), tracing.Route.String(rt.Name)))
	defer span.End() // also of a handler that panics to end its connection
	traced := &statusWriter{ResponseWriter: w, onStatus: func(status int) {
		span.SetAttributes(tracing.Status.Int(status))
		if status >= http.StatusInternalServerError {
			tracing.Fail(span, strconv.Itoa(status))
		}
	}}
	if rt.Act != "" {
		p = rr.act(traced, r.WithContext(ctx), rt, id)
	} else {
		p = rt.Serve(traced, r.WithContext(ctx), id)
	}
	status := http.StatusOK // of a response without a body, unless it is noted already
	if p != nil {
		status = p.Status
	}
	traced.note(status)
	return p
}

package hub

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/tracing"
)

// trace makes a span for a record that starts, pauses or ends a run which is traced: from its storage to its arrival at the clients of this process, once for all
// of them. The span is linked to that of the run and not its child, because it is not a part of the run: any number of processes may receive the record at any
// time.
func (h *Hub) trace(msg codec.Stored, rec chunk.Record) {
	if !rec.Type.Control() {
		return
	}
	link, ok := tracing.LinkTo(codec.TraceParentOf(msg.Header, msg.Data))
	if !ok {
		return
	}
	now := time.Now()
	began := rec.StoredAt
	if began.IsZero() || began.After(now) { // the clock of the server
		began = now
	}
	_, span := tracing.Tracer(h.cfg.TracerProvider).Start(context.Background(), "deliver "+string(rec.Type), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithNewRoot(),
		trace.WithLinks(link), trace.WithTimestamp(began), trace.WithAttributes(tracing.Session(rec.Session)...))
	span.End(trace.WithTimestamp(now))
}

package producers

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsreader"
)

// A scan fails after scanAttempts timeouts of one attempt in a row without a message. It replaces a consumer that was silent for one such timeout, which
// the reader measures in scanTicks.
const (
	scanAttempts = 5
	scanTicks    = 10
)

// errScanIncomplete: the stream ends before the last message of the range. Its leader has changed and does not have everything yet, or the message was
// deleted meanwhile.
var errScanIncomplete = errors.New("stream ends before the range")

// scan reads with a consumer of its own and deletes it: the server keeps an abandoned consumer for some time, and limits their number. If the connection
// breaks, scan continues with another consumer.
func (l *natsLog) scan(ctx context.Context, r scanRange) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		if err := l.scanAll(ctx, r, yield); err != nil {
			yield(message{}, err)
		}
	}
}

// scanAll returns nil if it has reached r.through, or if the caller has stopped the iteration.
func (l *natsLog) scanAll(ctx context.Context, r scanRange, yield func(message, error) bool) error {
	if r.after >= r.through {
		return nil
	}
	budget := scanAttempts * l.timeout
	o := jsreader.NewOrdered(l.client, jsreader.OrderedConfig{
		Stream: l.stream, Filter: l.subject, After: uint64(r.after), HeadersOnly: r.headersOnly,
		OpenTimeout: budget, Heartbeat: max(l.timeout/scanTicks, time.Millisecond), Log: l.slog,
	})
	defer o.Close()
	if err := o.Open(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(budget, func() { cancel(fmt.Errorf("read %s: no message within %s", l.stream, budget)) })
	defer silence.Stop()
	for o.Last() < uint64(r.through) {
		e, err := o.NextThrough(ctx, uint64(r.through))
		switch {
		case errors.Is(err, jsreader.ErrEnd):
			return errScanIncomplete
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case chunk.Seq(e.Seq) > r.through:
			return nil
		}
		silence.Reset(budget)
		if !yield(message{seq: chunk.Seq(e.Seq), stored: e.Stored, header: e.Header, data: e.Data}, nil) {
			return nil
		}
	}
	return nil
}

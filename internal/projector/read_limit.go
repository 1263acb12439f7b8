package projector

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"

	"github.com/tailrace/tailrace/chunk"
)

// ErrReadLimit reports that a read needs more data than WithReadLimit allows.
var ErrReadLimit = errors.New("read limit exceeded")

type readLimitKey struct{}

// WithReadLimit returns a context with which a Reader returns ErrReadLimit instead of a snapshot or a page, once it has read
// more than bytes of records, stored heads and stored messages. The context is for one read.
func WithReadLimit(ctx context.Context, bytes int64) context.Context {
	left := new(atomic.Int64)
	left.Store(bytes)
	return context.WithValue(ctx, readLimitKey{}, left)
}

// CountRead counts data that a Store reads, in bytes. It returns ErrReadLimit if ctx has a limit and it is exceeded. A Store
// calls it for each message as it arrives, so that a read of a long conversation ends early.
func CountRead(ctx context.Context, bytes int) error {
	left, limited := ctx.Value(readLimitKey{}).(*atomic.Int64)
	if limited && left.Add(-int64(bytes)) < 0 {
		return ErrReadLimit
	}
	return nil
}

// countedLog counts the records that it yields.
type countedLog struct{ replayer }

func (l countedLog) Replay(ctx context.Context, of chunk.Range) iter.Seq2[chunk.Record, error] {
	return func(yield func(chunk.Record, error) bool) {
		for rec, err := range l.replayer.Replay(ctx, of) {
			if err == nil {
				err = CountRead(ctx, len(rec.Data))
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

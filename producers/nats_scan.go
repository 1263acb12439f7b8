package producers

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
)

const (
	scanBatch   = 500
	scanTries   = 5                // in a row, without getting any further
	scanForgets = 30 * time.Second // after which the server drops a consumer that a dead process left
)

// scan reads with a consumer of its own, which it deletes: the server keeps
// what is left behind for a while and allows a thousand in a stream. When the
// connection breaks in the middle it goes on with another one.
func (l *natsLog) scan(ctx context.Context, r scanRange) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		for vain := 0; r.after < r.through; vain++ {
			from := r.after
			err := l.scanOnce(ctx, &r, yield)
			if err == nil {
				return
			}
			if r.after > from {
				vain = 0
			}
			if final(err) || vain == scanTries || !pause(ctx, delay(unknown, vain)) {
				yield(message{}, err)
				return
			}
		}
	}
}

// scanOnce moves r.after along. A nil error is the end: r.through, or a caller
// that has seen enough.
func (l *natsLog) scanOnce(ctx context.Context, r *scanRange, yield func(message, error) bool) error {
	c, err := l.js.CreateConsumer(ctx, l.stream, jetstream.ConsumerConfig{
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       uint64(r.after) + 1,
		FilterSubject:     l.subject,
		AckPolicy:         jetstream.AckNonePolicy,
		MemoryStorage:     true,
		Replicas:          1,
		HeadersOnly:       r.headersOnly,
		InactiveThreshold: scanForgets,
	})
	if err != nil {
		return apiErrorOf(err)
	}
	defer l.dropConsumer(ctx, c)
	at := progress{pending: c.CachedInfo().NumPending}
	for r.after < r.through {
		if more, err := l.scanBatch(ctx, c, r, &at, yield); !more {
			return err
		}
	}
	return nil
}

// progress of one consumer.
type progress struct {
	delivered uint64 // messages so far
	pending   uint64 // messages that it has for us
}

// scanBatch fetches what is there. When nothing is, the replica that serves us
// lags behind the leader that named r.through: it asks for one and waits.
func (l *natsLog) scanBatch(ctx context.Context, c jetstream.Consumer, r *scanRange, at *progress, yield func(message, error) bool) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.link.timeout)
	defer cancel()
	had := at.delivered
	batch, err := c.Fetch(int(max(1, min(at.pending, scanBatch))), jetstream.FetchContext(ctx))
	if err != nil {
		return false, err
	}
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return false, err
		}
		if meta.Sequence.Consumer != at.delivered+1 {
			return false, errMissed
		}
		at.delivered, at.pending = meta.Sequence.Consumer, meta.NumPending
		if chunk.Seq(meta.Sequence.Stream) > r.through {
			return false, nil
		}
		r.after = chunk.Seq(meta.Sequence.Stream)
		if !yield(message{seq: r.after, stored: meta.Timestamp, header: m.Headers(), data: m.Data()}, nil) {
			return false, nil
		}
	}
	if err := batch.Error(); err != nil {
		return false, apiErrorOf(err)
	}
	if at.delivered == had {
		return false, errLagging
	}
	return true, nil
}

var (
	errMissed  = errors.New("messages were lost on the way")
	errLagging = errors.New("the stream's replica has not got that far")
)

// apiErrorOf makes the client's form of a refusal ours.
func apiErrorOf(err error) error {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return &apiError{Code: api.Code, ErrCode: int(api.ErrorCode), Text: api.Description}
	}
	return err
}

// dropConsumer must happen also when ctx has ended.
func (l *natsLog) dropConsumer(ctx context.Context, c jetstream.Consumer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.link.timeout)
	defer cancel()
	name := c.CachedInfo().Name
	if err := l.js.DeleteConsumer(ctx, l.stream, name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		// The server drops it after scanForgets.
		l.link.slog.Warn("a consumer was left behind", "stream", l.stream, "consumer", name, "error", fmt.Sprint(err))
	}
}

package producers

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/wait"
)

const (
	scanBatch             = 500
	maxScanFailures       = 5                // in a row, without progress
	scanInactiveThreshold = 30 * time.Second // after which the server deletes the consumer of a crashed process
)

// scan reads with a consumer of its own and deletes it: the server keeps an abandoned consumer for some time, and limits their number. If the connection
// breaks, scan continues with another consumer.
func (l *natsLog) scan(ctx context.Context, r scanRange) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		for failures := 0; r.after < r.through; failures++ {
			from := r.after
			err := l.scanOnce(ctx, &r, yield)
			if err == nil {
				return
			}
			if r.after > from {
				failures = 0
			}
			if final(err) || failures == maxScanFailures || wait.Sleep(ctx, delay(jsclient.Unknown, failures)) != nil {
				yield(message{}, err)
				return
			}
		}
	}
}

// scanOnce advances r.after. A nil error means that it has reached r.through, or that the caller has stopped the iteration.
func (l *natsLog) scanOnce(ctx context.Context, r *scanRange, yield func(message, error) bool) error {
	c, err := l.js.CreateConsumer(ctx, l.stream, jetstream.ConsumerConfig{
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       uint64(r.after) + 1,
		FilterSubject:     l.subject,
		AckPolicy:         jetstream.AckNonePolicy,
		MemoryStorage:     true,
		Replicas:          1,
		HeadersOnly:       r.headersOnly,
		InactiveThreshold: scanInactiveThreshold,
	})
	if err != nil {
		return err
	}
	defer l.deleteConsumer(ctx, c)
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
	delivered uint64 // messages until now
	pending   uint64 // messages that follow
}

// scanBatch fetches the available messages. If there are none, the replica of the consumer lags behind the leader that returned r.through: scanBatch then
// requests one message and waits.
func (l *natsLog) scanBatch(ctx context.Context, c jetstream.Consumer, r *scanRange, at *progress, yield func(message, error) bool) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
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
		return false, err
	}
	if at.delivered == had {
		return false, errReplicaBehind
	}
	return true, nil
}

var (
	errMissed        = errors.New("messages missing in the delivery")
	errReplicaBehind = errors.New("replica lags behind the leader")
)

// deleteConsumer deletes the consumer also after ctx has ended.
func (l *natsLog) deleteConsumer(ctx context.Context, c jetstream.Consumer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
	defer cancel()
	name := c.CachedInfo().Name
	if err := l.js.DeleteConsumer(ctx, l.stream, name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		// The server deletes it after scanInactiveThreshold.
		l.slog.Warn("consumer delete failed", "stream", l.stream, "consumer", name, "error", err)
	}
}

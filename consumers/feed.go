package consumers

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/tailrace/tailrace/chunk"
)

// LiveTip is where a Feed begins that wants nothing of the past.
const LiveTip chunk.Seq = math.MaxUint64

// PartitionError reports a partition that the layout does not have.
type PartitionError struct {
	Partition int
	Count     int
}

func (e *PartitionError) Error() string {
	return fmt.Sprintf("partition %d: want 0 to %d", e.Partition, e.Count-1)
}

// Feed gives every message of a partition after a sequence, live, in the order
// of the stream and each once, whatever happens to connections and servers. It
// is for a hub that follows many sessions: whoever divides it checks the
// ordinals of the sessions that matter. It takes one consumer on the server.
//
// It ends when ctx does, or with a *chunk.TruncatedError (without a session):
// recreated, when the stream was deleted and made again; expired, when retention
// has overtaken the feed, at the beginning or while it could not read; future,
// when after is beyond the end.
func (r *Reader) Feed(ctx context.Context, partition int, after chunk.Seq) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		if err := r.checkPartition(partition); err != nil {
			yield(Message{}, err)
			return
		}
		t := r.newTape(tapeSpec{stream: r.cfg.Layout.Stream(partition), after: after, live: true, strict: true, patience: r.cfg.Patience})
		defer t.close()
		err := t.open(ctx)
		if err == nil && t.last() > t.state.last {
			err = &chunk.TruncatedError{Reason: chunk.TruncatedFuture, After: after, Floor: t.state.first}
		}
		for err == nil {
			var e entry
			if e, err = t.next(ctx); err == nil && !yield(r.message(e), nil) {
				return
			}
		}
		yield(Message{}, truncation(err, t, chunk.Session{}, t.last()))
	}
}

func (r *Reader) message(e entry) Message {
	return Message{
		Seq:     e.seq,
		Subject: e.subject,
		stored:  e.stored,
		layout:  r.cfg.Layout,
		header:  e.header,
		data:    e.data,
	}
}

// truncation turns what a tape says about the stream into the error that
// callers know; other errors stay what they are.
func truncation(err error, t *tape, s chunk.Session, after chunk.Seq) error {
	switch {
	case errors.Is(err, errRecreated):
		return &chunk.TruncatedError{Session: s, Reason: chunk.TruncatedRecreated, After: after}
	case errors.Is(err, errFloor):
		return &chunk.TruncatedError{Session: s, Reason: chunk.TruncatedExpired, After: after, Floor: t.floor}
	}
	return err
}

package consumers

import (
	"context"
	"errors"
	"iter"
	"math"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/jsreader"
)

// SeqLatest is the position of a Feed that begins at the present end of the partition.
const SeqLatest chunk.Seq = math.MaxUint64

// Feed returns every message of a partition after a sequence, live, unparsed, in the order of the stream and each once, also across lost connections and
// restarts of servers. It is for a hub that follows many sessions, which must check the ordinals itself. It takes one consumer on the server. The caller may
// keep a message and read it in several goroutines.
//
// It ends with ctx, or with a *chunk.TruncatedError without a session: recreated, if the stream was deleted and created again; expired, if retention
// removed messages that were not delivered, at the beginning or while the feed could not read; future, if after is beyond the end.
func (r *Reader) Feed(ctx context.Context, partition int, after chunk.Seq) iter.Seq2[codec.Stored, error] {
	return func(yield func(codec.Stored, error) bool) {
		if err := r.checkPartition(partition); err != nil {
			yield(codec.Stored{}, err)
			return
		}
		t := r.newOrdered(jsreader.OrderedConfig{
			Stream: r.cfg.Layout.Stream(partition), After: uint64(after), Live: true, Strict: true, OpenTimeout: r.cfg.OpenTimeout,
		})
		defer t.Close()
		err := t.Open(ctx)
		if err == nil && t.Last() > t.State().Last {
			err = &chunk.TruncatedError{Reason: chunk.TruncatedFuture, After: after, FirstSeq: chunk.Seq(t.State().First)}
		}
		for err == nil {
			var e jsreader.Entry
			if e, err = t.Next(ctx); err == nil && !yield(r.message(e), nil) {
				return
			}
		}
		yield(codec.Stored{}, truncation(err, t, chunk.Session{}, chunk.Seq(t.Last())))
	}
}

// message returns a message with the session of its subject, or with the zero session if the subject is not that of a session.
func (r *Reader) message(e jsreader.Entry) codec.Stored {
	m := codec.Stored{Seq: chunk.Seq(e.Seq), At: e.Stored, Header: e.Header, Data: e.Data}
	if s, err := r.cfg.Layout.Parse(e.Subject); err == nil {
		m.Session = s
	}
	return m
}

// truncation converts ErrRecreated and ErrExpired of a reader to a *chunk.TruncatedError; it returns other errors unchanged.
func truncation(err error, t *jsreader.Ordered, s chunk.Session, after chunk.Seq) error {
	switch {
	case errors.Is(err, jsreader.ErrRecreated):
		return &chunk.TruncatedError{Session: s, Reason: chunk.TruncatedRecreated, After: after}
	case errors.Is(err, jsreader.ErrExpired):
		return &chunk.TruncatedError{Session: s, Reason: chunk.TruncatedExpired, After: after, FirstSeq: chunk.Seq(t.State().First)}
	}
	return err
}

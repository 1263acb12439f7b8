package jsreader

import (
	"context"
	"errors"
	"log/slog"

	"github.com/tailrace/tailrace/internal/jsclient"
)

// MaxSkips is the number of times in a row that the server may skip the same messages before a strict reader fails with ErrExpired.
const MaxSkips = 3

// checkSkipped requests the messages between the last message and e from the leader, if the whole stream is read live. It returns a consumerLostError if the
// leader has one of them. Such a gap is usually caused by deleted messages, but also by a consumer that skips a message because of a server fault; then its
// delivery numbers are contiguous. The ordinals reveal the fault, but in a tree too late:
//  1. the server skips a record of a sub-agent,
//  2. a record of the root follows, and a client stores its sequence as its cursor,
//  3. the next record of the sub-agent reveals the gap; but if the client has reconnected before, its cursor is after the skipped record, which it never gets.
//
// At the live end deletes are rare, so the request is rare.
func (o *Ordered) checkSkipped(ctx context.Context, e *Entry) error {
	if !o.cfg.Strict || o.cfg.Filter != "" || e.Seq == o.Last()+1 {
		return nil
	}
	m, err := o.nextStored(ctx, ">")
	switch {
	case errors.Is(err, jsclient.ErrNotFound): // e itself was deleted meanwhile
		return nil
	case err != nil:
		return o.errIfDeleted(err)
	case m.Seq >= e.Seq:
		return nil
	}
	o.serverSkips++
	o.log.Warn("stored message not delivered by the server", slog.String("stream", o.stream),
		slog.Uint64("after", o.Last()), slog.Uint64("stored", m.Seq), slog.Uint64("sequence", e.Seq))
	if o.serverSkips >= MaxSkips {
		return ErrExpired
	}
	return consumerLost("stored message left out")
}

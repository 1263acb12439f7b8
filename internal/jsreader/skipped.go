package jsreader

import (
	"context"
	"errors"
	"log/slog"

	"github.com/tailrace/tailrace/internal/jsclient"
)

// MaxSkips is how often in a row the server may leave out the same messages before a strict reader fails with ErrExpired.
const MaxSkips = 3

// checkSkipped asks the leader for the sequences between the last message and e, if the whole stream is read live. It returns a consumerLostError
// if the leader has one. Deleted messages leave such a gap; but so does a consumer that skips a message because of a server fault, and then its
// delivery numbers are contiguous. The ordinals show the fault, but in a tree too late:
//  1. the server leaves out a record of a sub-agent,
//  2. a record of the root follows, and a client stores its sequence as its cursor,
//  3. the next record of the sub-agent shows the gap; if the client has reconnected in between, its cursor claims that it has everything up to there.
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
	o.log.Warn("stored message left out by the server", slog.String("stream", o.stream),
		slog.Uint64("after", o.Last()), slog.Uint64("stored", m.Seq), slog.Uint64("sequence", e.Seq))
	if o.serverSkips >= MaxSkips {
		return ErrExpired
	}
	return consumerLost("stored message left out")
}

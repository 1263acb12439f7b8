package consumers

import (
	"context"
	"errors"
	"log/slog"
)

// mostSkips is how often the same messages may be left out before the tape says
// that it does not get past the place.
const mostSkips = 3

// checkSkipped asks the leader about the sequences between the last message and
// e, when the whole stream is read live: a *lostError when something is there. What
// was deleted leaves such a hole; but so does a consumer that goes past a message
// by a fault of the server, and then its own numbers go on and tell nothing. The
// ordinals tell, but in a tree too late:
//  1. a record of a sub-agent is left out,
//  2. one of the root follows, and a client stores its sequence as its place,
//  3. the next one of the sub-agent shows the hole, and the client, if it has
//     come back in between, says that it has everything before its place.
//
// At the live end deletes are rare, so the question is.
func (t *tape) checkSkipped(ctx context.Context, e *entry) error {
	if !t.spec.strict || t.spec.filter != "" || e.seq == t.last()+1 {
		return nil
	}
	var m message
	err := t.api.retry(ctx, 0, func(ctx context.Context) (err error) {
		m, err = t.api.firstOf(ctx, t.stream, ">", t.last()+1)
		return err
	})
	switch {
	case errors.Is(err, errMissing): // e itself was deleted meanwhile
		return nil
	case err != nil:
		return t.unlessGone(err)
	case m.seq >= e.seq:
		return nil
	}
	t.skips++
	t.cfg.Log.Warn("the server left out what the stream has", slog.String("stream", t.stream),
		slog.Uint64("after", uint64(t.last())), slog.Uint64("has", uint64(m.seq)), slog.Uint64("sent", uint64(e.seq)))
	if t.skips >= mostSkips {
		return errFloor
	}
	return lost("a message of the stream was left out")
}

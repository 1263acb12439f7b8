package consumers

import (
	"context"
	"errors"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// errRecreated: the stream is no longer the one that was read before.
var errRecreated = errors.New("the stream was deleted, made again or rolled back")

// grace is how long a newly elected leader may know less than we have read.
const grace = 3 * time.Second

// bookmark is a place in one particular log. A stream that was made again has
// another time of creation. One that was rolled back, because a server lost
// power and came back with an older copy of its files, has the same; but it
// gives the same sequences out again, and what is stored there now was not
// stored in the same nanosecond.
type bookmark struct {
	created time.Time // of the stream
	seq     chunk.Seq
	stored  int64 // of the message at seq, Unix nanoseconds; 0 when we did not read it

	behindSince time.Time
}

// move sets the bookmark at a message.
func (b *bookmark) move(e *entry) { b.seq, b.stored = e.seq, e.stored }

// compare asks whether the log is still the one of the bookmark: errRecreated,
// or an error of the question.
func (b *bookmark) compare(ctx context.Context, a *api, stream string, state streamState) error {
	if !b.created.Equal(state.created) {
		return errRecreated
	}
	if state.last < b.seq {
		return b.behind(state)
	}
	b.behindSince = time.Time{}
	if b.stored == 0 {
		return nil
	}
	m, err := a.bySeq(ctx, stream, b.seq)
	switch {
	case errors.Is(err, errMissing):
		return nil // deleted since, which says nothing
	case err != nil:
		return err
	case m.time.UnixNano() != b.stored:
		return errRecreated
	}
	return nil
}

// behind: the log ends before the bookmark, so it was rolled back; unless its
// leader has just been elected and is still applying what it has.
func (b *bookmark) behind(state streamState) error {
	if state.replicas <= 1 {
		return errRecreated
	}
	if b.behindSince.IsZero() {
		b.behindSince = time.Now()
	}
	if time.Since(b.behindSince) > grace {
		return errRecreated
	}
	return errors.New("the leader of the stream is behind")
}

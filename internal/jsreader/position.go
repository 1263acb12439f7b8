package jsreader

import (
	"context"
	"errors"
	"time"

	"github.com/tailrace/tailrace/internal/jsclient"
)

// ErrRecreated reports that the stream is not the one that was read before.
var ErrRecreated = errors.New("stream recreated or rolled back")

// newLeaderGrace is the time after its election during which a leader may have fewer messages than were read.
const newLeaderGrace = 3 * time.Second

// position is a position in one history of a stream. A recreated stream has another epoch. A stream that was rolled back, because a server lost power and
// restarted with an older copy of its files, has the same epoch. It assigns the same sequences again, but the new messages have other times of storage, in
// nanoseconds.
type position struct {
	epoch  string // of the stream
	seq    uint64
	stored time.Time // of the message at seq; zero if it was not read

	behindSince time.Time
}

// move sets the position to a message.
func (p *position) move(e *Entry) { p.seq, p.stored = e.Seq, e.Stored }

// compare checks that the stream still is the one of the position. It returns ErrRecreated or the error of the request.
func (p *position) compare(ctx context.Context, c *jsclient.Client, stream string, state jsclient.State) error {
	if p.epoch != state.Epoch {
		return ErrRecreated
	}
	if state.Last < p.seq {
		return p.behind(ctx, c, stream, state)
	}
	p.behindSince = time.Time{}
	if p.stored.IsZero() {
		return nil
	}
	m, err := jsclient.Request(ctx, func(ctx context.Context) (jsclient.Message, error) { return c.At(ctx, stream, p.seq) })
	if err == nil && !m.Stored.Equal(p.stored) && state.Replicas > 1 {
		m, err = jsclient.Request(ctx, func(ctx context.Context) (jsclient.Message, error) { return c.Next(ctx, stream, ">", p.seq) })
	}
	switch {
	case errors.Is(err, jsclient.ErrNotFound), err == nil && m.Seq > p.seq:
		return nil // deleted since: neither proves nor disproves a roll-back
	case err != nil:
		return err
	case !m.Stored.Equal(p.stored):
		return ErrRecreated
	}
	return nil
}

// behind handles a stream that ends before the position: it was rolled back, unless its leader was just elected and still applies its log, or the state
// is that of another replica. While a stream has no leader, each of its replicas returns its own state, and a replica may lag for a long time. So the leader
// decides: it returns ErrRecreated only if the leader has nothing from the position on either.
func (p *position) behind(ctx context.Context, c *jsclient.Client, stream string, state jsclient.State) error {
	if state.Replicas <= 1 {
		return ErrRecreated
	}
	if p.behindSince.IsZero() {
		p.behindSince = time.Now()
	}
	if time.Since(p.behindSince) <= newLeaderGrace {
		return errBehind
	}
	_, err := jsclient.Request(ctx, func(ctx context.Context) (jsclient.Message, error) { return c.Next(ctx, stream, ">", p.seq) })
	switch {
	case errors.Is(err, jsclient.ErrNotFound):
		return ErrRecreated
	case err != nil:
		return err
	}
	return errBehind
}

// errBehind reports a stream that ends before the position; the next attempt to attach checks it again.
var errBehind = errors.New("stream replica behind the position of the reader")

package hub

import (
	"context"
	"errors"

	"github.com/tailrace/tailrace/chunk"
)

// prove asks the log why f does not follow what the cursor has of its session.
// Either a clean-up explains it, and the cursor goes on; or memory misses
// something that the log has, and is dropped; or the log misses it too, and the
// client is told.
func (c *Cursor) prove(ctx context.Context, f frame, id string) error {
	s := c.session.Tree().Child(id)
	after := chunk.Position{Seq: c.at, Ordinal: c.ordinal(f.who)}
	if after.Ordinal == 0 {
		after = chunk.Position{}
	}
	for rec, err := range c.t.part.hub.log.Replay(ctx, s, after, f.seq) {
		if err != nil {
			return err
		}
		if rec.Seq == f.seq {
			c.note(f.who, f.after)
			return nil
		}
		break
	}
	c.t.distrust()
	return c.again(ctx, errShort)
}

// move puts the cursor into the topic that took the place of one that was
// dropped, with all it has seen, or tells why there is none. While the feed has
// no position, it returns what to wait for.
func (c *Cursor) move(gone error) (<-chan struct{}, error) {
	if !errors.Is(gone, errRestart) {
		return nil, gone
	}
	p := c.t.part
	select {
	case <-p.hub.closed:
		return nil, ErrClosed
	default:
	}
	t, wait := p.watch(c.session.Tree())
	if wait != nil {
		return wait, nil
	}
	ids := c.t.names()
	seen := c.seen
	p.leave(c.t, false)
	c.t, c.seen, c.page = t, nil, nil
	for who, o := range seen {
		c.note(t.number(ids[who]), o)
	}
	c.own = t.number(c.session.ID)
	if c.sieve != nil {
		c.sieve = &sieve{filter: c.sieve.filter}
	}
	return nil, nil
}

// names are the sessions of the topic by index.
func (t *topic) names() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ids
}

// complete makes a verdict of the topic, or of the log about a page, one about
// this client: where it stands is its own.
func (c *Cursor) complete(err error) error {
	var truncated *chunk.TruncatedError
	if !errors.As(err, &truncated) {
		return err
	}
	mine := *truncated
	mine.Session, mine.After = c.session, c.last
	return &mine
}

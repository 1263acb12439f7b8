package hub

import (
	"context"
	"errors"
	"iter"

	"github.com/tailrace/tailrace/chunk"
)

// prove asks the log why f does not follow what the cursor has of its session.
// Either a clean-up explains it, and the cursor goes on. Or memory misses
// something that the log has: it is dropped, and the cursor reads the log from
// its last record; if the client has a later record of another session already,
// it is too late for that, and the client is told. Or the log misses it too, and
// says so.
func (c *Cursor) prove(ctx context.Context, f frame, id string) error {
	first := chunk.Seq(0)
	for rec, err := range c.evidence(ctx, f, id) {
		if err != nil {
			return err
		}
		if _, _, removed := c.t.name(rec); rec.Session.ID == id && !removed {
			first = rec.Seq
			break
		}
	}
	if first != f.seq {
		c.t.distrust()
		if first != 0 && first <= c.last {
			return &chunk.TruncatedError{Reason: chunk.TruncatedGap}
		}
		c.at = c.last
		return c.again(ctx, errShort)
	}
	if c.ordinal(f.who) == unknown {
		c.t.vouch(f.seq)
	} else {
		c.note(f.who, f.after)
	}
	return nil
}

// evidence reads what the log holds between the cursor and f. Where the cursor
// knows the session, the log proves that nothing else does. Where it does not,
// the log looks for what came before the position that the cursor began with:
// behind that it would have met the session.
func (c *Cursor) evidence(ctx context.Context, f frame, id string) iter.Seq2[chunk.Record, error] {
	log := c.t.part.hub.log
	switch seen := c.ordinal(f.who); seen {
	case unknown:
		return log.ReplayTree(ctx, c.session, c.start, f.seq)
	case 0:
		return log.Replay(ctx, c.session.Tree().Child(id), chunk.Position{}, f.seq)
	default:
		return log.Replay(ctx, c.session.Tree().Child(id), chunk.Position{Seq: c.at, Ordinal: seen}, f.seq)
	}
}

// vouch remembers that the log found what comes before a frame of a session
// that some cursor has not met. It holds for every cursor that has not: what lies
// before the frame lies before all of them, or they would have met it.
func (t *topic) vouch(seq chunk.Seq) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.vouched[seq] = struct{}{}
}

func (t *topic) isVouched(seq chunk.Seq) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.vouched[seq]
	return ok
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
	t, wait := p.watch(c.session.Tree(), c.t.encoding)
	if p.streamNow() != c.t.stream {
		if t != nil {
			p.leave(t, false)
		}
		return nil, &chunk.TruncatedError{Reason: chunk.TruncatedRecreated}
	}
	if wait != nil {
		return wait, nil
	}
	ids := c.t.names()
	seen := c.seen
	p.leave(c.t, false)
	c.t, c.seen, c.read, c.page = t, nil, nil, nil
	for who, o := range seen {
		c.note(t.number(ids[who]), o)
	}
	c.own = t.number(c.session.ID)
	if c.sieve != nil {
		c.sieve = &sieve{filter: c.sieve.filter}
	}
	return nil, nil //nolint:nilnil // moved: nothing to wait for
}

// names are the sessions of the topic by index.
func (t *topic) names() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ids
}

// complete makes a verdict of the topic, or of the log about a page, one about
// this client: where it stands is its own. A session that the log knows nothing
// of any more has expired under it.
func (c *Cursor) complete(err error) error {
	if errors.Is(err, chunk.ErrUnknownSession) {
		err = &chunk.TruncatedError{Reason: chunk.TruncatedExpired}
	}
	truncated, ok := errors.AsType[*chunk.TruncatedError](err)
	if !ok {
		return err
	}
	mine := *truncated
	mine.Session, mine.After = c.session, c.last
	return &mine
}

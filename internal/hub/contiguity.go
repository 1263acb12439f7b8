package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/tailrace/tailrace/chunk"
)

// checkGap reads the log to find out why f does not follow the last record of its
// session. If a cleanup explains it, the cursor continues. If the log has a record
// that memory misses, it reads again. If the log misses it too, the log returns the error.
func (c *Cursor) checkGap(ctx context.Context, f frame, id string) error {
	first := chunk.Seq(0)
	for rec, err := range c.readBetween(ctx, f, id) {
		if err != nil {
			return err
		}
		if _, _, removed := c.t.name(rec); rec.Session.ID == id && !removed {
			first = rec.Seq
			break
		}
	}
	if first != f.seq {
		return c.readAgain(ctx, first)
	}
	if c.ordinal(f.index) == unknown {
		c.t.markContiguous(f.seq)
	} else {
		c.setOrdinal(f.index, f.after)
	}
	return nil
}

// readAgain drops memory, which misses a record, and the cursor reads the log from its last
// record. If the client already has a later record of another session, the order cannot be
// restored and the client gets a TruncatedError.
func (c *Cursor) readAgain(ctx context.Context, missing chunk.Seq) error {
	c.t.invalidate()
	if missing != 0 && missing <= c.last.Seq {
		return &chunk.TruncatedError{Reason: chunk.TruncatedGap}
	}
	c.at = c.last.Seq
	return c.retry(ctx, errShortRead)
}

// readBetween reads the records of the log between the cursor and f. If the cursor
// knows the session, the ordinals prove that the result is complete. If it does not,
// the log is read from the start position of the cursor: after that the cursor would
// have met the session.
func (c *Cursor) readBetween(ctx context.Context, f frame, id string) iter.Seq2[chunk.Record, error] {
	of := chunk.Range{Session: c.session.Tree().Child(id), Through: f.seq, AllowCleanup: true}
	switch seen := c.ordinal(f.index); seen {
	case unknown:
		of.Session, of.Tree, of.After.Seq = c.session, true, c.start
	case 0:
	default:
		of.After = chunk.Position{Seq: c.at, Ordinal: seen}
	}
	return c.t.feed.hub.log.Replay(ctx, of)
}

// markContiguous stores that the log has found the predecessor of a frame, for cursors
// that have not met its session. It is valid for all of them: the predecessor lies
// before their start positions, or they would have met the session.
func (t *topic) markContiguous(seq chunk.Seq) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.contiguous[seq] = struct{}{}
}

func (t *topic) isMarkedContiguous(seq chunk.Seq) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.contiguous[seq]
	return ok
}

// moveToTopic moves the cursor, with the ordinals it has seen, to the topic that
// replaced a dropped one, or returns the error of the dropped one. While the feed has
// no position, it returns a channel to wait for.
func (c *Cursor) moveToTopic(cause error) (<-chan struct{}, error) {
	if !errors.Is(cause, errTopicReplaced) {
		return nil, cause
	}
	p := c.t.feed
	select {
	case <-p.hub.closed:
		return nil, ErrClosed
	default:
	}
	t, wait := p.watch(c.session.Tree(), c.t.encoding)
	if p.streamNow() != c.t.stream {
		if t != nil {
			p.leave(t)
		}
		return nil, &chunk.TruncatedError{Reason: chunk.TruncatedRecreated}
	}
	if wait != nil {
		return wait, nil
	}
	ids := c.t.names()
	seen := c.seen
	p.leave(c.t)
	c.t, c.seen, c.read, c.page = t, nil, nil, nil
	for index, o := range seen {
		c.setOrdinal(t.number(ids[index]), o)
	}
	c.own = t.number(c.session.ID)
	if c.filter != nil {
		c.filter = &filterCache{filter: c.filter.filter}
	}
	return nil, nil //nolint:nilnil // moved: no need to wait
}

// names returns the session ids of the topic by index.
func (t *topic) names() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ids
}

// complete adds the session and the position of this client to an error of the topic
// or of the log. A session that the log no longer knows has expired. io.EOF is the end
// of a session only for errOver: a log returns it when its server closes a connection.
func (c *Cursor) complete(err error) error {
	switch {
	case errors.Is(err, errOver):
		return io.EOF
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %s", io.ErrUnexpectedEOF, err.Error())
	}
	if errors.Is(err, chunk.ErrUnknownSession) {
		err = &chunk.TruncatedError{Reason: chunk.TruncatedExpired}
	}
	truncated, ok := errors.AsType[*chunk.TruncatedError](err)
	if !ok {
		return err
	}
	mine := *truncated
	mine.Session, mine.After = c.session, c.last.Seq
	return &mine
}

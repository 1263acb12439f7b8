package hub

import (
	"context"
	"errors"

	"github.com/tailrace/tailrace/chunk"
)

// subscribe makes a cursor behind req.After, once the position is proved.
func (t *topic) subscribe(ctx context.Context, req Request) (*Cursor, error) {
	if req.Epoch != "" && req.Epoch != t.epoch && req.After.Seq > 0 {
		return nil, &chunk.TruncatedError{Session: lastSpoken(req), Reason: chunk.TruncatedRecreated, After: req.After.Seq}
	}
	own := lastSpoken(req)
	last, err := t.lastOf(ctx, own)
	if req.KeepOpen && req.After.Seq == 0 && errors.Is(err, chunk.ErrUnknownSession) {
		return t.await(req), nil
	}
	if err != nil {
		return nil, err
	}
	if last.deleted && req.After.Seq < last.at.Seq {
		if !req.KeepOpen {
			return nil, chunk.ErrUnknownSession // there is nothing but the word of that
		}
		req.After = last.at
	}
	if req.After.Ordinal != 0 && req.After.Seq > last.at.Seq {
		if err := t.checkReached(ctx, own, req.After.Seq); err != nil {
			return nil, err
		}
	}
	c := newCursor(t, req)
	if err := c.stand(ctx, req.After); err != nil {
		return nil, err
	}
	if req.KeepOpen {
		return c, nil
	}
	if err := t.checkEnded(ctx, own, last, req.After.Seq); err != nil {
		return nil, err
	}
	return c, nil
}

// await is a cursor for a session of which the leader has nothing. It stands
// where the topic begins: what lies before that is older than the leader's word.
func (t *topic) await(req Request) *Cursor {
	c := newCursor(t, req)
	c.fromStart, c.at = true, t.from
	return c
}

// checkReached makes sure that the log goes as far as a position that somebody
// else vouches for. A snapshot outlives the log it was made from: behind a stream
// that was made again, its cursor would wait in silence until the new one has
// grown past it.
func (t *topic) checkReached(ctx context.Context, s chunk.Session, seq chunk.Seq) error {
	last, err := t.askOnce(ctx, s)
	if err == nil && seq > last.at.Seq {
		err = &chunk.TruncatedError{Session: s, Reason: chunk.TruncatedFuture, After: seq}
	}
	return err
}

// checkEnded is ErrEnded when nothing can follow the position. That verdict
// makes a browser give up for good, so the leader is asked for it:
//  1. somebody writes a message, and a new run of the session begins,
//  2. the page opens its stream again, behind the end of the last run,
//  3. the feed brings the new run a moment later.
func (t *topic) checkEnded(ctx context.Context, s chunk.Session, last lastRecord, after chunk.Seq) error {
	if !last.terminal || after < last.at.Seq {
		return nil
	}
	rec, err := t.part.hub.log.Last(ctx, s)
	if err != nil {
		return err
	}
	if rec.Type.Terminal() && after >= rec.Seq {
		return ErrEnded
	}
	return nil
}

// lastSpoken is the session whose end ends the response: the root's in a tree.
func lastSpoken(req Request) chunk.Session {
	if req.Scope == chunk.ScopeTree {
		return req.Session.Tree()
	}
	return req.Session
}

// lastOf tells the newest record of s. The log is asked once for a topic; then
// the feed keeps the answer up to date. Who comes meanwhile waits for that one
// answer.
func (t *topic) lastOf(ctx context.Context, s chunk.Session) (lastRecord, error) {
	if last := t.lastKnown(s); last.known {
		return last, nil
	}
	return t.askOnce(ctx, s)
}

// confirmEnd reports whether the terminal record at seq is the last one of s by
// the word of the leader. If it is not, the feed has more to bring.
func (t *topic) confirmEnd(ctx context.Context, s chunk.Session, seq chunk.Seq) (bool, error) {
	last, err := t.askOnce(ctx, s)
	if errors.Is(err, chunk.ErrUnknownSession) {
		return true, nil // it expired just now, and was complete
	}
	return last.at.Seq == seq, err
}

func (t *topic) lastKnown(s chunk.Session) lastRecord {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.members[t.who(s.ID)].last
}

// askOnce asks the log for the last record of s; whoever comes meanwhile waits
// for the one answer, and asks for itself if there was none.
func (t *topic) askOnce(ctx context.Context, s chunk.Session) (lastRecord, error) {
	for {
		t.mu.Lock()
		asking := t.asking[s.ID]
		if asking == nil {
			t.asking[s.ID] = make(chan struct{})
		}
		t.mu.Unlock()
		if asking == nil {
			return t.ask(ctx, s)
		}
		select {
		case <-asking:
		case <-ctx.Done():
			return lastRecord{}, context.Cause(ctx)
		}
		if last := t.lastKnown(s); last.known {
			return last, nil
		}
	}
}

// ask reads the last record from the log. The feed may have brought a newer one
// while the log was thinking.
func (t *topic) ask(ctx context.Context, s chunk.Session) (lastRecord, error) {
	rec, err := t.part.hub.log.Last(ctx, s)
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.asking[s.ID])
	delete(t.asking, s.ID)
	if err != nil {
		return lastRecord{}, err
	}
	m := &t.members[t.who(s.ID)]
	if !m.last.known || m.last.at.Seq <= rec.Seq {
		m.last = lastOfRecord(rec)
	}
	return m.last, nil
}

// stand puts the cursor behind a position: one that is proved by what follows it,
// one that memory remembers, or one that the log vouches for.
func (c *Cursor) stand(ctx context.Context, after chunk.Position) error {
	c.start, c.at, c.last, c.sent = after.Seq, after.Seq, after.Seq, after.Seq
	c.fromStart = after.Seq == 0
	if after.Seq == 0 {
		return nil
	}
	if after.Ordinal != 0 {
		c.note(c.own, after.Ordinal)
		return nil
	}
	if who, pos, ok := c.t.position(c.scope, c.session.ID, after.Seq); ok {
		c.note(who, pos.Ordinal)
		return nil
	}
	pos, err := c.t.part.hub.log.Verify(ctx, c.session, c.scope, after.Seq)
	if err != nil {
		return err
	}
	if c.scope == chunk.ScopeSession {
		c.note(c.own, pos.Ordinal)
	}
	return nil
}

// number is the index of a session in the topic.
func (t *topic) number(id string) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.who(id)
}

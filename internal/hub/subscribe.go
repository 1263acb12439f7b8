package hub

import (
	"context"
	"errors"

	"github.com/tailrace/tailrace/chunk"
)

// subscribe returns a cursor after req.After, once the position is verified.
func (t *topic) subscribe(ctx context.Context, req Request) (*Cursor, error) {
	if req.StreamEpoch != "" && req.StreamEpoch != t.epoch && req.After.Seq > 0 {
		return nil, &chunk.TruncatedError{Session: endingSession(req), Reason: chunk.TruncatedRecreated, After: req.After.Seq}
	}
	own := endingSession(req)
	last, err := t.lastOf(ctx, own)
	if err == nil && req.After.Ordinal != 0 && req.After.Seq > last.at.Seq {
		err = t.checkReached(ctx, own, req.After.Seq)
	}
	if errors.Is(err, chunk.ErrUnknownSession) && (req.KeepOpen && req.After.Seq == 0 || req.Await && req.After.Ordinal != 0) {
		c, awaitErr := t.await(ctx, req)
		if !errors.Is(awaitErr, chunk.ErrTruncated) {
			return c, awaitErr
		}
		// The records that it found are of the next run if that has begun since.
		if last, err = t.askOnce(ctx, own); errors.Is(err, chunk.ErrUnknownSession) {
			err = awaitErr
		}
	}
	if err != nil {
		return nil, err
	}
	if last.deleted && req.After.Seq < last.at.Seq {
		if !req.KeepOpen {
			return nil, chunk.ErrUnknownSession // only the deletion record is left
		}
		req.After = last.at
	}
	c := newCursor(t, req)
	if err := c.seek(ctx, req.After, req.Anchor); err != nil {
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

// await returns a cursor for a session of which the leader has no record. It starts where the topic starts: the answer of the
// leader covers the records before that. In a tree it covers only the root; if a sub-agent still has records, the position
// cannot be served.
func (t *topic) await(ctx context.Context, req Request) (*Cursor, error) {
	if req.After.Seq != 0 && req.Scope == chunk.ScopeTree {
		for _, err := range t.feed.hub.log.Replay(ctx, chunk.Range{Session: req.Session.Tree(), Tree: true}) {
			if errors.Is(err, chunk.ErrUnknownSession) {
				break
			}
			if err == nil {
				err = &chunk.TruncatedError{Session: req.Session.Tree(), Reason: chunk.TruncatedExpired, After: req.After.Seq}
			}
			return nil, err
		}
	}
	c := newCursor(t, req)
	start := chunk.Cursor{Seq: req.After.Seq, Anchor: req.Anchor}
	c.fromStart, c.start, c.at, c.last, c.sent = true, req.After.Seq, t.from, start, req.After.Seq
	c.setOrdinal(c.own, req.After.Ordinal)
	return c, nil
}

// checkReached verifies that the log has reached a position that comes from elsewhere. A snapshot can outlive its log: after
// the stream was recreated, its cursor would wait without an error until the new stream has grown past it.
func (t *topic) checkReached(ctx context.Context, s chunk.Session, seq chunk.Seq) error {
	last, err := t.askOnce(ctx, s)
	if err != nil || seq <= last.at.Seq {
		return err
	}
	return &chunk.TruncatedError{Session: s, Reason: chunk.TruncatedFuture, After: seq}
}

// checkEnded returns ErrEnded if no record can follow the position. A browser stops
// reconnecting after that, so the leader is asked. Without that:
//  1. a user sends a message, and a new run of the session starts,
//  2. the browser reopens its stream after the end of the last run and gets ErrEnded,
//  3. the feed delivers the new run shortly after.
func (t *topic) checkEnded(ctx context.Context, s chunk.Session, last lastRecord, after chunk.Seq) error {
	if !last.terminal || after < last.at.Seq {
		return nil
	}
	rec, err := t.feed.hub.log.Last(ctx, s)
	if err != nil {
		return err
	}
	if rec.Type.Terminal() && after >= rec.Seq {
		return ErrEnded
	}
	return nil
}

// endingSession returns the session whose end ends the response: in a tree, the root.
func endingSession(req Request) chunk.Session {
	if req.Scope == chunk.ScopeTree {
		return req.Session.Tree()
	}
	return req.Session
}

// lastOf returns the newest record of s. The log is asked once per topic and session; then the feed keeps the answer up to
// date. Concurrent callers share one request.
func (t *topic) lastOf(ctx context.Context, s chunk.Session) (lastRecord, error) {
	if last := t.lastKnown(s); last.known {
		return last, nil
	}
	return t.askOnce(ctx, s)
}

// confirmEnd reports whether the leader has the terminal record at seq as the last one of s. If not, the feed will deliver more
// records.
func (t *topic) confirmEnd(ctx context.Context, s chunk.Session, seq chunk.Seq) (bool, error) {
	last, err := t.askOnce(ctx, s)
	if errors.Is(err, chunk.ErrUnknownSession) {
		return true, nil // it has expired, and was complete
	}
	return last.at.Seq == seq, err
}

// lastKnown does not add s to the members: requests for invented sub-agents of a root must not take memory while the
// root has watchers.
func (t *topic) lastKnown(s chunk.Session) lastRecord {
	t.mu.Lock()
	defer t.mu.Unlock()
	if index, known := t.index[s.ID]; known {
		return t.members[index].last
	}
	return lastRecord{}
}

// askOnce asks the log for the last record of s. Concurrent callers wait for that answer, and ask themselves if it failed.
func (t *topic) askOnce(ctx context.Context, s chunk.Session) (lastRecord, error) {
	for {
		t.mu.Lock()
		asking := t.pendingLookups[s.ID]
		if asking == nil {
			t.pendingLookups[s.ID] = make(chan struct{})
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

// ask reads the last record from the log. The feed may have delivered a newer one meanwhile.
func (t *topic) ask(ctx context.Context, s chunk.Session) (lastRecord, error) {
	rec, err := t.feed.hub.log.Last(ctx, s)
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.pendingLookups[s.ID])
	delete(t.pendingLookups, s.ID)
	if err != nil {
		return lastRecord{}, err
	}
	t.served.Store(true)
	m := &t.members[t.memberIndex(s.ID)]
	if !m.last.known || m.last.at.Seq <= rec.Seq {
		m.last = lastOfRecord(rec)
	}
	return m.last, nil
}

// seek moves the cursor after a position: one that the next record verifies, one that memory holds, or one that the log
// confirms.
func (c *Cursor) seek(ctx context.Context, after chunk.Position, anchor chunk.Anchor) error {
	start := chunk.Cursor{Seq: after.Seq, Anchor: anchor}
	c.start, c.at, c.last, c.sent = after.Seq, after.Seq, start, after.Seq
	c.fromStart = after.Seq == 0
	if after.Seq == 0 {
		return nil
	}
	if after.Ordinal != 0 {
		c.setOrdinal(c.own, after.Ordinal)
		return nil
	}
	if index, pos, ok := c.t.position(c.scope, c.session.ID, start); ok {
		c.setOrdinal(index, pos.Ordinal)
		return nil
	}
	pos, err := c.t.feed.hub.log.CheckCursor(ctx, c.session, c.scope, start)
	if err != nil {
		return err
	}
	if c.scope == chunk.ScopeSession {
		c.setOrdinal(c.own, pos.Ordinal)
	}
	return nil
}

// number returns the index of a session in the topic.
func (t *topic) number(id string) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.memberIndex(id)
}

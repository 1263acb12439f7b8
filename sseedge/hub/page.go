package hub

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// maxRetries is how often a cursor asks the log again, without any progress,
// before its client is cut.
const maxRetries = 4

// fill reads the gap before v.end from the log, for everybody who waits for it.
// There is one read per shelf at a time; this cursor was chosen to do it when it
// found the gap and nobody at it. If its client goes away, the read ends and the
// next one who waits is chosen.
func (c *Cursor) fill(ctx context.Context, v view) error {
	t := c.t
	pages, err := c.readPage(ctx, v)
	t.mu.Lock()
	close(v.lead)
	delete(t.reads, c.shelf())
	var grown int64
	// A page read before memory was dropped may hold what a clean-up removed.
	if err == nil && t.era == v.era && t.gone == nil {
		grown = t.shelve(c.shelf(), pages)
	}
	stale := t.era != v.era
	t.mu.Unlock()
	t.part.hub.charge(grown)
	if errors.Is(err, errOverlooked) {
		// The log has a record at a place that the cursor went past, because
		// memory had nothing there.
		t.distrust()
		c.at, err = c.last, errShort
	}
	if err != nil || stale {
		return c.again(ctx, err)
	}
	// The first page is taken from here, not from memory: with a small budget it
	// may be gone from there already, and nobody would ever get anywhere.
	c.page = pages[0]
	return nil
}

// readPage reads at most a page of what follows v.from.
func (c *Cursor) readPage(ctx context.Context, v view) ([]*segment, error) {
	h := c.t.part.hub
	select {
	case h.reading <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-h.reading }()
	h.counters.reads.Add(1)

	b := pageBuilder{t: c.t, pages: []*segment{{from: v.from}}, tails: make(map[uint32]chunk.Ordinal)}
	if c.scope == chunk.ScopeSession {
		b.tails[c.own] = c.ordinal(c.own) // the log proves that the first record follows it
	}
	for rec, err := range c.replay(ctx, v.end) {
		if err != nil {
			return nil, err
		}
		if rec.Seq <= v.from {
			return nil, errOverlooked
		}
		b.enc.encode(h.cfg.Encode, rec)
		b.add(rec)
		if b.bytes >= h.cfg.Page {
			v.end = rec.Seq
			break
		}
	}
	if err := c.checkComplete(ctx, v, b.lasts); err != nil {
		return nil, err
	}
	return b.finish(v.end), nil
}

func (c *Cursor) replay(ctx context.Context, through chunk.Seq) iter.Seq2[chunk.Record, error] {
	log := c.t.part.hub.log
	if c.scope == chunk.ScopeTree {
		return log.ReplayTree(ctx, c.session, c.last, through)
	}
	after := chunk.Position{Seq: c.last, Ordinal: c.ordinal(c.own)}
	if after.Ordinal == 0 {
		after = chunk.Position{} // nothing was taken yet
	}
	return log.Replay(ctx, c.session, after, through)
}

// pageBuilder cuts what is read into segments.
type pageBuilder struct {
	t     *topic
	enc   encoded
	pages []*segment
	tails map[uint32]chunk.Ordinal // last ordinal of each member in the page
	lasts map[uint32]chunk.Seq
	bytes int
}

func (b *pageBuilder) add(rec chunk.Record) {
	f := frame{seq: rec.Seq, ordinal: rec.Ordinal, after: rec.Ordinal - 1, traits: traitsOf(rec.Type) | proved}
	var removed bool
	f.who, f.kind, removed = b.t.name(rec)
	if removed {
		if _, seen := b.tails[f.who]; !seen {
			b.tails[f.who] = f.after // what comes next follows what came before
		}
		return
	}
	// The log explains the holes it yields, and has found what lies before the
	// page; but only a cursor knows whether its client got that.
	if tail, seen := b.tails[f.who]; seen {
		f.after = tail
	}
	if rec.Type == chunk.TypeTruncated {
		b.t.part.hub.charge(b.t.meetMark(rec, b.pages))
	}
	b.tails[f.who] = rec.Ordinal
	if b.lasts == nil {
		b.lasts = make(map[uint32]chunk.Seq)
	}
	b.lasts[f.who] = rec.Seq

	g := b.pages[len(b.pages)-1]
	size := firstSegment
	if !g.fits(b.enc.size()) {
		g.to = g.last()
		size = min(2*cap(g.wire), maxSegment)
		g = &segment{from: g.to}
		b.pages = append(b.pages, g)
	}
	g.used.Store(b.t.part.hub.clock.Load())
	g.add(f, &b.enc, size)
	b.bytes += b.enc.size()
}

func (b *pageBuilder) finish(to chunk.Seq) []*segment {
	b.pages[len(b.pages)-1].to = to
	return b.pages
}

// name numbers the session and the type of a record that was read, and tells
// whether a clean-up is about to remove it.
func (t *topic) name(rec chunk.Record) (who uint32, kind uint16, removed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	who = t.who(rec.Session.ID)
	m := &t.members[who]
	m.epoch = max(m.epoch, rec.Epoch)
	return who, t.kind(rec.Type), m.isRemoved(rec.Ordinal)
}

// checkComplete makes sure that a read through v.end brought the records that
// the leader or the feed has told of. Either the read was answered by a replica
// that lags, and to take its word would lose the last record before a silence:
// it is repeated. Or a record was taken from the log since. A clean-up says so in
// the log; of anything else the client must be told, because nothing may follow
// whose ordinal would tell it.
func (c *Cursor) checkComplete(ctx context.Context, v view, lasts map[uint32]chunk.Seq) error {
	who, missing, found := c.firstMissing(v, lasts)
	if !found {
		return nil
	}
	s := c.session.Tree().Child(c.t.names()[who])
	_, err := c.t.part.hub.log.Verify(ctx, s, chunk.ScopeSession, missing)
	var truncated *chunk.TruncatedError
	switch {
	case err == nil:
		return fmt.Errorf("%w: %d of %s, want %d", errShort, lasts[who], s, missing)
	case errors.As(err, &truncated):
		c.t.forgetLast(who)
		// Foreign: what the feed brought was no record of the session after all.
		if truncated.Reason == chunk.TruncatedCleanup || truncated.Reason == chunk.TruncatedForeign {
			return nil
		}
	}
	return err
}

// firstMissing finds a record that is known to have been in the gap, in the
// scope of the cursor, and was not read.
func (c *Cursor) firstMissing(v view, lasts map[uint32]chunk.Seq) (who uint32, missing chunk.Seq, found bool) {
	t := c.t
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.members {
		who, last := uint32(i), t.members[i].last
		if c.scope == chunk.ScopeSession && who != c.own {
			continue
		}
		if seq := last.at.Seq; last.known && v.from < seq && seq <= v.end && lasts[who] < seq {
			return who, seq, true
		}
	}
	return 0, 0, false
}

// forgetLast makes the next subscriber ask the log for the last record again.
func (t *topic) forgetLast(who uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.members[who].last = lastRecord{}
}

// again lets a cursor try once more after a moment when the log disagreed with
// what is known to be in it, unless that was tried often enough.
func (c *Cursor) again(ctx context.Context, err error) error {
	if !errors.Is(err, errShort) {
		return err
	}
	if c.retries++; c.retries > maxRetries {
		c.t.forgetLast(c.own)
		return err
	}
	select {
	case <-time.After(time.Duration(c.retries) * 25 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

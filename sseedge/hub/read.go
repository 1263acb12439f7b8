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

// read is a page on its way from the log, for all who wait for it. There is one
// per shelf at a time, started by the first cursor that found the gap, from its
// place. It has a goroutine of its own, so that its cursors go on sending
// heartbeats while the log is slow; the goroutine ends when the page is there,
// or the log fails, or nobody watches the topic any more, or the Hub stops.
type read struct {
	t       *topic
	session chunk.Session
	own     uint32
	scope   chunk.Scope
	shelf   string
	after   chunk.Position // the last record that the cursor took, its ordinal in the scope of a session
	from    chunk.Seq      // the page begins behind this …
	end     chunk.Seq      // … and ends here, or earlier
	era     int            // of the topic when the read began
	cancel  context.CancelFunc

	done  chan struct{} // closed when the fields below are set
	pages []*segment    // nil when what was read cannot be kept
	err   error
}

// startRead begins to fill the gap between c and the next segment. The caller
// holds the topic's lock.
func (t *topic) startRead(ctx context.Context, c *Cursor, end chunk.Seq) *read {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &read{
		t: t, session: c.session, own: c.own, scope: c.scope, shelf: c.shelf(),
		after: chunk.Position{Seq: c.last}, from: c.at, end: end,
		era: t.era, cancel: cancel, done: make(chan struct{}),
	}
	if c.scope == chunk.ScopeSession {
		r.after.Ordinal = c.ordinal(c.own)
	}
	t.reads[r.shelf] = r
	t.part.hub.readers.Go(func() { r.run(ctx) })
	return r
}

func (r *read) run(ctx context.Context) {
	defer close(r.done)
	defer r.cancel()
	pages, err := r.page(ctx)
	if ctx.Err() != nil {
		err = errCancelled
	}
	t := r.t
	t.mu.Lock()
	delete(t.reads, r.shelf)
	var grown int64
	// A page read before memory was dropped may hold what a clean-up removed.
	if r.err = err; err == nil && t.era == r.era && t.gone == nil {
		r.pages = pages
		grown = t.shelve(r.shelf, pages)
	}
	t.mu.Unlock()
	t.part.hub.charge(grown)
}

// page reads what follows r.from, a page of it at most.
func (r *read) page(ctx context.Context) ([]*segment, error) {
	h := r.t.part.hub
	select {
	case h.reading <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-h.reading }()
	h.counters.reads.Add(1)

	b := pageBuilder{t: r.t, pages: []*segment{{from: r.from}}, tails: make(map[uint32]chunk.Ordinal), lasts: make(map[uint32]chunk.Seq)}
	if r.scope == chunk.ScopeSession {
		b.tails[r.own] = r.after.Ordinal // the log proves that the first record follows it
	}
	end := r.end
	for rec, err := range r.replay(ctx) {
		if err != nil {
			return nil, err
		}
		if rec.Seq <= r.from {
			return nil, errOverlooked
		}
		b.enc.encode(r.t.encode, rec)
		b.add(rec)
		if b.bytes >= h.cfg.Page {
			end = rec.Seq
			break
		}
	}
	if err := r.checkComplete(ctx, end, b.lasts); err != nil {
		return nil, err
	}
	return b.finish(end), nil
}

func (r *read) replay(ctx context.Context) iter.Seq2[chunk.Record, error] {
	log := r.t.part.hub.log
	if r.scope == chunk.ScopeTree {
		return log.ReplayTree(ctx, r.session, r.after.Seq, r.end)
	}
	after := r.after
	if after.Ordinal == 0 {
		after = chunk.Position{} // nothing was taken yet
	}
	return log.Replay(ctx, r.session, after, r.end)
}

// checkComplete makes sure that a read through end brought the records that
// the leader or the feed has told of. Either the read was answered by a replica
// that lags, and to take its word would lose the last record before a silence:
// it is repeated. Or a record was taken from the log since. A clean-up says so in
// the log; of anything else the client must be told, because nothing may follow
// whose ordinal would tell it.
func (r *read) checkComplete(ctx context.Context, end chunk.Seq, lasts map[uint32]chunk.Seq) error {
	who, missing, found := r.firstMissing(end, lasts)
	if !found {
		return nil
	}
	s := r.session.Tree().Child(r.t.names()[who])
	_, err := r.t.part.hub.log.Verify(ctx, s, chunk.ScopeSession, missing)
	truncated, isTruncated := errors.AsType[*chunk.TruncatedError](err)
	switch {
	case err == nil:
		return fmt.Errorf("%w: %d of %s, want %d", errShort, lasts[who], s, missing)
	case isTruncated:
		r.t.forgetLast(who)
		// Foreign: what the feed brought was no record of the session after all.
		if truncated.Reason == chunk.TruncatedCleanup || truncated.Reason == chunk.TruncatedForeign {
			return nil
		}
	}
	return err
}

// firstMissing finds a record that is known to have been in the gap, in scope,
// and was not read.
func (r *read) firstMissing(end chunk.Seq, lasts map[uint32]chunk.Seq) (who uint32, missing chunk.Seq, found bool) {
	t := r.t
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.members {
		who, last := uint32(i), t.members[i].last
		if r.scope == chunk.ScopeSession && who != r.own {
			continue
		}
		if seq := last.at.Seq; last.known && r.from < seq && seq <= end && lasts[who] < seq {
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

// collect takes the outcome of a read that c started, when it is there. Others
// who waited find the page in memory, or start a read themselves.
func (c *Cursor) collect(ctx context.Context) error {
	r := c.read
	select {
	case <-r.done:
	default:
		return nil
	}
	c.read = nil
	err := r.err
	if errors.Is(err, errCancelled) {
		return nil // the topic was dropped; whether that is the end, it will say itself
	}
	if errors.Is(err, errOverlooked) {
		// The log has a record at a place that the cursor went past, because
		// memory had nothing there.
		c.t.distrust()
		c.at, err = c.last, errShort
	}
	if err != nil {
		return c.again(ctx, err)
	}
	if len(r.pages) > 0 {
		// The first page is taken from here, not from memory: with a small budget
		// it may be gone from there already, and nobody would ever get anywhere.
		c.page = r.pages[0]
	}
	return nil
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

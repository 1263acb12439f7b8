package hub

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/wait"
)

// maxRetries is how often a cursor reads the log again without progress before its
// client gets the error.
const maxRetries = 4

// read loads one page from the log for all cursors that wait for it. There is one per
// page set at a time, started by the first cursor that needs it, from its position. It
// runs on its own goroutine, so that the cursors still send heartbeats while the log is
// slow; the goroutine ends when the page is loaded, the log fails, the topic has no
// watchers, or the Hub stops.
type read struct {
	t          *topic
	session    chunk.Session
	own        uint32
	scope      chunk.Scope
	pageSet    string
	after      chunk.Position // the last record of the cursor; with its ordinal in the scope of a session
	from       chunk.Seq      // the page starts after this …
	end        chunk.Seq      // … and ends here, or earlier
	generation int            // of the topic when the read began
	cancel     context.CancelFunc

	done  chan struct{} // closed when the fields below are set
	pages []*segment    // nil if the page must not stay in memory
	err   error
}

// startRead starts to load the records between c and the next segment. The caller
// holds the lock of the topic.
func (t *topic) startRead(ctx context.Context, c *Cursor, end chunk.Seq) *read {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &read{
		t: t, session: c.session, own: c.own, scope: c.scope, pageSet: c.pageSet(),
		after: chunk.Position{Seq: c.last.Seq}, from: c.at, end: end,
		generation: t.generation, cancel: cancel, done: make(chan struct{}),
	}
	if c.scope == chunk.ScopeSession {
		r.after.Ordinal = c.ordinal(c.own)
	}
	t.reads[r.pageSet] = r
	t.feed.hub.readers.Go(func() { r.run(ctx) })
	return r
}

func (r *read) run(ctx context.Context) {
	defer close(r.done)
	defer r.cancel()
	t, h := r.t, r.t.feed.hub
	var pages []*segment
	var err error
	select {
	case h.reading <- struct{}{}:
		// Until the page is counted: MaxReads also bounds the pages beside MaxMemory.
		defer func() { <-h.reading }()
		pages, err = r.page(ctx)
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		err = errCancelled
	}
	t.mu.Lock()
	delete(t.reads, r.pageSet)
	var grown int64
	// A page that was read before memory was dropped may hold removed records.
	if r.err = err; err == nil && t.generation == r.generation && t.closedErr == nil {
		r.pages = pages
		grown = t.addPages(r.pageSet, pages)
	}
	t.mu.Unlock()
	h.addMemory(grown)
}

// page reads at most one page after r.from.
func (r *read) page(ctx context.Context) ([]*segment, error) {
	h := r.t.feed.hub
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
			return nil, errMissedRecord
		}
		b.enc.encode(r.t.encode, rec)
		b.add(rec)
		if b.bytes >= h.cfg.PageBytes {
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
	log := r.t.feed.hub.log
	if r.scope == chunk.ScopeTree {
		return log.Replay(ctx, chunk.Range{Session: r.session, Tree: true, After: r.after, Through: r.end, AllowCleanup: true})
	}
	after := r.after
	if after.Ordinal == 0 {
		after = chunk.Position{} // no record was taken yet
	}
	return log.Replay(ctx, chunk.Range{Session: r.session, After: after, Through: r.end, AllowCleanup: true})
}

// checkComplete verifies that a read through end returned the records that the leader
// or the feed has reported. If one is missing, either a replica that lags has served
// the read: it is repeated, because otherwise the last record before a silence would
// be lost. Or the record was deleted since. For a cleanup the log has a truncation
// record; in all other cases the client must get an error, because there may be no
// later record whose ordinal would reveal the gap.
func (r *read) checkComplete(ctx context.Context, end chunk.Seq, lasts map[uint32]chunk.Seq) error {
	index, missing, found := r.firstMissing(end, lasts)
	if !found {
		return nil
	}
	s := r.session.Tree().Child(r.t.names()[index])
	_, err := r.t.feed.hub.log.CheckCursor(ctx, s, chunk.ScopeSession, chunk.Cursor{Seq: missing})
	truncated, isTruncated := errors.AsType[*chunk.TruncatedError](err)
	switch {
	case err == nil:
		return fmt.Errorf("%w: %d of %s, want %d", errShortRead, lasts[index], s, missing)
	case isTruncated:
		r.t.forgetLast(index)
		// Wrong session: the message of the feed was not a record of the session.
		if truncated.Reason == chunk.TruncatedCleanup || truncated.Reason == chunk.TruncatedWrongSession {
			return nil
		}
	}
	return err
}

// firstMissing returns a record in scope that is known to be in the interval and was
// not read.
func (r *read) firstMissing(end chunk.Seq, lasts map[uint32]chunk.Seq) (index uint32, missing chunk.Seq, found bool) {
	t := r.t
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.members {
		index, last := uint32(i), t.members[i].last
		if r.scope == chunk.ScopeSession && index != r.own {
			continue
		}
		if seq := last.at.Seq; last.known && r.from < seq && seq <= end && lasts[index] < seq {
			return index, seq, true
		}
	}
	return 0, 0, false
}

// forgetLast makes the next subscriber read the last record from the log.
func (t *topic) forgetLast(index uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.members[index].last = lastRecord{}
}

// collect takes the result of the read that c started, if there is one. Other cursors
// that waited find the page in memory, or start a read themselves.
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
		return nil // the topic was dropped; its error determines whether the cursor ends
	}
	if errors.Is(err, errMissedRecord) {
		// The log has a record at a position that the cursor has passed, because
		// memory did not have it.
		c.t.invalidate()
		c.at, err = c.last.Seq, errShortRead
	}
	if err != nil {
		return c.retry(ctx, err)
	}
	if len(r.pages) > 0 {
		// The first page is taken from here, not from memory: with a small MaxMemory
		// it may be evicted already, and no cursor would ever make progress.
		c.page = r.pages[0]
	}
	return nil
}

// retry returns nil after a delay if the log did not have a record that is known to be
// in it, and the error after maxRetries attempts or for any other error.
func (c *Cursor) retry(ctx context.Context, err error) error {
	if !errors.Is(err, errShortRead) {
		return err
	}
	if c.retries++; c.retries > maxRetries {
		c.t.forgetLast(c.own)
		return err
	}
	if wait.Sleep(ctx, time.Duration(c.retries)*25*time.Millisecond) != nil {
		return context.Cause(ctx)
	}
	return nil
}

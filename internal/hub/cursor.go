package hub

import (
	"context"
	"math"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Cursor is the position of one client in a session. It belongs to one goroutine,
// which calls Next until it fails, and then Close. Between two calls it references
// only the segment of the last Batch.
type Cursor struct {
	t       *topic
	session chunk.Session
	own     uint32 // index of session in the topic; its end ends the response
	scope   chunk.Scope
	filter  *filterCache // nil shows all chunks

	start chunk.Seq    // the position of the request
	at    chunk.Seq    // all records up to here were taken
	last  chunk.Cursor // of the last record in scope that was taken, shown or hidden
	sent  chunk.Seq    // the last id that was returned

	// seen is the last ordinal taken of each member of the topic. For a session that
	// is not in it yet, the ordinal is 0 if the cursor started at the beginning of
	// the log, else unknown.
	seen      []chunk.Ordinal
	fromStart bool

	read *read    // the read that this cursor started, until it has the result
	page *segment // the result of that read; this cursor uses it even if memory has evicted it

	wakeup   int  // the wake-up of the topic that it waits for, or that woke it; 0 after it has polled
	keepOpen bool // do not end at the end of session

	ended   chunk.Seq // the last record of session, if it was terminal, else 0
	retries int       // failed attempts to agree with the log since the last record
	scratch []byte
}

// unknown is an ordinal that any ordinal may follow.
const unknown = chunk.Ordinal(math.MaxUint64)

func newCursor(t *topic, req Request) *Cursor {
	c := &Cursor{t: t, session: req.Session, scope: req.Scope, keepOpen: req.KeepOpen}
	if req.Scope == chunk.ScopeTree {
		c.session = req.Session.Tree()
	}
	c.own = t.number(c.session.ID)
	if !req.Filter.empty() {
		c.filter = &filterCache{filter: req.Filter}
	}
	return c
}

// Close releases the cursor. It may be called twice.
func (c *Cursor) Close() {
	if c.t != nil {
		c.stopWaiting()
		c.t.feed.leave(c.t)
		c.t.feed.release()
		c.t = nil
	}
}

func (c *Cursor) stopWaiting() {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	c.t.wakeups.polled(c)
}

// Position returns the position of the last record that was taken, shown or hidden:
// the cursor of a client that has received all Batches.
func (c *Cursor) Position() chunk.Cursor { return c.last }

// StreamEpoch returns the epoch of the stream that positions belong to.
func (c *Cursor) StreamEpoch() string { return c.t.epoch }

// Batch is what to send next. The zero Batch means that a heartbeat is due.
type Batch struct {
	// Frames are complete, concatenated frames. They are shared with other clients:
	// read-only, and valid until the next call of Next.
	Frames []byte

	// Records is the number of records in Frames.
	Records int

	// SkipTo, if not zero, is a position after Frames that the client should store as
	// its cursor: the records in between are hidden from it.
	SkipTo chunk.Cursor

	// StoredAt, if not zero, is when the log stored the last record in Frames. It is
	// set for live records, for measuring latency.
	StoredAt time.Time
}

// Next blocks until there are records and returns those that are contiguous in
// memory, at least one frame. If tick fires first, it returns the position of hidden
// records that is not sent yet, or the zero Batch.
//
// It returns io.EOF after all records of a complete session, a *chunk.TruncatedError
// if the log cannot serve the next records, ErrClosed, the cause of ctx, or the error
// of the log.
func (c *Cursor) Next(ctx context.Context, tick <-chan time.Time) (Batch, error) {
	for {
		batch, wait, err := c.Poll(ctx)
		if err != nil || wait == nil {
			return batch, err
		}
		select {
		case <-wait:
		case <-tick:
			return c.FlushHidden(), nil
		case <-ctx.Done():
		}
	}
}

// Poll is Next for a caller that waits for several cursors: it returns the next
// records or, if there are none yet, a channel that is closed when the caller should
// poll again.
func (c *Cursor) Poll(ctx context.Context) (Batch, <-chan struct{}, error) {
	for ctx.Err() == nil {
		var (
			batch Batch
			err   error
		)
		if c.read != nil {
			if err := c.collect(ctx); err != nil {
				return Batch{}, nil, c.complete(err)
			}
		}
		a := c.inspect(ctx)
		switch {
		case a.closedErr != nil:
			a.wait, err = c.moveToTopic(a.closedErr)
		case a.wait == nil:
			batch, err = c.advance(ctx, a)
		case a.over != 0:
			batch, err = c.finish(ctx, a.over)
		}
		if err != nil || !batch.empty() {
			return batch, nil, c.complete(err)
		}
		if a.wait != nil {
			return Batch{}, a.wait, nil
		}
	}
	return Batch{}, nil, context.Cause(ctx)
}

// FlushHidden returns the position of hidden records that is not sent yet, or the zero Batch.
func (c *Cursor) FlushHidden() Batch { return Batch{SkipTo: c.skipTo()} }

// available is what memory holds at the position of a cursor: frames to take, or a
// channel to wait for.
type available struct {
	frames []frame
	wire   []byte
	kinds  []chunk.Type
	ids    []string
	to     chunk.Seq // position of a cursor that has taken all frames
	stored time.Time // when the last frame was stored, if it is the newest record of the topic

	wait      <-chan struct{}
	over      chunk.Seq // no more records, and this one was terminal
	closedErr error
}

// inspect returns what is available at the cursor. It decides under one lock what the
// cursor takes and what it waits for, so no change is missed. If memory does not cover
// the position, inspect starts a read of the log, or joins the running one.
func (c *Cursor) inspect(ctx context.Context) available {
	t := c.t
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wakeups.polled(c)
	if t.closedErr != nil {
		return available{closedErr: t.closedErr}
	}
	pages := c.pageSet()
	g, next := c.page, chunk.Seq(0)
	if c.page = nil; g == nil || !g.covers(c.at) {
		g, next = t.find(pages, c.at)
	}
	if g == nil {
		r := t.reads[pages]
		if r == nil {
			r = t.startRead(ctx, c, next)
			c.read = r
		}
		return available{wait: r.done}
	}
	g.used.Store(t.feed.hub.clock.Load())
	i := g.after(c.at)
	if i == len(g.frames) && g.open {
		return available{wait: t.wakeups.wait(c), over: c.terminalRecord(t.members[c.own].last)}
	}
	a := available{frames: g.frames[i:], wire: g.wire, kinds: t.kinds, ids: t.ids, to: g.to}
	if g.open {
		a.to, a.stored = g.last(), t.newest
	}
	return a
}

// terminalRecord returns the sequence of the terminal record if it is the last one
// and not after the cursor, else 0. The cursor need not have taken it: a client that
// received it from another edge may connect before the feed of this edge delivers it.
func (c *Cursor) terminalRecord(last lastRecord) chunk.Seq {
	if c.keepOpen {
		return 0
	}
	if last.known && last.terminal && last.at.Seq <= c.at {
		return max(last.at.Seq, c.ended)
	}
	return c.ended
}

func (c *Cursor) pageSet() string {
	if c.scope == chunk.ScopeTree {
		return treePageSet
	}
	return c.session.ID
}

// advance moves the cursor over the available frames as long as they are contiguous,
// and collects the bytes of those that are shown.
func (c *Cursor) advance(ctx context.Context, a available) (Batch, error) {
	if c.filter != nil {
		c.filter.addKind(a.kinds, a.ids)
	}
	run := frameBuffer{wire: a.wire, scratch: c.scratch[:0]}
	for i := range a.frames {
		f := &a.frames[i]
		if !c.inScope(f) {
			c.at = f.seq
			continue
		}
		if !c.isContiguous(f) {
			if run.empty() {
				return Batch{}, c.checkGap(ctx, *f, a.ids[f.index])
			}
			a.to, a.stored = c.at, time.Time{} // return the contiguous frames; the next call reads the log
			break
		}
		c.step(f)
		if from, to := f.shown(c.scope); from < to && (c.filter == nil || c.filter.shows(f)) {
			run.add(from, to)
			run.records++
			c.sent = f.seq
		}
	}
	c.at = max(c.at, a.to)
	var batch Batch
	if batch.Frames, c.scratch = run.bytes(); len(batch.Frames) > 0 {
		batch.Records, batch.SkipTo, batch.StoredAt = run.records, c.skipTo(), a.stored
	}
	return batch, nil
}

// inScope reports whether a record is in the scope of the cursor.
func (c *Cursor) inScope(f *frame) bool { return c.scope == chunk.ScopeTree || f.index == c.own }

// isContiguous reports whether no record is missing between the cursor and f. Of a
// session that the cursor has not met, it has the records before its start position:
// then the feed or the log must have shown that the record before f is one of them.
func (c *Cursor) isContiguous(f *frame) bool {
	seen := c.ordinal(f.index)
	if seen != unknown {
		return f.after <= seen && seen < f.ordinal
	}
	return f.after == 0 || f.flags&proved != 0 || (f.prev != 0 && f.prev <= c.start) || c.t.isMarkedContiguous(f.seq)
}

func (c *Cursor) step(f *frame) {
	c.at, c.last, c.retries = f.seq, chunk.Cursor{Seq: f.seq, Anchor: f.anchor}, 0
	c.setOrdinal(f.index, f.ordinal)
	if f.index == c.own {
		c.ended = 0
		if f.flags&terminal != 0 {
			c.ended = f.seq
		}
	}
}

// ordinal returns the last ordinal taken of a member.
func (c *Cursor) ordinal(index uint32) chunk.Ordinal {
	if int(index) < len(c.seen) {
		return c.seen[index]
	}
	return c.initialOrdinal()
}

func (c *Cursor) initialOrdinal() chunk.Ordinal {
	if c.fromStart {
		return 0
	}
	return unknown
}

func (c *Cursor) setOrdinal(index uint32, o chunk.Ordinal) {
	for int(index) >= len(c.seen) {
		c.seen = append(c.seen, c.initialOrdinal())
	}
	c.seen[index] = o
}

// skipTo returns the position that hidden records advanced the cursor to, if it was
// not sent to the client yet, else the zero Cursor.
func (c *Cursor) skipTo() chunk.Cursor {
	if c.last.Seq <= c.sent {
		return chunk.Cursor{}
	}
	c.sent = c.last.Seq
	return c.last
}

// finish returns the position of the last hidden records, then errOver if the leader
// confirms the end: a response that ends cleanly tells the client that it is complete.
func (c *Cursor) finish(ctx context.Context, seq chunk.Seq) (Batch, error) {
	if c.start < seq && c.ended < seq { // memory misses it
		return Batch{}, c.readAgain(ctx, seq)
	}
	if to := c.skipTo(); to.Seq != 0 {
		return Batch{SkipTo: to}, nil
	}
	over, err := c.t.confirmEnd(ctx, c.session, seq)
	if over {
		err = errOver
	}
	return Batch{}, err
}

func (b Batch) empty() bool { return len(b.Frames) == 0 && b.SkipTo.Seq == 0 }

// frameBuffer joins the bytes of frames. Adjacent frames need no copy; for a client
// without a filter, all are adjacent.
type frameBuffer struct {
	wire     []byte
	scratch  []byte
	from, to uint32
	records  int
}

func (g *frameBuffer) empty() bool { return g.from == g.to && len(g.scratch) == 0 }

func (g *frameBuffer) add(from, to uint32) {
	if from != g.to {
		g.scratch = append(g.scratch, g.wire[g.from:g.to]...)
		g.from = from
	}
	g.to = to
}

// bytes returns the joined frames, and the scratch buffer for reuse.
func (g *frameBuffer) bytes() (joined, scratch []byte) {
	if len(g.scratch) == 0 {
		return g.wire[g.from:g.to:g.to], g.scratch
	}
	g.scratch = append(g.scratch, g.wire[g.from:g.to]...)
	return g.scratch, g.scratch
}

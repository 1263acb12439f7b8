package hub

import (
	"context"
	"io"
	"math"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Cursor is one client's place in a session. It belongs to one goroutine, which
// calls Next until that fails, and Close in the end. Between two calls it holds
// no more than the segment of the last Batch.
type Cursor struct {
	t       *topic
	session chunk.Session
	own     uint32 // index of session in the topic: the one whose end ends the response
	scope   chunk.Scope
	sieve   *sieve // nil shows everything

	start chunk.Seq // the position it was subscribed with
	at    chunk.Seq // everything up to here was taken
	last  chunk.Seq // sequence of the last record of the scope that was taken, shown or not
	sent  chunk.Seq // the last id that was handed out

	// seen is the last ordinal taken of each member of the topic. A session that
	// is not in it yet has nothing before its first record if the cursor started
	// at the beginning of the log, and is not known otherwise.
	seen      []chunk.Ordinal
	fromStart bool

	read *read    // the one that this cursor started for all, until it has the outcome
	page *segment // what that brought; this cursor takes it from here, not from memory

	keepOpen bool // the end of session is not the end

	ended   chunk.Seq // the last record of session, if it was a terminal one, else 0
	retries int       // vain attempts to agree with the log, since the last record taken
	scratch []byte
}

// unknown is an ordinal that anything may follow.
const unknown = chunk.Ordinal(math.MaxUint64)

func newCursor(t *topic, req Request) *Cursor {
	c := &Cursor{t: t, session: req.Session, scope: req.Scope, keepOpen: req.KeepOpen}
	if req.Scope == chunk.ScopeTree {
		c.session = req.Session.Tree()
	}
	c.own = t.number(c.session.ID)
	if !req.Filter.empty() {
		c.sieve = &sieve{filter: req.Filter}
	}
	return c
}

// Close gives the place up. It may be called twice.
func (c *Cursor) Close() {
	if c.t != nil {
		c.t.part.leave(c.t, false)
		c.t = nil
	}
}

// Position is the sequence of the last record that was taken, shown or not: what
// a client that got all Batches has.
func (c *Cursor) Position() chunk.Seq { return c.last }

// Epoch names the life of the stream that positions belong to.
func (c *Cursor) Epoch() string { return c.t.epoch }

// Batch is what to write next. The zero Batch is nothing: time for a heartbeat.
type Batch struct {
	// Frames are whole frames, back to back. They are shared with other clients
	// and must not be changed; they are good until the next call of Next.
	Frames []byte

	// Records is how many records Frames show.
	Records int

	// Mark, if not 0, is a position behind Frames that the client should
	// remember: what stands between was hidden from it.
	Mark chunk.Seq

	// Stored, if not zero, is when the log stored the last record in Frames: they
	// are live, and this tells how late they are.
	Stored time.Time
}

// Next waits for what follows and returns as much of it as stands together in
// memory, but one frame at least. When tick fires first, it returns what is
// left to say about hidden records, or the zero Batch.
//
// Errors are io.EOF when the session is complete and everything was handed out,
// a *chunk.TruncatedError when the log cannot give what follows, ErrClosed, the
// cause of ctx, or that of a log which cannot be asked.
func (c *Cursor) Next(ctx context.Context, tick <-chan time.Time) (Batch, error) {
	for {
		batch, wait, err := c.Poll(ctx)
		if err != nil || wait == nil {
			return batch, err
		}
		select {
		case <-wait:
		case <-tick:
			return c.Hidden(), nil
		case <-ctx.Done():
		}
	}
}

// Poll is Next for somebody who waits for several cursors at once: it returns
// what follows, or, when that has not come yet, a channel that is closed when to
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
		v := c.look(ctx)
		switch {
		case v.gone != nil:
			v.wait, err = c.move(v.gone)
		case v.wait == nil:
			batch, err = c.take(ctx, v)
		case v.over != 0:
			batch, err = c.finish(ctx, v.over)
		}
		if err != nil || !batch.empty() {
			return batch, nil, c.complete(err)
		}
		if v.wait != nil {
			return Batch{}, v.wait, nil
		}
	}
	return Batch{}, nil, context.Cause(ctx)
}

// Hidden is what is left to say about hidden records, or the zero Batch.
func (c *Cursor) Hidden() Batch { return Batch{Mark: c.mark()} }

// view is what a cursor finds in memory at its place: frames to take, or
// something to wait for.
type view struct {
	frames []frame
	wire   []byte
	kinds  []chunk.Type
	ids    []string
	to     chunk.Seq // where a cursor stands that took all of frames
	stored time.Time // when the last of frames was stored, if it is the newest record of all

	wait <-chan struct{}
	over chunk.Seq // there is nothing more, and this record was a terminal one
	gone error
}

// look is the one place where a cursor meets its topic: what it finds and what
// it waits for are decided under one lock. Where it finds nothing, it begins to
// read the log, unless somebody is at it.
func (c *Cursor) look(ctx context.Context) view {
	t := c.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone != nil {
		return view{gone: t.gone}
	}
	shelf := c.shelf()
	g, next := c.page, chunk.Seq(0)
	if c.page = nil; g == nil || !g.covers(c.at) {
		g, next = t.find(shelf, c.at)
	}
	if g == nil {
		r := t.reads[shelf]
		if r == nil {
			r = t.startRead(ctx, c, next)
			c.read = r
		}
		return view{wait: r.done}
	}
	g.used.Store(t.part.hub.clock.Load())
	i := g.after(c.at)
	if i == len(g.frames) && g.open {
		return view{wait: t.waiting(), over: c.over(t.members[c.own].last)}
	}
	v := view{frames: g.frames[i:], wire: g.wire, kinds: t.kinds, ids: t.ids, to: g.to}
	if g.open {
		v.to, v.stored = g.last(), t.newest
	}
	return v
}

// over is the terminal record that a cursor at the tip has behind it, if it is
// the last one. It need not have taken it: a client that got it from another
// edge may be here before the feed of this one brings it.
func (c *Cursor) over(last lastRecord) chunk.Seq {
	if c.keepOpen {
		return 0
	}
	if last.known && last.terminal && last.at.Seq <= c.at {
		return max(last.at.Seq, c.ended)
	}
	return c.ended
}

func (c *Cursor) shelf() string {
	if c.scope == chunk.ScopeTree {
		return shelfOfTree
	}
	return c.session.ID
}

// take moves the cursor over the frames of a view, as far as they follow what it
// has, and gathers the bytes of those that are shown.
func (c *Cursor) take(ctx context.Context, v view) (Batch, error) {
	if c.sieve != nil {
		c.sieve.learn(v.kinds, v.ids)
	}
	run := gather{wire: v.wire, scratch: c.scratch[:0]}
	for i := range v.frames {
		f := &v.frames[i]
		if !c.concerns(f) {
			c.at = f.seq
			continue
		}
		if !c.follows(f) {
			if run.empty() {
				return Batch{}, c.prove(ctx, *f, v.ids[f.who])
			}
			v.to, v.stored = c.at, time.Time{} // hand out what is good; the next call asks the log
			break
		}
		c.step(f)
		if from, to := f.shown(c.scope); from < to && (c.sieve == nil || c.sieve.shows(f)) {
			run.add(from, to)
			run.records++
			c.sent = f.seq
		}
	}
	c.at = max(c.at, v.to)
	var batch Batch
	if batch.Frames, c.scratch = run.bytes(); len(batch.Frames) > 0 {
		batch.Records, batch.Mark, batch.Stored = run.records, c.mark(), v.stored
	}
	return batch, nil
}

// concerns reports whether a record is in the scope of the cursor.
func (c *Cursor) concerns(f *frame) bool { return c.scope == chunk.ScopeTree || f.who == c.own }

// follows reports whether it is proved that nothing is missing between what the
// cursor has of the session and f. Of a session that it has not met, it has what
// lies before the position it started with: then the record before f must lie
// there, by the word of the feed or of the log.
func (c *Cursor) follows(f *frame) bool {
	seen := c.ordinal(f.who)
	if seen != unknown {
		return f.after <= seen && seen < f.ordinal
	}
	return f.after == 0 || f.traits&proved != 0 || (f.prev != 0 && f.prev <= c.start) || c.t.isVouched(f.seq)
}

func (c *Cursor) step(f *frame) {
	c.at, c.last, c.retries = f.seq, f.seq, 0
	c.note(f.who, f.ordinal)
	if f.who == c.own {
		c.ended = 0
		if f.traits&terminal != 0 {
			c.ended = f.seq
		}
	}
}

// ordinal is the last one taken of a member.
func (c *Cursor) ordinal(who uint32) chunk.Ordinal {
	if int(who) < len(c.seen) {
		return c.seen[who]
	}
	return c.unseen()
}

func (c *Cursor) unseen() chunk.Ordinal {
	if c.fromStart {
		return 0
	}
	return unknown
}

func (c *Cursor) note(who uint32, o chunk.Ordinal) {
	for int(who) >= len(c.seen) {
		c.seen = append(c.seen, c.unseen())
	}
	c.seen[who] = o
}

// mark is the position that hidden records moved the cursor to, if the client
// was not told of it yet.
func (c *Cursor) mark() chunk.Seq {
	if c.last <= c.sent {
		return 0
	}
	c.sent = c.last
	return c.last
}

// finish tells the position of what was hidden last, then the end, if the leader
// agrees that it is one: a clean end of the response says that nothing is missing.
func (c *Cursor) finish(ctx context.Context, seq chunk.Seq) (Batch, error) {
	if mark := c.mark(); mark != 0 {
		return Batch{Mark: mark}, nil
	}
	over, err := c.t.confirmEnd(ctx, c.session, seq)
	if over {
		err = io.EOF
	}
	return Batch{}, err
}

func (b Batch) empty() bool { return len(b.Frames) == 0 && b.Mark == 0 }

// gather joins the bytes of frames. Frames that stand back to back need no copy,
// and that is all of them for a client without a filter.
type gather struct {
	wire     []byte
	scratch  []byte
	from, to uint32
	records  int
}

func (g *gather) empty() bool { return g.from == g.to && len(g.scratch) == 0 }

func (g *gather) add(from, to uint32) {
	if from != g.to {
		g.scratch = append(g.scratch, g.wire[g.from:g.to]...)
		g.from = from
	}
	g.to = to
}

// bytes returns what was gathered, and the scratch space to use again.
func (g *gather) bytes() (joined, scratch []byte) {
	if len(g.scratch) == 0 {
		return g.wire[g.from:g.to:g.to], g.scratch
	}
	g.scratch = append(g.scratch, g.wire[g.from:g.to]...)
	return g.scratch, g.scratch
}

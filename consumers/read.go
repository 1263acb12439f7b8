package consumers

import (
	"context"
	"errors"
	"iter"
	"math"

	"github.com/tailrace/tailrace/chunk"
)

// Replay gives the records of s after a position, to the present end: whatever
// was stored when it began, and perhaps more. The zero position is before the
// first record. A position with a sequence and no ordinal is a bare cursor and
// verified first, see Verify; one with both, as a snapshot has it, may be older
// than the log and is proved by the record that follows it.
//
// The error, last if there is one, is a *chunk.TruncatedError, chunk.ErrUnknownSession
// when the position is zero and the log has no record of s, that of ctx, or one
// of NATS.
func (r *Reader) Replay(ctx context.Context, s chunk.Session, after chunk.Position, opts ...Option) iter.Seq2[chunk.Record, error] {
	return r.read(ctx, plan{session: s, scope: chunk.ScopeSession, after: after, options: optionsOf(opts)})
}

// Follow is Replay that goes on live. It ends after the terminal record of the
// session when nothing follows it: normally after stream_end, with a
// *chunk.StreamFailedError after stream_failed; at once when the position is
// that record. With KeepOpen it never ends by itself.
func (r *Reader) Follow(ctx context.Context, s chunk.Session, after chunk.Position, opts ...Option) iter.Seq2[chunk.Record, error] {
	return r.read(ctx, plan{session: s, scope: chunk.ScopeSession, after: after, live: true, options: optionsOf(opts)})
}

// ReplayTree is Replay for the tree that root belongs to: its root and all
// sub-agents, merged in the order of the stream. One sequence is a cursor for
// all of it.
func (r *Reader) ReplayTree(ctx context.Context, root chunk.Session, after chunk.Seq, opts ...Option) iter.Seq2[chunk.Record, error] {
	return r.read(ctx, plan{session: root.Tree(), scope: chunk.ScopeTree, after: chunk.Position{Seq: after}, options: optionsOf(opts)})
}

// Tree is Follow for the tree that root belongs to. The terminal record of the
// root session is the one that ends it.
func (r *Reader) Tree(ctx context.Context, root chunk.Session, after chunk.Seq, opts ...Option) iter.Seq2[chunk.Record, error] {
	return r.read(ctx, plan{session: root.Tree(), scope: chunk.ScopeTree, after: chunk.Position{Seq: after}, live: true, options: optionsOf(opts)})
}

// plan is what was asked for.
type plan struct {
	session chunk.Session
	scope   chunk.Scope
	after   chunk.Position
	live    bool
	options options
}

func (r *Reader) read(ctx context.Context, p plan) iter.Seq2[chunk.Record, error] {
	return func(yield func(chunk.Record, error) bool) {
		rd := reading{Reader: r, plan: p, last: p.after.Seq, chains: make(map[string]*chain, 1)}
		defer rd.close()
		err := rd.open(ctx)
		for err == nil {
			var rec chunk.Record
			var pending uint64
			if rec, pending, err = rd.next(ctx); err != nil {
				break
			}
			if !yield(rec, nil) {
				return
			}
			err = rd.closing(ctx, pending)
		}
		if !errors.Is(err, errEnd) {
			yield(chunk.Record{}, truncation(err, rd.tape, p.session, rd.last))
		}
	}
}

// reading is one read under way.
type reading struct {
	*Reader
	plan

	stream string
	filter string
	root   string // subject of the session whose terminal record counts

	tape    *tape
	strands *strands          // while the history of a small tree, or an archive, is read; tape is one of them then
	chains  map[string]*chain // by subject; of a session alone there is one

	// attached is the end of the log when the read began: a clean-up whose
	// marker lies beyond it happened under this reader.
	attached chunk.Seq
	last     chunk.Seq // last sequence given out, at first where to begin
	rootLast ending
	ahead    map[string]*lookout // by subject, for sessions with a hole
}

func (rd *reading) close() {
	switch {
	case rd.strands != nil:
		rd.strands.close()
	case rd.tape != nil:
		rd.tape.close()
	}
}

// open finds where to begin. errEnd: there is nothing to read.
func (rd *reading) open(ctx context.Context) error {
	if err := rd.name(); err != nil {
		return err
	}
	if err := rd.startingPoint(ctx); err != nil {
		return err
	}
	if err := rd.attach(ctx); err != nil {
		return err
	}
	state := rd.tape.state
	rd.attached = state.last
	switch {
	case rd.after.Seq > state.last:
		return rd.truncated(chunk.TruncatedFuture, state.first)
	case rd.after.Seq >= rd.bound():
		return errEnd // whatever comes next, nobody asked for it
	case rd.strands != nil && rd.strands.left() > 0:
		return nil
	case rd.strands != nil && rd.live:
		if err := rd.goLive(ctx); err != nil {
			return err
		}
	}
	rd.watchForTheEnd()
	if rd.tape.left > 0 {
		return nil
	}
	return rd.atTheEnd(ctx)
}

func (rd *reading) attach(ctx context.Context) error {
	if rd.cfg.Archives && rd.openShelves(ctx) {
		return nil
	}
	if rd.scope == chunk.ScopeTree {
		return rd.openTree(ctx)
	}
	return rd.openTape(ctx)
}

func (rd *reading) openTape(ctx context.Context) error {
	rd.tape = rd.newTape(tapeSpec{stream: rd.stream, filter: rd.filter, after: rd.after.Seq, live: rd.live, patience: rd.cfg.Patience})
	return rd.tape.open(ctx)
}

func (rd *reading) name() (err error) {
	layout := rd.cfg.Layout
	if rd.filter, err = rd.Reader.filter(rd.session, rd.scope); err != nil {
		return err
	}
	if rd.root, err = layout.Subject(rd.session); err != nil {
		return err
	}
	rd.stream = layout.Stream(layout.Partition(rd.session))
	return nil
}

// startingPoint makes the chain of the session that the position belongs to.
func (rd *reading) startingPoint(ctx context.Context) error {
	switch {
	case rd.after.Seq == 0:
		rd.after = chunk.Position{} // an ordinal alone is no place
		return nil
	case rd.after.Ordinal > 0:
		return rd.provedPoint(ctx)
	}
	rec, err := rd.verify(ctx, rd.session, rd.scope, rd.after.Seq)
	if err != nil {
		return err
	}
	return rd.beginAfter(rec)
}

// provedPoint: a position from a snapshot may be older than the log. What
// follows it proves it; what is there, if it is still there, tells the epoch.
// Without that a record of an overtaken writer might pass for the next one.
//
// The place may be that of another session of the tree: whoever reads a tree
// has one sequence for all of it, and an ordinal for each session.
func (rd *reading) provedPoint(ctx context.Context) error {
	rec, err := rd.recordAt(ctx, rd.stream, rd.session, chunk.ScopeTree, rd.after.Seq)
	switch {
	case errors.Is(err, errMissing), err == nil && rec.Session != rd.session:
		rd.chains[rd.root] = &chain{session: rd.session, last: rd.after}
		return nil
	case err != nil:
		return err
	case rec.Ordinal != rd.after.Ordinal:
		return rd.truncated(chunk.TruncatedRecreated, 0)
	}
	return rd.beginAfter(rec)
}

func (rd *reading) beginAfter(rec chunk.Record) error {
	subject, err := rd.cfg.Layout.Subject(rec.Session)
	if err != nil {
		return err
	}
	rd.chains[subject] = &chain{session: rec.Session, last: rec.Position(), epoch: rec.Epoch}
	rd.rootLast.see(subject == rd.root, rec)
	return nil
}

// next is the next record that counts, and how many messages come after it.
func (rd *reading) next(ctx context.Context) (chunk.Record, uint64, error) {
	for {
		e, err := rd.take(ctx)
		if err != nil {
			return chunk.Record{}, 0, err
		}
		rec, err := rd.admit(ctx, &e)
		if errors.Is(err, errPassOver) {
			if e.pending == 0 && rd.after.Seq == 0 && rd.last == 0 {
				return chunk.Record{}, 0, chunk.ErrUnknownSession // there are messages, and no record
			}
			continue
		}
		if err != nil {
			return chunk.Record{}, 0, err
		}
		if e.seq > rd.bound() {
			return chunk.Record{}, 0, errEnd
		}
		rd.last = e.seq
		return rec, e.pending, nil
	}
}

// take is the next message of the read.
func (rd *reading) take(ctx context.Context) (entry, error) {
	for {
		e, err := rd.source().next(ctx)
		switch {
		case errors.Is(err, errEnd) && rd.strands != nil:
			err = rd.endOfHistory(ctx)
		case errors.Is(err, errEnd):
			err = rd.reallyTheEnd(ctx, rd.tape, min(rd.attached, rd.bound()))
		case errors.Is(err, errSilence):
			err = rd.checkEnding(ctx)
		case err == nil:
			return e, nil
		}
		if errors.Is(err, errEnd) && rd.last == 0 && !rd.options.bounded {
			return entry{}, rd.nothingThere() // what was announced is gone
		}
		if err != nil {
			return entry{}, err
		}
	}
}

func (rd *reading) source() interface {
	next(ctx context.Context) (entry, error)
} {
	if rd.strands != nil {
		return rd.strands
	}
	return rd.tape
}

// errPassOver: a message that does not count.
var errPassOver = errors.New("no record that counts")

// admit decides about one message: a record that comes next, something to pass
// over, or the proof that something is missing.
func (rd *reading) admit(ctx context.Context, e *entry) (chunk.Record, error) {
	c, err := rd.chainOf(ctx, e)
	if err != nil {
		return chunk.Record{}, err
	}
	rec, err := e.record(c.session)
	if err != nil {
		return chunk.Record{}, rd.noRecord(e, err)
	}
	switch c.judge(rec) {
	case follows:
	case stale:
		rd.stale.Add(1)
		return chunk.Record{}, errPassOver
	case reborn:
		return chunk.Record{}, rd.truncatedIn(c, chunk.TruncatedExpired, rec.Seq)
	case broken:
		return chunk.Record{}, rd.truncatedIn(c, chunk.TruncatedGap, 0)
	case missing:
		if err := rd.acceptHole(ctx, c, e.subject, rec); err != nil {
			return chunk.Record{}, err
		}
	}
	c.accept(rec)
	rd.rootLast.see(e.subject == rd.root, rec)
	return rec, nil
}

// noRecord reports a message that is none, and why.
func (rd *reading) noRecord(e *entry, why error) error {
	rd.passOver(Foreign{Stream: rd.stream, Subject: e.subject, Seq: e.seq, Err: why})
	return errPassOver
}

// closing ends a bounded read at its bound, and a live one after the terminal
// record of the root.
func (rd *reading) closing(ctx context.Context, pending uint64) error {
	if rd.last >= rd.bound() {
		return errEnd
	}
	if !rd.live || rd.options.keepOpen {
		return nil
	}
	rd.watchForTheEnd()
	if pending > 0 || rd.strands != nil {
		return nil
	}
	return rd.ended(ctx)
}

// bound is the last sequence to give out.
func (rd *reading) bound() chunk.Seq {
	if rd.options.bounded && !rd.live {
		return rd.options.through
	}
	return math.MaxUint64
}

// truncated is the error of the whole read.
func (rd *reading) truncated(reason chunk.TruncationReason, floor chunk.Seq) *chunk.TruncatedError {
	return &chunk.TruncatedError{Session: rd.session, Reason: reason, After: rd.last, Floor: floor}
}

// truncatedIn is the error of one session of it.
func (rd *reading) truncatedIn(c *chain, reason chunk.TruncationReason, floor chunk.Seq) *chunk.TruncatedError {
	return &chunk.TruncatedError{Session: c.session, Reason: reason, After: rd.last, Floor: floor}
}

package consumers

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsreader"
)

// Replay returns the records of a range, up to its end: everything that was stored when it began, and perhaps more. The position to begin after may be zero,
// which is before the first record; a bare cursor, which has a sequence and no ordinal and is checked first, see CheckCursor; or one with both, as in a
// snapshot, which may be older than the log and is proved by the record that follows it.
//
// An error is the last element: a *chunk.TruncatedError, chunk.ErrUnknownSession if the position is zero and the log has no record of the range, the error of
// ctx, an error of NATS, or one that names the invalid field of the range.
func (r *Reader) Replay(ctx context.Context, of chunk.Range) iter.Seq2[chunk.Record, error] {
	return r.read(ctx, of, plan{})
}

// Follow is Replay that continues live, so a range with an end is refused. It ends after the terminal record of the session, or of the root session of a
// tree, if nothing follows it: without an error after stream_end, with a chunk.ErrFailed that has its message after stream_failed; at once if the position is that
// record. With Range.KeepOpen it never ends by itself.
func (r *Reader) Follow(ctx context.Context, of chunk.Range) iter.Seq2[chunk.Record, error] {
	return r.read(ctx, of, plan{live: true})
}

// plan is a range and the settings of its read.
type plan struct {
	session   chunk.Session
	scope     chunk.Scope
	after     chunk.Position
	anchor    chunk.Anchor
	through   chunk.Seq // the last sequence to deliver
	bounded   bool      // through is not the present end
	fromFirst bool
	cleanup   bool // Range.AllowCleanup
	live      bool
	keepOpen  bool
}

// with returns the plan for a range.
func (p plan) with(of chunk.Range) (plan, error) {
	p.session, p.scope, p.after, p.anchor, p.fromFirst = of.Session, chunk.ScopeSession, of.After, of.Anchor, of.FromOldest
	p.through, p.bounded, p.cleanup, p.keepOpen = of.Through, of.Through > 0, of.AllowCleanup, of.KeepOpen
	if !p.bounded {
		p.through = math.MaxUint64
	}
	if of.Tree {
		p.session, p.scope = of.Session.Tree(), chunk.ScopeTree
	}
	switch {
	case p.live && p.bounded:
		return p, fmt.Errorf("Through is %d, want 0: Follow has no end", of.Through)
	case of.KeepOpen && !p.live:
		return p, errors.New("KeepOpen is true: Replay ends at the end of the range")
	case of.Tree && of.After.Ordinal > 0:
		return p, fmt.Errorf("After.Ordinal is %d, want 0: an ordinal is of one session, not of a tree", of.After.Ordinal)
	}
	return p, nil
}

func (r *Reader) read(ctx context.Context, of chunk.Range, p plan) iter.Seq2[chunk.Record, error] {
	p, err := p.with(of)
	return func(yield func(chunk.Record, error) bool) {
		if err != nil {
			yield(chunk.Record{}, err)
			return
		}
		rd := readState{Reader: r, plan: p, last: p.after.Seq, chains: make(map[string]*ordinalChecker, 1)}
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
		if !errors.Is(err, jsreader.ErrEnd) {
			yield(chunk.Record{}, truncation(err, rd.ordered, p.session, rd.last))
		}
	}
}

// readState is one read in progress.
type readState struct {
	*Reader
	plan

	stream string
	filter string
	root   string // subject of the session whose terminal record counts

	ordered *jsreader.Ordered
	state   jsclient.State             // of the stream when the read was attached
	merge   *mergeReader               // while the history of a small tree is read; ordered is one of its readers then
	chains  map[string]*ordinalChecker // by subject; of a session alone there is one

	// attached is the end of the log when the read began: a cleanup whose truncated record is after it ran at the same time as this read.
	attached   chunk.Seq
	last       chunk.Seq // last sequence that was delivered, at first the position to begin at
	rootLast   endState
	lookaheads map[string]*lookahead // by subject, for sessions with a gap
}

func (rd *readState) close() {
	switch {
	case rd.merge != nil:
		rd.merge.close()
	case rd.ordered != nil:
		rd.ordered.Close()
	}
}

// open attaches the read. It returns jsreader.ErrEnd if there is nothing to read.
func (rd *readState) open(ctx context.Context) error {
	if err := rd.name(); err != nil {
		return err
	}
	if err := rd.startingPoint(ctx); err != nil {
		return err
	}
	if err := rd.attach(ctx); err != nil {
		return err
	}
	rd.attached = chunk.Seq(rd.state.Last)
	switch {
	case rd.after.Seq > rd.attached:
		return rd.truncated(chunk.TruncatedFuture, chunk.Seq(rd.state.First))
	case rd.after.Seq >= rd.through:
		return jsreader.ErrEnd // the next record is after the bound
	case rd.merge != nil && rd.merge.left() > 0:
		return nil
	case rd.merge != nil && rd.live:
		if err := rd.followLive(ctx); err != nil {
			return err
		}
	}
	rd.watchForEnd()
	if rd.ordered.Remaining() > 0 {
		return nil
	}
	return rd.atEnd(ctx)
}

func (rd *readState) attach(ctx context.Context) error {
	if rd.scope == chunk.ScopeTree {
		return rd.openTree(ctx)
	}
	return rd.openOrdered(ctx)
}

func (rd *readState) openOrdered(ctx context.Context) error {
	cfg := jsreader.OrderedConfig{Stream: rd.stream, Filter: rd.filter, After: uint64(rd.after.Seq), Live: rd.live, OpenTimeout: rd.cfg.OpenTimeout}
	if !rd.live {
		cfg.Count = rd.count(ctx)
	}
	rd.ordered = rd.newOrdered(cfg)
	err := rd.ordered.Open(ctx)
	rd.state = rd.ordered.State()
	return err
}

// count returns the number of records of a session after the position, by the ordinal of the last one; 0 if it is unknown. Records that were deleted are counted.
func (rd *readState) count(ctx context.Context) uint64 {
	chain := rd.chains[rd.root]
	if rd.after.Seq > 0 && chain == nil {
		return 0
	}
	m, err := rd.client.Last(ctx, rd.stream, rd.filter)
	if err != nil {
		return 0
	}
	rec, err := decode(m, rd.session)
	if err != nil {
		return 0
	}
	if chain == nil {
		return uint64(rec.Ordinal)
	}
	return uint64(max(1, int64(rec.Ordinal)-int64(chain.last.Ordinal)))
}

func (rd *readState) name() (err error) {
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

// startingPoint creates the ordinal checker of the session that the position belongs to.
func (rd *readState) startingPoint(ctx context.Context) error {
	switch {
	case rd.after.Seq == 0:
		rd.after = chunk.Position{} // an ordinal alone is not a position
		return nil
	case rd.after.Ordinal > 0:
		return rd.startAtPosition(ctx)
	}
	rec, err := rd.verify(ctx, rd.session, rd.scope, chunk.Cursor{Seq: rd.after.Seq, Anchor: rd.anchor})
	if truncated, ok := errors.AsType[*chunk.TruncatedError](err); ok && rd.cleanup && truncated.Reason == chunk.TruncatedCleanup {
		return nil // the first record of each session finds its predecessor in the log
	}
	if err != nil {
		return err
	}
	return rd.beginAfter(rec)
}

// startAtPosition begins after a position with an ordinal. A position from a snapshot may be older than the log. The record after it proves it; the record at
// it, if the log still has it, has the epoch. Without the epoch a record of a fenced writer might be accepted as the next one.
//
// The sequence may be that of another session of the tree: a reader of a tree has one sequence for the tree, and an ordinal for each session. It may be that of a
// session of another tree if the next record is the one after it, see chunk.Position.Before.
func (rd *readState) startAtPosition(ctx context.Context) error {
	rec, err := rd.recordAt(ctx, rd.stream, rd.session, chunk.ScopeTree, chunk.Cursor{Seq: rd.after.Seq, Anchor: rd.anchor})
	if truncated, ok := errors.AsType[*chunk.TruncatedError](err); ok && truncated.Reason == chunk.TruncatedWrongSession {
		next, nextErr := rd.recordAt(ctx, rd.stream, rd.session, chunk.ScopeSession, chunk.Cursor{Seq: rd.after.Seq + 1})
		if nextErr == nil && next.Position().Before() == rd.after {
			rec, err = chunk.Record{}, nil
		}
	}
	switch {
	case errors.Is(err, jsclient.ErrNotFound), err == nil && rec.Session != rd.session:
		rd.chains[rd.root] = &ordinalChecker{session: rd.session, last: rd.after}
		return nil
	case err != nil:
		return err
	case rec.Ordinal != rd.after.Ordinal:
		return rd.truncated(chunk.TruncatedRecreated, 0)
	}
	return rd.beginAfter(rec)
}

func (rd *readState) beginAfter(rec chunk.Record) error {
	subject, err := rd.cfg.Layout.Subject(rec.Session)
	if err != nil {
		return err
	}
	rd.chains[subject] = &ordinalChecker{session: rec.Session, last: rec.Position(), epoch: rec.Epoch}
	rd.rootLast.see(subject == rd.root, rec)
	return nil
}

// next returns the next record that is not skipped, and how many messages come after it.
func (rd *readState) next(ctx context.Context) (chunk.Record, uint64, error) {
	for {
		e, err := rd.take(ctx)
		if err != nil {
			return chunk.Record{}, 0, err
		}
		rec, err := rd.accept(ctx, &e)
		if errors.Is(err, errSkip) {
			if e.Pending == 0 && rd.after.Seq == 0 && rd.last == 0 {
				return chunk.Record{}, 0, chunk.ErrUnknownSession // all messages are malformed
			}
			continue
		}
		if err != nil {
			return chunk.Record{}, 0, err
		}
		if chunk.Seq(e.Seq) > rd.through {
			return chunk.Record{}, 0, jsreader.ErrEnd
		}
		rd.last = chunk.Seq(e.Seq)
		return rec, e.Pending, nil
	}
}

// take returns the next message of the read.
func (rd *readState) take(ctx context.Context) (jsreader.Entry, error) {
	for {
		var e jsreader.Entry
		var err error
		if rd.merge != nil {
			e, err = rd.merge.next(ctx)
		} else {
			e, err = rd.ordered.Next(ctx)
		}
		switch {
		case errors.Is(err, jsreader.ErrEnd) && rd.merge != nil:
			err = rd.endOfHistory(ctx)
		case errors.Is(err, jsreader.ErrEnd):
			err = rd.ordered.ConfirmEnd(ctx, uint64(min(rd.attached, rd.through)))
		case errors.Is(err, jsreader.ErrSilence):
			err = rd.checkEnding(ctx)
		case err == nil:
			return e, nil
		}
		if errors.Is(err, jsreader.ErrEnd) && rd.last == 0 && !rd.bounded {
			return jsreader.Entry{}, rd.errEmptyScope() // the messages that the server counted were deleted
		}
		if err != nil {
			return jsreader.Entry{}, err
		}
	}
}

// errSkip reports a message that is skipped.
var errSkip = errors.New("message skipped")

// accept checks one message: it returns the next record, errSkip, or an error if a record before it is missing.
func (rd *readState) accept(ctx context.Context, e *jsreader.Entry) (chunk.Record, error) {
	c, err := rd.chainOf(ctx, e)
	if err != nil {
		return chunk.Record{}, err
	}
	rec, err := decode(e.Message, c.session)
	if err != nil {
		return chunk.Record{}, rd.countMalformed(e, err)
	}
	switch c.check(rec) {
	case follows:
	case fenced:
		return chunk.Record{}, rd.countFenced()
	case reused:
		if err := rd.acceptReuse(ctx, c, rec); err != nil {
			return chunk.Record{}, err
		}
	case missing:
		if err := rd.acceptGap(ctx, c, e.Subject, rec); err != nil {
			return chunk.Record{}, err
		}
	}
	c.accept(rec)
	rd.rootLast.see(e.Subject == rd.root, rec)
	return rec, nil
}

// countFenced counts a record of a fenced writer, and skips it.
func (rd *readState) countFenced() error {
	rd.fenced.Add(1)
	return errSkip
}

// countMalformed reports a malformed message, and skips it.
func (rd *readState) countMalformed(e *jsreader.Entry, cause error) error {
	rd.skipMalformed(Malformed{Stream: rd.stream, Subject: e.Subject, Seq: chunk.Seq(e.Seq), Err: cause})
	return errSkip
}

// closing ends a bounded read at its bound, and a live read after the terminal record of the root.
func (rd *readState) closing(ctx context.Context, pending uint64) error {
	if rd.last >= rd.through {
		return jsreader.ErrEnd
	}
	if !rd.live || rd.keepOpen {
		return nil
	}
	rd.watchForEnd()
	if pending > 0 || rd.merge != nil {
		return nil
	}
	return rd.ended(ctx)
}

// truncated returns the error of the whole read.
func (rd *readState) truncated(reason chunk.TruncationReason, first chunk.Seq) *chunk.TruncatedError {
	return &chunk.TruncatedError{Session: rd.session, Reason: reason, After: rd.last, FirstSeq: first}
}

// truncatedIn returns the error of one session of the read.
func (rd *readState) truncatedIn(c *ordinalChecker, reason chunk.TruncationReason, first chunk.Seq) *chunk.TruncatedError {
	return &chunk.TruncatedError{Session: c.session, Reason: reason, After: rd.last, FirstSeq: first}
}

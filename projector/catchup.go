package projector

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// catchUp folds the rest of the log onto a snapshot, in as many rounds as it
// takes: a mark may send it back, a clean-up may pull the log away under it.
type catchUp struct {
	*folder

	snap  fold.Snapshot
	floor bool    // the next round begins at the first record after snap that is there
	undo  *undone // what to go on from when going back turns out impossible
	late  bool    // that it did: the log begins late
	marks foreseen
}

// foreseen is what marks take back that were found by reading ahead. Without it:
//  1. the fold meets the first of forty marks whose records were not deleted, and
//     goes back to the beginning of the log for it,
//  2. it meets the second one, which also reaches back beyond the latest step,
//     and goes back for that, knowing no more of the first, which was done with,
//  3. so it goes back for the first one again: eight hundred times in all.
type foreseen struct {
	removed []chunk.OrdinalRange
	through chunk.Ordinal // how far was looked
}

// undone is a mark that sent the fold back to the beginning of the log, and the
// snapshot that it came upon.
type undone struct {
	snap fold.Snapshot
	mark chunk.Record
}

func (c *catchUp) run(ctx context.Context) (fold.Snapshot, error) {
	for range maxRounds {
		c.snap = fold.Foresee(c.snap, c.marks.removed)
		records := c.log.Replay(ctx, c.snap.Session, c.snap.Position)
		if c.floor {
			records = c.log.ReplayFloor(ctx, c.snap.Session, c.snap.Position)
		}
		again, err := c.round(ctx, records)
		if errors.Is(err, chunk.ErrUnknownSession) && c.snap.Position != (chunk.Position{}) {
			return c.snap, nil // the snapshot has outlived the log
		}
		if err != nil {
			err = c.recover(err)
		}
		if err != nil {
			return c.snap, err
		}
		if !again {
			return c.snap, nil
		}
	}
	return c.snap, fmt.Errorf("session %s: no end of going back after %d rounds", c.snap.Session, maxRounds)
}

// round folds one reading of the log. It is to be repeated when a mark sent the
// fold back.
func (c *catchUp) round(ctx context.Context, records iter.Seq2[chunk.Record, error]) (again bool, err error) {
	why := fold.TakenBack
	if c.floor {
		why = fold.Expired // what is missing before the first record, if anything
	}
	for rec, err := range records {
		if err != nil {
			return true, err
		}
		if rec.Ordinal <= c.snap.Position.Ordinal {
			continue
		}
		c.snap = fold.Across(c.snap, rec, why)
		why, c.floor = fold.TakenBack, false
		if c.snap, err = c.step(ctx, c.snap, rec); errors.Is(err, fold.ErrRefold) {
			if c.goBack(ctx, rec, err) {
				return true, nil
			}
			err = c.passMark(c.snap, rec)
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// goBack goes on from where a mark wants it, and reports whether it can. The
// beginning of the log is the one place that may be gone: then the mark is passed.
func (c *catchUp) goBack(ctx context.Context, mark chunk.Record, why error) bool {
	back, ok := errors.AsType[*fold.RefoldError](why)
	toTheBeginning := ok && back.Base.Position == (chunk.Position{})
	if !ok || toTheBeginning && c.late {
		return false
	}
	c.lookAhead(ctx, mark)
	if toTheBeginning && c.undo == nil {
		c.undo = &undone{snap: c.snap, mark: mark}
	}
	c.snap, c.floor = back.Base, false
	return true
}

// lookAhead finds the marks behind one, unless that was found by looking ahead
// itself. A mark of a writer that was overtaken is none. An error is left to who
// folds the log, if he comes so far.
func (c *catchUp) lookAhead(ctx context.Context, mark chunk.Record) {
	if mark.Ordinal <= c.marks.through {
		return
	}
	c.marks.through = mark.Ordinal
	epoch := mark.Epoch
	for rec, err := range c.log.Replay(ctx, mark.Session, mark.Position()) {
		if err != nil {
			return
		}
		if c.stepped != nil {
			c.stepped()
		}
		c.marks.through = rec.Ordinal
		epoch = max(epoch, rec.Epoch)
		if rec.Type != chunk.TypeTruncated || rec.Epoch < epoch {
			continue
		}
		if found, err := rec.Decode(); err == nil {
			if body, ok := found.Body.(chunk.Truncated); ok {
				c.marks.add(body.Removed, rec.Ordinal)
			}
		}
	}
}

// add notes what a mark takes back. It can only speak of what lies before it.
func (f *foreseen) add(removed []chunk.OrdinalRange, mark chunk.Ordinal) {
	for _, r := range removed {
		r.Last = min(r.Last, int64(mark)-1)
		f.removed = append(f.removed, r)
	}
}

// recover decides how to go on when a reading of the log ended early; err when
// not at all.
func (c *catchUp) recover(err error) error {
	begun := c.snap.Position != (chunk.Position{})
	var truncated *chunk.TruncatedError
	if !errors.As(err, &truncated) {
		return err
	}
	switch truncated.Reason {
	case chunk.TruncatedCleanup: // while we read; who comes again sees what it left
		return nil
	case chunk.TruncatedExpired:
		if c.undo != nil && !begun {
			c.late = true
			return c.passMark(c.undo.snap, c.undo.mark)
		}
		return c.across(err)
	case chunk.TruncatedGap:
		// A message that is no record has taken the number of one, or somebody
		// deleted what no mark lists.
		return c.across(err)
	case chunk.TruncatedFuture, chunk.TruncatedForeign, chunk.TruncatedRecreated:
		// The snapshot is of a log that is no more.
		if !begun {
			return err
		}
		c.snap, c.undo, c.late, c.marks = fold.New(c.snap.Session), nil, false, foreseen{}
		return nil
	default:
		return err
	}
}

// across lets the next round begin behind what is missing; err when that has led
// to nothing.
func (c *catchUp) across(err error) error {
	if c.floor {
		return err
	}
	c.floor = true
	return nil
}

// passMark gives up on a mark that reaches back to records which the log no
// longer has: what it took back stays in the snapshot, and the snapshot says so.
func (c *catchUp) passMark(at fold.Snapshot, mark chunk.Record) error {
	s, err := fold.Skip(fold.Across(at, mark, fold.Expired), mark, "it takes back more than the log still has")
	c.snap, c.undo = s, nil
	return err
}

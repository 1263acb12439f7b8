package projector

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// catchUp folds the rest of the log onto a folder. It takes several rounds if a truncated record requires a rollback or a
// concurrent cleanup deletes records.
type catchUp struct {
	*applier

	folder        *fold.Folder
	fromAvailable bool      // the next round starts at the first available record after folder
	fallback      *rollback // where to continue if a rollback turns out to be impossible
	startExpired  bool      // a rollback was impossible because the start of the log has expired
	removals      futureRemovals
}

// futureRemovals is what truncated records remove, found by reading ahead. Without it:
//  1. The fold reaches the first of forty truncated records whose removed records were not deleted, and rolls back to the
//     start of the log.
//  2. It reaches the second one, which also removes records before the latest step, and rolls back again. The removals of the
//     first one are no longer known.
//  3. So it rolls back for the first one again: eight hundred times in all.
type futureRemovals struct {
	removed []chunk.OrdinalRange
	through chunk.Ordinal // the last ordinal that was read ahead
}

// rollback is a truncated record that rolled the fold back to the start of the log, and the snapshot before that.
type rollback struct {
	snap       fold.Snapshot
	truncation chunk.Record
}

func (c *catchUp) run(ctx context.Context) error {
	for range maxCatchUpRounds {
		c.folder.MarkRemoved(c.removals.removed)
		records := c.log.Replay(ctx, chunk.Range{Session: c.folder.Session(), After: c.folder.Position(), Anchor: c.folder.Anchor(), FromOldest: c.fromAvailable})
		repeat, err := c.round(ctx, records)
		if errors.Is(err, chunk.ErrUnknownSession) && c.folder.Position() != (chunk.Position{}) {
			return nil // the log has expired, the snapshot has not
		}
		if err != nil {
			err = c.recover(err)
		}
		if err != nil || !repeat {
			return err
		}
	}
	return fmt.Errorf("session %s: catch-up not finished after %d rounds", c.folder.Session(), maxCatchUpRounds)
}

// round folds one replay of the log. It reports whether another round is needed, because a truncated record rolled the fold
// back.
func (c *catchUp) round(ctx context.Context, records iter.Seq2[chunk.Record, error]) (repeat bool, err error) {
	reason := fold.GapRemoved
	if c.fromAvailable {
		reason = fold.GapExpired // the reason of a gap before the first record
	}
	first := true
	for rec, err := range records {
		if err != nil {
			return true, err
		}
		if first {
			restarted, err := c.hasRestarted(ctx, c.folder, rec)
			if err != nil {
				return false, err
			}
			if restarted {
				reason = fold.GapExpired
			}
			first = false
		}
		if rec.Ordinal <= c.folder.Position().Ordinal && (reason != fold.GapExpired || rec.Seq <= c.folder.Position().Seq) {
			continue
		}
		if c.fallback != nil && c.folder.Position() == (chunk.Position{}) && lacksStart(c.fallback.snap, createdBy(rec)) {
			return true, c.keepFallback()
		}
		c.folder.SkipGap(rec, reason)
		reason, c.fromAvailable = fold.GapRemoved, false
		if err = c.step(ctx, c.folder, rec); errors.Is(err, fold.ErrRefold) {
			if c.rollBack(ctx, rec, err) {
				return true, nil
			}
			err = c.skipTruncation(rec)
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// rollBack continues from the base that a truncated record requires, and reports whether it can. Only the start of the log can
// have expired: then the truncated record is skipped.
func (c *catchUp) rollBack(ctx context.Context, truncation chunk.Record, cause error) bool {
	back, ok := errors.AsType[*fold.RefoldError](cause)
	toStart := ok && back.Base.Position == (chunk.Position{})
	if !ok || toStart && c.startExpired {
		return false
	}
	c.lookAhead(ctx, truncation)
	if toStart && c.fallback == nil {
		c.fallback = &rollback{snap: c.folder.Snapshot(), truncation: truncation}
	}
	c.folder.Reset(back.Base)
	c.fromAvailable = false
	return true
}

// lookAhead finds the truncated records after one, unless an earlier call has read that far. A truncated record of a fenced
// writer is ignored. An error is left to the fold, which may not read that far.
func (c *catchUp) lookAhead(ctx context.Context, truncation chunk.Record) {
	if truncation.Ordinal <= c.removals.through {
		return
	}
	c.removals.through = truncation.Ordinal
	epoch := truncation.Epoch
	for rec, err := range c.log.Replay(ctx, chunk.Range{Session: truncation.Session, After: truncation.Position()}) {
		if err != nil {
			return
		}
		if c.stepped != nil {
			c.stepped()
		}
		c.removals.through = rec.Ordinal
		epoch = max(epoch, rec.Epoch)
		if rec.Type != chunk.TypeTruncated || rec.Epoch < epoch {
			continue
		}
		if body, ok := chunk.BodyOf[chunk.Truncated](rec); ok {
			c.removals.add(body.Removed, rec.Ordinal)
		}
	}
}

// add adds the ordinals that a truncated record removes. It can only remove records before it.
func (f *futureRemovals) add(removed []chunk.OrdinalRange, truncation chunk.Ordinal) {
	for _, r := range removed {
		r.Last = min(r.Last, int64(truncation)-1)
		f.removed = append(f.removed, r)
	}
}

// recover decides how to continue after a replay failed; it returns err if the fold cannot continue.
func (c *catchUp) recover(err error) error {
	started := c.folder.Position() != (chunk.Position{})
	truncated, ok := errors.AsType[*chunk.TruncatedError](err)
	if !ok {
		return err
	}
	switch truncated.Reason {
	case chunk.TruncatedCleanup: // a concurrent cleanup; the next round reads what it left
		return nil
	case chunk.TruncatedExpired:
		if c.fallback != nil && !started {
			return c.keepFallback()
		}
		return c.skipGap(err)
	case chunk.TruncatedGap:
		// A malformed message has used the ordinal of a record, or an operator deleted records that no truncated record lists.
		return c.skipGap(err)
	case chunk.TruncatedFuture, chunk.TruncatedWrongSession, chunk.TruncatedRecreated:
		// The snapshot belongs to a log that was replaced.
		if !started {
			return err
		}
		*c.folder = *fold.New(c.folder.Session())
		c.fallback, c.startExpired, c.removals = nil, false, futureRemovals{}
		return nil
	default:
		return err
	}
}

// keepFallback gives up a rollback to the start of the log, which the log no longer has.
func (c *catchUp) keepFallback() error {
	c.startExpired = true
	c.folder.Reset(c.fallback.snap)
	return c.skipTruncation(c.fallback.truncation)
}

// lacksStart reports whether a fold of the log that began at a time, in milliseconds, has fewer records than a snapshot: the snapshot began earlier. The
// ordinals do not show it if they start again at 1. 0 is an unknown time.
func lacksStart(s fold.Snapshot, began int64) bool { return s.Created != 0 && began > s.Created }

// createdBy returns the time at which a snapshot begins whose first record is rec.
func createdBy(rec chunk.Record) int64 {
	if rec.StoredAt.IsZero() {
		return 0
	}
	return rec.StoredAt.UnixMilli()
}

// skipGap makes the next round start after the missing records. It returns err if the last round did that already.
func (c *catchUp) skipGap(err error) error {
	if c.fromAvailable {
		return err
	}
	c.fromAvailable = true
	return nil
}

// skipTruncation skips a truncated record that removes records which have expired from the log. They stay in the snapshot,
// which records a fault.
func (c *catchUp) skipTruncation(truncation chunk.Record) error {
	c.fallback = nil
	c.folder.SkipGap(truncation, fold.GapExpired)
	return c.folder.Skip(truncation, "it takes back more than the log still has")
}

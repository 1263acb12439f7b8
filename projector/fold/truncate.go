package fold

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// applyTruncation folds a truncated record. If none of the records that it lists was applied, it only explains the gaps before
// it; otherwise the fold must roll back.
func (s Snapshot) applyTruncation(rec chunk.Record, truncation chunk.Truncated) (Snapshot, error) {
	removed := upTo(addRanges(nil, truncation.Removed), int64(rec.Ordinal)-1)
	if !s.next(rec, removed) {
		return s, gap(s.Session, s.Position.Ordinal, rec)
	}
	applied := subtractRanges(upTo(removed, int64(s.Position.Ordinal)), s.removedAhead)
	if len(applied) > 0 {
		return s, &RefoldError{Base: s.rollbackBase(applied[0].First, removed), Truncation: rec.Position()}
	}
	s.link(rec)
	s.moveTo(rec)
	s.removedAhead = subtractRanges(s.removedAhead, removed)
	s.messages.close()
	s.messages.startGeneration(rec.Ordinal)
	// The state before the step may differ between a fold of the whole log and a fold of the remaining records; from here on
	// both are the same.
	s.step = nil
	s.Run.Step = 0
	s.messages.changed = true
	s.finish()
	return s, nil
}

// markRemoved makes s skip records that later truncated records remove, see Folder.MarkRemoved. It consumes s.
func markRemoved(s Snapshot, removed []chunk.OrdinalRange) Snapshot {
	if ahead := after(addRanges(nil, removed), int64(s.Position.Ordinal)); len(ahead) > 0 {
		s.removedAhead = addRanges(s.removedAhead, ahead)
	}
	return s
}

// rollbackBase returns the latest copy in s from before record first, with the records in removed marked as removed.
func (s Snapshot) rollbackBase(first int64, removed []chunk.OrdinalRange) Snapshot {
	var back Snapshot
	switch {
	case s.step != nil && int64(s.step.Position.Ordinal) < first:
		back = s.restore(s.step)
		back.turn = s.turn
	case s.turn != nil && int64(s.turn.Position.Ordinal) < first:
		back = s.restore(s.turn)
		if back.Run.StartSeq != 0 { // else the turn has no run_started record: the next chunk opens it
			back.turn = s.turn
		}
	default:
		back = newSnapshot(s.Session)
	}
	// Keep the records that other truncated records remove. Otherwise two truncated records whose records are still in the log
	// would roll the fold back alternately, without end.
	known := addRanges(s.removedAhead, removed)
	back.removedAhead = addRanges(back.removedAhead, after(known, int64(back.Position.Ordinal)))
	return back
}

func after(set []chunk.OrdinalRange, ordinal int64) []chunk.OrdinalRange {
	return subtractRanges(set, []chunk.OrdinalRange{{First: 1, Last: ordinal}})
}

// restore returns an earlier state with those of its finished messages that are in memory.
func (s Snapshot) restore(b *Snapshot) Snapshot {
	copied := *b // base marks its receiver, and snapshots share b
	back := *copied.base()
	if keep := back.messages.trimmed - s.messages.trimmed; keep >= 0 {
		back.messages.trimmed = s.messages.trimmed
		back.messages.finished = s.messages.finished[:keep:keep]
	}
	return back
}

// base returns a copy of s to roll back to, without the finished messages and without the copies in s.
func (s *Snapshot) base() *Snapshot {
	b := *s
	b.turn, b.step = nil, nil
	b.messages = s.messages.base()
	b.streams = s.streams.base()
	// Gaps ahead are found again by a fold from here; earlier ones are not, and their truncated record is still to come.
	b.removedAhead = upTo(s.removedAhead, int64(s.Position.Ordinal))
	b.Pending = slices.Clone(s.Pending)
	return &b
}

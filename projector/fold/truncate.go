package fold

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// truncate folds a mark. When nothing that it lists was applied it explains the
// holes behind it and that is all; otherwise the fold must go back.
func (s Snapshot) truncate(rec chunk.Record, mark chunk.Truncated) (Snapshot, error) {
	removed := upTo(addRanges(nil, mark.Removed), int64(rec.Ordinal)-1)
	if !s.next(rec, removed) {
		return s, gap(s.Session, s.Position.Ordinal, rec)
	}
	applied := subtractRanges(upTo(removed, int64(s.Position.Ordinal)), s.gone)
	if len(applied) > 0 {
		return s, &RefoldError{Base: s.before(applied[0].First, removed), Mark: rec.Position()}
	}
	s.link(rec)
	s.at(rec)
	s.gone = subtractRanges(s.gone, removed)
	s.messages.close()
	s.messages.startGeneration(rec.Ordinal)
	// The state before the step may differ between who folded the whole and who
	// folded the survivors; from here on both are the same again.
	s.step = nil
	s.Run.Step = 0
	s.messages.changed = true
	s.finish()
	return s, nil
}

// Foresee lets s pass over records that marks further on take back, as who has
// read ahead knows. What s has applied of them is for the marks. It consumes s.
func Foresee(s Snapshot, removed []chunk.OrdinalRange) Snapshot {
	if ahead := beyond(addRanges(nil, removed), int64(s.Position.Ordinal)); len(ahead) > 0 {
		s.gone = addRanges(s.gone, ahead)
	}
	return s
}

// before is the latest snapshot that s still has from before record first,
// knowing that the records in removed are not to be applied.
func (s Snapshot) before(first int64, removed []chunk.OrdinalRange) Snapshot {
	var back Snapshot
	switch {
	case s.step != nil && int64(s.step.Position.Ordinal) < first:
		back = s.restored(s.step)
		back.turn = s.turn
	case s.turn != nil && int64(s.turn.Position.Ordinal) < first:
		back = s.restored(s.turn)
		if back.Run.Started != 0 { // else no record opened the turn: the next chunk does
			back.turn = s.turn
		}
	default:
		back = New(s.Session)
	}
	// What other marks further on take back stays known, or two marks whose
	// records are still in the log would send the fold to and fro for ever.
	known := addRanges(s.gone, removed)
	back.gone = addRanges(back.gone, beyond(known, int64(back.Position.Ordinal)))
	return back
}

func beyond(set []chunk.OrdinalRange, ordinal int64) []chunk.OrdinalRange {
	return subtractRanges(set, []chunk.OrdinalRange{{First: 1, Last: ordinal}})
}

// restored makes an earlier state whole again with the finished messages that s
// still holds of it.
func (s Snapshot) restored(b *Snapshot) Snapshot {
	back := *b.base()
	if keep := back.messages.released - s.messages.released; keep >= 0 {
		back.messages.released = s.messages.released
		back.messages.finished = s.messages.finished[:keep:keep]
	}
	return back
}

// base is a copy of s to go back to: all but the finished messages and the
// copies that s itself has.
func (s *Snapshot) base() *Snapshot {
	b := *s
	b.turn, b.step = nil, nil
	b.messages = s.messages.base()
	b.streams = s.streams.base()
	// Holes ahead are met again by whoever goes on from here; those behind are
	// not, and their mark is still to come.
	b.gone = upTo(s.gone, int64(s.Position.Ordinal))
	b.Pending = slices.Clone(s.Pending)
	b.Faults.Recent = slices.Clone(s.Faults.Recent)
	return &b
}

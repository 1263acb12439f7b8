package fold

import (
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
)

// Apply folds one record onto s and returns the result. It consumes s, except
// when it returns an error other than ErrRefold: then s comes back as it was.
//
// A record at or before the snapshot's position changes nothing, so applying
// one twice is harmless. One that is not the next gives ErrGap, a body that
// cannot be read ErrPoison, a record of another session ErrForeign, a mark that
// takes back what was applied a *RefoldError, and a log that was set back
// ErrRewound. A record of an epoch that
// was overtaken and one of a type that this build does not know move the
// position and nothing else.
func Apply(s Snapshot, rec chunk.Record) (Snapshot, error) {
	if rec.Session != s.Session {
		return s, fmt.Errorf("%w: %s, want %s", ErrForeign, rec.Session, s.Session)
	}
	if s.seen(rec) {
		if rec.Ordinal <= s.Position.Ordinal && rec.Epoch > s.Epoch {
			return s, fmt.Errorf("session %s: record %d has epoch %d, after %d: %w", s.Session, rec.Ordinal, rec.Epoch, s.Epoch, ErrRewound)
		}
		return s, nil
	}
	if rec.Epoch < s.Epoch {
		return s.pass(rec)
	}
	if rec.Type != chunk.TypeTruncated && !s.next(rec, nil) {
		return s, gap(s.Session, s.Position.Ordinal, rec)
	}
	c, err := rec.Decode()
	if err != nil {
		return s, fmt.Errorf("%w: %w", ErrPoison, err)
	}
	if c.Type() != rec.Type {
		return s, fmt.Errorf("%w: it says %q inside and %q outside", ErrPoison, clip(string(c.Type())), clip(string(rec.Type)))
	}
	if mark, ok := c.Body.(chunk.Truncated); ok {
		return s.truncate(rec, mark)
	}
	s.apply(rec, c)
	return s, nil
}

// Skip passes a record that cannot be folded: it is counted and marked in the
// snapshot, and the position moves on. The record must be the next one, else
// the error is ErrGap. It consumes s like Apply.
func Skip(s Snapshot, rec chunk.Record, reason string) (Snapshot, error) {
	if s.seen(rec) {
		return s, nil
	}
	if !s.next(rec, nil) {
		return s, gap(s.Session, s.Position.Ordinal, rec)
	}
	if c, err := rec.Decode(); err == nil {
		if mark, ok := c.Body.(chunk.Truncated); ok { // nothing else will explain what is gone of it
			s.gone = subtractRanges(s.gone, addRanges(nil, mark.Removed))
		}
	}
	s.link(rec)
	s.at(rec)
	s.Faults.Skipped++
	s.fault(rec, reason)
	return s, nil
}

// Hole says why records before one are not in the log.
type Hole int

// The kinds of a hole.
const (
	// TakenBack: a truncated record further on lists them. Who says so has
	// looked ahead, as consumers does.
	TakenBack Hole = iota

	// Expired: the log has let go of them. The snapshot counts them as lost.
	Expired
)

// Across makes rec the next record of s although some before it are not in the
// log, and says why; Apply it then. It consumes s.
func Across(s Snapshot, rec chunk.Record, why Hole) Snapshot {
	if rec.Ordinal <= s.Position.Ordinal+1 || s.next(rec, nil) {
		return s
	}
	hole := chunk.OrdinalRange{First: int64(s.Position.Ordinal) + 1, Last: int64(rec.Ordinal) - 1}
	if why == TakenBack {
		s.gone = addRanges(s.gone, []chunk.OrdinalRange{hole})
		return s
	}
	s.Faults.Lost += hole.Last - hole.First + 1
	s.fault(rec, "records before this one have expired")
	s.Position.Ordinal = rec.Ordinal - 1
	// What follows differs from what a fold of the whole would give, and from a
	// fold that lost less: its messages must not share their keys.
	s.messages.startGeneration(rec.Ordinal)
	s.startChain(rec.Ordinal)
	return s
}

// seen reports whether rec changes nothing: it was applied, or it was taken
// back and is merely still there.
func (s *Snapshot) seen(rec chunk.Record) bool {
	return rec.Ordinal <= s.Position.Ordinal || covers(s.gone, int64(rec.Ordinal), int64(rec.Ordinal))
}

// next reports whether rec follows the snapshot's position: its ordinal is the
// next one, or all in between are known to be gone or among also.
func (s *Snapshot) next(rec chunk.Record, also []chunk.OrdinalRange) bool {
	if rec.Ordinal == s.Position.Ordinal+1 {
		return true
	}
	first, last := int64(s.Position.Ordinal)+1, int64(rec.Ordinal)-1
	if also == nil {
		return covers(s.gone, first, last)
	}
	return covers(addRanges(s.gone, also), first, last)
}

func gap(s chunk.Session, after chunk.Ordinal, rec chunk.Record) error {
	return fmt.Errorf("session %s: record %d after %d: %w", s, rec.Ordinal, after, ErrGap)
}

// pass moves the position over a record that changes nothing.
func (s Snapshot) pass(rec chunk.Record) (Snapshot, error) {
	if !s.next(rec, nil) {
		return s, gap(s.Session, s.Position.Ordinal, rec)
	}
	s.link(rec)
	s.at(rec)
	return s, nil
}

// at moves the position to rec.
func (s *Snapshot) at(rec chunk.Record) {
	s.Position = rec.Position()
	s.Epoch = max(s.Epoch, rec.Epoch)
	s.deleted = false
	if s.Created == 0 {
		s.Created = millis(rec)
	}
}

// millis is when the log stored rec, 0 when it does not say.
func millis(rec chunk.Record) int64 {
	if rec.Stored.IsZero() {
		return 0
	}
	return rec.Stored.UnixMilli()
}

// apply folds the next record, whatever it is but a mark.
func (s *Snapshot) apply(rec chunk.Record, c chunk.Chunk) {
	if _, opaque := c.Body.(chunk.Opaque); opaque {
		s.link(rec)
		s.at(rec)
		return
	}
	if !rec.Type.Control() {
		s.begin(c.Step)
	}
	s.link(rec)
	s.at(rec)
	if s.AgentType == "" {
		s.AgentType = c.AgentType
	}
	if rec.Type.Control() {
		s.control(rec, c.Body)
	} else {
		s.say(rec, c)
	}
	s.finish()
}

// begin notices the first chunk of a turn that no run_started opened, as an
// import may write it, and the first chunk of a step. What the step before said
// is a message of its own, and the snapshot remembers how it stood before all
// this: should the step be taken back, folding goes on from there.
func (s *Snapshot) begin(step int64) {
	switch {
	case s.turn == nil:
		s.turn = s.base()
		s.Status, s.Run.Status = Active, RunRunning
	case step > s.Run.Step:
		s.step = s.base()
	default:
		return
	}
	s.Run.Step = max(s.Run.Step, step)
	s.messages.close()
	s.finish()
}

// finish lets go of messages that are complete. It waits while a hole lies
// behind that no mark has explained yet. Without that:
//  1. a reader of the survivors folds over the hole and finishes message 7,
//  2. a reader of the whole, before the mark, has finished another message 7,
//  3. both are stored under one key, and one of the heads is torn for ever.
func (s *Snapshot) finish() {
	if !s.messages.changed {
		return
	}
	s.messages.changed = false
	if !s.holding() {
		s.messages.finish(0)
	}
}

func (s *Snapshot) holding() bool {
	return len(s.gone) > 0 && s.gone[0].First < int64(s.Position.Ordinal) && len(s.messages.open) < maxHeld
}

// say folds a chunk.
func (s *Snapshot) say(rec chunk.Record, c chunk.Chunk) {
	switch b := c.Body.(type) {
	case chunk.TextDelta:
		s.appendText(rec, textPart, b.Delta)
	case chunk.Thinking:
		s.think(rec, b)
	case chunk.ToolArgStreamStart, chunk.ToolArgStreamDelta, chunk.ToolStart, chunk.ToolEnd,
		chunk.ToolInputError, chunk.ToolOutputError, chunk.ToolApprovalRequest, chunk.ToolApprovalResponse:
		s.sayTool(rec, c)
	case chunk.SubagentStart, chunk.SubagentEnd:
		s.sayChild(rec, b)
	case chunk.Custom:
		s.sayCustom(rec, b)
	case chunk.File:
		s.closeText()
		s.appendRaw(rec, appendFile(nil, b.URL, b.MediaType, b.Filename))
	case chunk.SourceURL:
		s.closeText()
		s.appendRaw(rec, appendSourceURL(nil, b))
	case chunk.SourceDocument:
		s.closeText()
		s.appendRaw(rec, appendSourceDocument(nil, b))
	case chunk.StatePatch:
		s.patch(rec, b)
	default:
		s.sayRun(rec, c)
	}
}

// IsPermanent reports whether err is about the record itself, so that trying
// again gives the same: the record is to be passed with Skip.
func IsPermanent(err error) bool { return errors.Is(err, ErrPoison) }

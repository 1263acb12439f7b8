package fold

import (
	"fmt"

	"github.com/tailrace/tailrace/chunk"
)

// applyRecord folds one record onto s and returns the result, see Folder.Apply. It consumes s, except if it returns an error:
// then it returns s unchanged.
func applyRecord(s Snapshot, rec chunk.Record) (Snapshot, error) {
	before := s.SessionBytes
	s, err := s.applyNext(rec)
	if err == nil {
		s.boundOpen(before)
	}
	return s, err
}

func (s Snapshot) applyNext(rec chunk.Record) (Snapshot, error) {
	if rec.Session != s.Session {
		return s, fmt.Errorf("%w: %s, want %s", ErrWrongSession, rec.Session, s.Session)
	}
	switch {
	case !s.isApplied(rec):
	case rec.Ordinal <= s.Position.Ordinal && rec.Epoch > s.Epoch:
		return s, fmt.Errorf("session %s: record %d has epoch %d, after %d: %w", s.Session, rec.Ordinal, rec.Epoch, s.Epoch, ErrLogRolledBack)
	case s.reusesOrdinal(rec):
		return s, gap(s.Session, s.Position.Ordinal, rec)
	default:
		return s, nil
	}
	if rec.Epoch < s.Epoch {
		return s.skip(rec)
	}
	if rec.Type != chunk.TypeTruncated && !s.next(rec, nil) {
		return s, gap(s.Session, s.Position.Ordinal, rec)
	}
	c, err := rec.Decode()
	if err != nil {
		return s, fmt.Errorf("%w: %w", ErrInvalidRecord, err)
	}
	if c.Type() != rec.Type {
		return s, fmt.Errorf("%w: it says %q inside and %q outside", ErrInvalidRecord, clip(string(c.Type())), clip(string(rec.Type)))
	}
	if truncation, ok := c.Body.(chunk.Truncated); ok {
		return s.applyTruncation(rec, truncation)
	}
	if failed, ok := c.Body.(chunk.StreamFailed); ok && (s.deleted || s.Position.Seq == 0) && failed.ErrorDetail.IsDeletion() {
		// The log has nothing else of the session, or the session was deleted before: with the record alone it would be a session that failed.
		return NewTombstone(s.Session, rec.Position(), rec.Epoch), nil
	}
	if s.WasDeleted() {
		s = NewTombstone(s.Session, s.Position, s.Epoch)
	}
	switch b := c.Body.(type) {
	case chunk.SessionSeed:
		return s.applySeed(rec, c.AgentType, b)
	case chunk.SessionForked:
		return s.applyForked(rec, c.AgentType, b)
	}
	s.apply(rec, c)
	return s, nil
}

// skipRecord skips a record that cannot be folded, see Folder.Skip. It consumes s like applyRecord.
func skipRecord(s Snapshot, rec chunk.Record, reason string) (Snapshot, error) {
	if s.isApplied(rec) && !s.reusesOrdinal(rec) {
		return s, nil
	}
	before := s.SessionBytes
	s, err := s.skip(rec)
	if err != nil {
		return s, err
	}
	if truncation, ok := chunk.BodyOf[chunk.Truncated](rec); ok { // no later record explains the records that it removes
		s.removedAhead = subtractRanges(s.removedAhead, addRanges(nil, truncation.Removed))
	}
	s.Faults.Skipped++
	s.fault(rec, reason)
	s.boundOpen(before)
	return s, nil
}

// GapReason is the reason why records are missing from the log.
type GapReason int

// The reasons of a gap.
const (
	// GapRemoved: a later truncated record lists them. The caller has read ahead, as consumers does.
	GapRemoved GapReason = iota

	// GapExpired: the log has deleted them, and has nothing before the record. The snapshot counts the ordinals that are missing as lost. If the record has
	// an ordinal that the snapshot contains, or an earlier epoch, its writer did not know the expired records and has numbered from the start: the
	// snapshot keeps its content, and continues with the record.
	GapExpired
)

// skipGap makes rec the next record of s, see Folder.SkipGap. It consumes s.
func skipGap(s Snapshot, rec chunk.Record, why GapReason) Snapshot {
	if why == GapExpired && rec.Seq > s.Position.Seq && (rec.Ordinal <= s.Position.Ordinal || rec.Epoch < s.Epoch) {
		s.restart(rec)
		return s
	}
	if rec.Ordinal <= s.Position.Ordinal+1 || s.next(rec, nil) {
		return s
	}
	missing := chunk.OrdinalRange{First: int64(s.Position.Ordinal) + 1, Last: int64(rec.Ordinal) - 1}
	if why == GapRemoved {
		s.removedAhead = addRanges(s.removedAhead, []chunk.OrdinalRange{missing})
		return s
	}
	s.Faults.Lost += missing.Last - missing.First + 1
	s.fault(rec, "records before this one have expired")
	s.Position.Ordinal = rec.Ordinal - 1
	// The rest differs from a fold of the whole log, and from a fold that lost fewer records: its messages must not share keys
	// with theirs.
	s.messages.startGeneration(rec.Ordinal)
	s.startChain(rec.Ordinal)
	return s
}

// restart makes rec the next record although its writer has numbered it without knowledge of the records of s, which have all expired. Nothing can remove the
// messages of s any more, because a truncated record of that writer lists ordinals of its own records: they are finished, and a rollback ends here.
func (s *Snapshot) restart(rec chunk.Record) {
	const generation = 1 << 39 // above all ordinals, so that no truncated record starts the same generation
	h := &s.messages
	h.close()
	h.finish(h.count())
	h.beginTurn()
	h.startGeneration(generation | chunk.Ordinal(rec.Seq))
	s.streams.beginTurn()
	s.Pending, s.removedAhead, s.turn, s.step, s.stepStart = nil, nil, nil, nil, false
	s.Run.Step = 0
	s.Faults.Lost += int64(rec.Ordinal) - 1
	s.fault(rec, "the ordinals start again: all records before this one have expired")
	s.startChain(rec.Ordinal)
	s.Position.Ordinal, s.Epoch = rec.Ordinal-1, min(s.Epoch, rec.Epoch)
}

// reusesOrdinal reports whether rec was stored after the position with an ordinal that the snapshot contains. It is not a repetition: without this check
//  1. all 285 records of a session expire,
//  2. a writer that does not know them starts again at ordinal 1,
//  3. its first 285 records change nothing, and the snapshot has only the rest.
func (s *Snapshot) reusesOrdinal(rec chunk.Record) bool {
	return rec.Ordinal <= s.Position.Ordinal && rec.Seq > s.Position.Seq
}

// isApplied reports whether rec changes nothing: it was applied, or it was removed and has not been deleted from the log.
func (s *Snapshot) isApplied(rec chunk.Record) bool {
	return rec.Ordinal <= s.Position.Ordinal || covers(s.removedAhead, int64(rec.Ordinal), int64(rec.Ordinal))
}

// next reports whether rec follows the position of the snapshot: its ordinal is the next one, or all ordinals in between are
// known to be removed, or are in also.
func (s *Snapshot) next(rec chunk.Record, also []chunk.OrdinalRange) bool {
	if rec.Ordinal == s.Position.Ordinal+1 {
		return true
	}
	first, last := int64(s.Position.Ordinal)+1, int64(rec.Ordinal)-1
	if also == nil {
		return covers(s.removedAhead, first, last)
	}
	return covers(addRanges(s.removedAhead, also), first, last)
}

func gap(s chunk.Session, after chunk.Ordinal, rec chunk.Record) error {
	return fmt.Errorf("session %s: record %d after %d: %w", s, rec.Ordinal, after, ErrGap)
}

// skip advances the position past a record that changes nothing.
func (s Snapshot) skip(rec chunk.Record) (Snapshot, error) {
	if !s.next(rec, nil) {
		return s, gap(s.Session, s.Position.Ordinal, rec)
	}
	s.link(rec)
	s.moveTo(rec)
	return s, nil
}

// moveTo sets the position to rec.
func (s *Snapshot) moveTo(rec chunk.Record) {
	s.Position, s.Anchor, s.SessionBytes = rec.Position(), rec.Anchor(), rec.SessionBytes
	s.Epoch = max(s.Epoch, rec.Epoch)
	s.deleted = false
	if s.Created == 0 {
		s.Created = millis(rec)
	}
}

// millis returns the time at which the log stored rec, 0 if it is unknown.
func millis(rec chunk.Record) int64 {
	if rec.StoredAt.IsZero() {
		return 0
	}
	return rec.StoredAt.UnixMilli()
}

// apply folds the next record, which is not a truncated record.
func (s *Snapshot) apply(rec chunk.Record, c chunk.Chunk) {
	if _, opaque := c.Body.(chunk.Opaque); opaque {
		s.link(rec)
		s.moveTo(rec)
		return
	}
	if !rec.Type.Control() {
		s.begin(c.Step)
	}
	s.link(rec)
	s.moveTo(rec)
	if s.AgentType == "" {
		s.AgentType = c.AgentType
	}
	if rec.Type.Control() {
		s.control(rec, c.Body)
	} else {
		s.applyChunk(rec, c)
	}
	s.finish()
}

// begin handles the first chunk of a turn without a run_started record, which an import may write, and the first chunk of a
// step. The output of the previous step is a message of its own. The snapshot keeps a copy of its state before the step: if the
// step is removed, the fold continues from there.
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

// finish moves complete messages out of the head. It waits while a gap before the position is unexplained. Without that:
//  1. A reader of the remaining records skips the gap and finishes message 7.
//  2. A reader of the whole log, before the truncated record, has finished a different message 7.
//  3. Both are stored under one key, and one of the heads stays inconsistent.
func (s *Snapshot) finish() {
	if !s.messages.changed {
		return
	}
	s.messages.changed = false
	if !s.mustDefer() {
		s.messages.finish(0)
	}
}

func (s *Snapshot) mustDefer() bool {
	return len(s.removedAhead) > 0 && s.removedAhead[0].First < int64(s.Position.Ordinal) && len(s.messages.open) < maxDeferred
}

// applyChunk folds a chunk that is not a control record.
func (s *Snapshot) applyChunk(rec chunk.Record, c chunk.Chunk) {
	switch b := c.Body.(type) {
	case chunk.TextDelta:
		s.appendText(rec, textPart, b.Delta, chunk.PartOf(c.Extra))
	case chunk.Thinking:
		s.think(rec, b, chunk.PartOf(c.Extra))
	case chunk.ToolArgStreamStart, chunk.ToolArgStreamDelta, chunk.ToolStart, chunk.ToolEnd,
		chunk.ToolInputError, chunk.ToolOutputError, chunk.ToolApprovalRequest, chunk.ToolApprovalResponse:
		s.applyTool(rec, c)
	case chunk.SubagentStart, chunk.SubagentEnd:
		s.applyChild(rec, b)
	case chunk.Custom:
		s.applyCustom(rec, b, chunk.PartOf(c.Extra))
	case chunk.File:
		s.closeText()
		s.appendRaw(rec, appendFile(nil, b.URL, b.MediaType, b.Filename, chunk.PartOf(c.Extra)))
	case chunk.SourceURL:
		s.closeText()
		s.appendRaw(rec, appendSourceURL(nil, b, chunk.PartOf(c.Extra)))
	case chunk.SourceDocument:
		s.closeText()
		s.appendRaw(rec, appendSourceDocument(nil, b, chunk.PartOf(c.Extra)))
	case chunk.StatePatch:
		s.patch(rec, b)
	default:
		s.applyRun(rec, c)
	}
}

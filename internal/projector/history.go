package projector

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// SnapshotAt returns the complete fold of s through the last record at or before a sequence, as Snapshot returned it at that
// time, without the records that cleanups have deleted since. It starts from the stored head if that lies at or before the
// sequence; otherwise it folds the log from its first record, which takes long for a long session and ends with ctx. Errors,
// besides those of Snapshot: chunk.ErrUnknownSession if the session started later; a *chunk.TruncatedError if the log starts
// too late. SnapshotAt does not check whether the log has reached the sequence.
func (r *Reader) SnapshotAt(ctx context.Context, s chunk.Session, seq chunk.Seq) (fold.Snapshot, error) {
	snap, err := r.snapshotAt(ctx, s, seq)
	return snap, r.exceptDeleted(ctx, s, err)
}

func (r *Reader) snapshotAt(ctx context.Context, s chunk.Session, seq chunk.Seq) (fold.Snapshot, error) {
	head, _, err := r.load(ctx, s)
	if err != nil {
		return fold.Snapshot{}, err
	}
	p := &boundedLog{log: r.log, isBeyond: func(rec chunk.Record) bool { return rec.Seq > seq }}
	base := head
	switch {
	case head.Position.Seq <= seq:
	case head.Deleted():
		return fold.Snapshot{}, fmt.Errorf("session %s, deleted since: %w", s, chunk.ErrUnknownSession)
	default:
		base = fold.New(s).Snapshot()
	}
	snap, err := r.foldPrefix(ctx, p, base)
	expired := errors.Is(err, chunk.ErrUnknownSession) && !p.reachedEnd || err == nil && lacksStart(head, snap.Created)
	if expired && head.Position.Seq > seq {
		err = errExpired(s) // the log has expired, or started again, and the stored head has not
	}
	return snap, err
}

// SnapshotAtBoundary is SnapshotAt for the last point at or before a cursor at which another session can continue this one: after the end or a pause of a run, after
// a committed step, or before a message of a user. The status of the snapshot is fold.Active after a step. The cursor is one of the session or of its tree; the error
// is a *chunk.TruncatedError if the session has another record there. A session without such a point is empty.
func (r *Reader) SnapshotAtBoundary(ctx context.Context, s chunk.Session, at chunk.Cursor) (fold.Snapshot, error) {
	snap, err := r.SnapshotAt(ctx, s, at.Seq)
	switch {
	case err != nil:
		return snap, err
	case snap.Position.Seq == at.Seq && at.Anchor != 0 && snap.Anchor != 0 && at.Anchor != snap.Anchor:
		return snap, &chunk.TruncatedError{Session: s, Reason: chunk.TruncatedRecreated, After: at.Seq}
	case snap.Status != fold.Active:
		return snap, nil
	}
	start := snap.TurnStart()
	last := start.Seq - min(1, start.Seq)
	if snap.TurnRun().Status == fold.RunInterrupted {
		last = start.Seq // the turn continues that of another session
	}
	for rec, err := range r.log.Replay(ctx, chunk.Range{Session: s, After: start}) {
		if err != nil {
			return snap, err
		}
		if rec.Seq > at.Seq {
			break
		}
		if rec.Type == chunk.TypeStepCommitted || rec.Type == chunk.TypeStreamPaused {
			last = rec.Seq
		}
	}
	if last < start.Seq && start.Ordinal <= 1 {
		empty := fold.New(s).Snapshot()
		empty.AgentType = snap.AgentType
		return empty, nil
	}
	return r.SnapshotAt(ctx, s, last)
}

// SnapshotAtCheckpoint returns the fold of s through the record that saved a checkpoint, the first one if there are several. It
// folds the log from its first record. Errors, besides those of SnapshotAt: chunk.ErrUnknownCheckpoint.
func (r *Reader) SnapshotAtCheckpoint(ctx context.Context, s chunk.Session, id string) (fold.Snapshot, error) {
	snap, err := r.snapshotAtCheckpoint(ctx, s, id)
	return snap, r.exceptDeleted(ctx, s, err)
}

// exceptDeleted returns err. For records that have expired it is chunk.ErrUnknownSession if the log has only the deletion record, and the store no tombstone.
func (r *Reader) exceptDeleted(ctx context.Context, s chunk.Session, err error) error {
	if errors.Is(err, chunk.ErrTruncated) {
		if _, now := r.Head(ctx, s); errors.Is(now, chunk.ErrUnknownSession) {
			return now
		}
	}
	return err
}

func (r *Reader) snapshotAtCheckpoint(ctx context.Context, s chunk.Session, id string) (fold.Snapshot, error) {
	head, _, err := r.load(ctx, s)
	if err != nil {
		return fold.Snapshot{}, err
	}
	if head.Deleted() {
		return r.foldToCheckpoint(ctx, head, id)
	}
	snap, err := r.foldToCheckpoint(ctx, fold.New(s).Snapshot(), id)
	if err == nil && lacksStart(head, snap.Created) {
		err = errExpired(s)
	}
	if !errors.Is(err, chunk.ErrTruncated) && !errors.Is(err, chunk.ErrUnknownSession) || head.Position == (chunk.Position{}) {
		return snap, err
	}
	// The start of the log has expired. The checkpoint may still follow the stored head.
	if snap, err = r.foldToCheckpoint(ctx, head, id); errors.Is(err, chunk.ErrUnknownCheckpoint) {
		err = errExpired(s) // or it never existed: that cannot be decided any more
	}
	return snap, err
}

func (r *Reader) foldToCheckpoint(ctx context.Context, base fold.Snapshot, id string) (fold.Snapshot, error) {
	p := &boundedLog{log: r.log, isLast: func(rec chunk.Record) bool { return isCheckpoint(rec, id) }}
	snap, err := r.foldPrefix(ctx, p, base)
	if err == nil && !p.reachedEnd {
		err = fmt.Errorf("session %s: %w", base.Session, chunk.ErrUnknownCheckpoint)
	}
	return snap, err
}

// isCheckpoint reports whether rec saved the checkpoint id. Records that return to a checkpoint do not count.
func isCheckpoint(rec chunk.Record, id string) bool {
	switch rec.Type {
	case chunk.TypeCheckpointCreated, chunk.TypeStepCommitted, chunk.TypeRunInterrupted:
	default:
		return false
	}
	c, err := rec.Decode()
	if err != nil {
		return false
	}
	switch b := c.Body.(type) {
	case chunk.CheckpointCreated:
		return b.CheckpointID == id
	case chunk.StepCommitted:
		return b.CheckpointID == id
	case chunk.RunInterrupted:
		return b.CheckpointID != nil && *b.CheckpointID == id
	}
	return false
}

// foldPrefix folds a prefix of the log onto base and attaches the finished messages.
func (r *Reader) foldPrefix(ctx context.Context, p *boundedLog, base fold.Snapshot) (fold.Snapshot, error) {
	snap, err := r.complete(ctx, p, base)
	if errors.Is(err, fold.ErrInconsistent) {
		snap, err = r.complete(ctx, p, fold.New(base.Session).Snapshot())
		if err == nil && lacksStart(base, snap.Created) {
			err = errExpired(base.Session)
		}
	}
	if err == nil && snap.Position == (chunk.Position{}) {
		err = fmt.Errorf("session %s, at that time: %w", base.Session, chunk.ErrUnknownSession)
	}
	return snap, err
}

// boundedLog is a log as it was at an earlier time. It does not skip records that have expired since, because the result would
// differ from the state at that time. A gap existed at that time too.
type boundedLog struct {
	log        Log
	isBeyond   func(rec chunk.Record) bool // whether rec is after the end; may be nil
	isLast     func(rec chunk.Record) bool // whether rec is the end; may be nil
	reachedEnd bool                        // the latest replay reached the end
	gap        bool                        // the latest replay ended at a gap
}

func (p *boundedLog) Replay(ctx context.Context, of chunk.Range) iter.Seq2[chunk.Record, error] {
	if of.FromOldest && !p.gap {
		return func(yield func(chunk.Record, error) bool) { yield(chunk.Record{}, errExpired(of.Session)) }
	}
	return p.bound(p.log.Replay(ctx, of))
}

func (p *boundedLog) bound(records iter.Seq2[chunk.Record, error]) iter.Seq2[chunk.Record, error] {
	return func(yield func(chunk.Record, error) bool) {
		p.reachedEnd, p.gap = false, false
		for rec, err := range records {
			truncated, ok := errors.AsType[*chunk.TruncatedError](err)
			p.gap = ok && truncated.Reason == chunk.TruncatedGap
			if err == nil && p.isBeyond != nil && p.isBeyond(rec) {
				p.reachedEnd = true
				return
			}
			if !yield(rec, err) {
				return
			}
			if err == nil && p.isLast != nil && p.isLast(rec) {
				p.reachedEnd = true
				return
			}
		}
	}
}

func errExpired(s chunk.Session) error {
	return &chunk.TruncatedError{Session: s, Reason: chunk.TruncatedExpired}
}

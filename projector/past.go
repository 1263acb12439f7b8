package projector

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// At is the fold of s through the last record at or before a sequence, complete,
// as Snapshot gave it then. What a clean-up has deleted since is not in it. The
// stored head is where it begins if it lies before the sequence, else it folds
// the log from its first record: a long work for a long session, which ends with
// ctx. Errors, beside those of Snapshot: chunk.ErrUnknownSession when the session
// began later; a *chunk.TruncatedError when the log does not reach back so far.
// It does not look whether the log has come to the sequence yet.
func (r *Reader) At(ctx context.Context, s chunk.Session, seq chunk.Seq) (fold.Snapshot, error) {
	head, err := r.head(ctx, s)
	if err != nil {
		return fold.Snapshot{}, err
	}
	p := &prefix{log: r.log, over: func(rec chunk.Record) bool { return rec.Seq > seq }}
	base := head
	switch {
	case head.Position.Seq <= seq:
	case head.Deleted():
		return fold.Snapshot{}, fmt.Errorf("session %s, deleted since: %w", s, chunk.ErrUnknownSession)
	default:
		base = fold.New(s)
	}
	snap, err := r.past(ctx, p, base)
	if errors.Is(err, chunk.ErrUnknownSession) && head.Position.Seq > seq && !p.ended {
		err = expired(s) // the log has forgotten a session that the store knows
	}
	return snap, err
}

// Checkpoint is the fold of s through the record that says that a checkpoint was
// saved, the first if there are several. It folds the log from its first record.
// Errors, beside those of At: chunk.ErrUnknownCheckpoint.
func (r *Reader) Checkpoint(ctx context.Context, s chunk.Session, id string) (fold.Snapshot, error) {
	head, err := r.head(ctx, s)
	if err != nil {
		return fold.Snapshot{}, err
	}
	if head.Deleted() {
		return r.pastCheckpoint(ctx, head, id)
	}
	snap, err := r.pastCheckpoint(ctx, fold.New(s), id)
	if !errors.Is(err, chunk.ErrTruncated) && !errors.Is(err, chunk.ErrUnknownSession) || head.Position == (chunk.Position{}) {
		return snap, err
	}
	// The log begins late. The checkpoint may still lie behind the stored head.
	if snap, err = r.pastCheckpoint(ctx, head, id); errors.Is(err, chunk.ErrUnknownCheckpoint) {
		err = expired(s) // or it never was: nobody knows any more
	}
	return snap, err
}

func (r *Reader) pastCheckpoint(ctx context.Context, base fold.Snapshot, id string) (fold.Snapshot, error) {
	p := &prefix{log: r.log, last: func(rec chunk.Record) bool { return saves(rec, id) }}
	snap, err := r.past(ctx, p, base)
	if err == nil && !p.ended {
		err = fmt.Errorf("session %s: %w", base.Session, chunk.ErrUnknownCheckpoint)
	}
	return snap, err
}

// saves reports whether a record says that the checkpoint was saved. Records that
// go back to one do not.
func saves(rec chunk.Record, id string) bool {
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

// past folds a prefix of the log onto base and adds what base misses.
func (r *Reader) past(ctx context.Context, p *prefix, base fold.Snapshot) (fold.Snapshot, error) {
	snap, err := r.complete(ctx, p, base)
	if errors.Is(err, fold.ErrTorn) {
		snap, err = r.complete(ctx, p, fold.New(base.Session))
	}
	if err == nil && snap.Position == (chunk.Position{}) {
		err = fmt.Errorf("session %s, at that time: %w", base.Session, chunk.ErrUnknownSession)
	}
	return snap, err
}

// prefix is a log as it was at some time. What has expired since it does not pass
// over: a state that lacks the beginning is not the one that there was. A gap was
// there then.
type prefix struct {
	log   Log
	over  func(rec chunk.Record) bool // rec is beyond the end; may be nil
	last  func(rec chunk.Record) bool // rec is the end; may be nil
	ended bool                        // the latest reading found the end
	gap   bool                        // it ended at a gap
}

func (p *prefix) Replay(ctx context.Context, s chunk.Session, after chunk.Position) iter.Seq2[chunk.Record, error] {
	return p.cut(p.log.Replay(ctx, s, after))
}

func (p *prefix) ReplayFloor(ctx context.Context, s chunk.Session, after chunk.Position) iter.Seq2[chunk.Record, error] {
	if p.gap {
		return p.cut(p.log.ReplayFloor(ctx, s, after))
	}
	return func(yield func(chunk.Record, error) bool) { yield(chunk.Record{}, expired(s)) }
}

func (p *prefix) cut(records iter.Seq2[chunk.Record, error]) iter.Seq2[chunk.Record, error] {
	return func(yield func(chunk.Record, error) bool) {
		p.ended, p.gap = false, false
		for rec, err := range records {
			truncated, ok := errors.AsType[*chunk.TruncatedError](err)
			p.gap = ok && truncated.Reason == chunk.TruncatedGap
			if err == nil && p.over != nil && p.over(rec) {
				p.ended = true
				return
			}
			if !yield(rec, err) {
				return
			}
			if err == nil && p.last != nil && p.last(rec) {
				p.ended = true
				return
			}
		}
	}
}

func expired(s chunk.Session) error {
	return &chunk.TruncatedError{Session: s, Reason: chunk.TruncatedExpired}
}

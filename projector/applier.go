package projector

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// applier folds records onto a snapshot in whatever order they arrive: it reads missing records from the log, rolls back when a
// truncated record requires it, and skips invalid records.
type applier struct {
	log replayer

	// skipped, if not nil, is called for each record that is skipped. If it fails, the fold ends with its error and can be
	// retried.
	skipped func(ctx context.Context, rec chunk.Record, reason string) error

	// stepped, if not nil, is called after each record.
	stepped func()

	// applied, if not nil, is called for each record that changed the snapshot.
	applied func(t chunk.Type)
}

// maxCatchUpRounds bounds the rounds of one catch-up. Truncated records in the log cause a few rollbacks, and each concurrent
// cleanup causes one.
const maxCatchUpRounds = 1000

// apply folds one delivered record. Afterwards the snapshot is at the record or later.
func (f *applier) apply(ctx context.Context, s fold.Snapshot, rec chunk.Record) (fold.Snapshot, error) {
	next, err := f.step(ctx, s, rec)
	switch {
	case err == nil:
		return next, nil
	case errors.Is(err, fold.ErrRefold):
		c := catchUp{applier: f, snap: next}
		c.rollBack(ctx, rec, err)
		return c.run(ctx)
	case errors.Is(err, fold.ErrLogRolledBack):
		return f.catchUp(ctx, fold.New(rec.Session))
	case errors.Is(err, fold.ErrGap):
		return f.fillGap(ctx, next, rec)
	}
	return next, err
}

// fillGap reads the records before rec. If the log has an unexplained gap, for example because two messages have the same
// ordinal, the fold continues with rec.
func (f *applier) fillGap(ctx context.Context, s fold.Snapshot, rec chunk.Record) (fold.Snapshot, error) {
	s, err := f.catchUp(ctx, s)
	var truncated *chunk.TruncatedError
	if errors.As(err, &truncated) && truncated.Reason == chunk.TruncatedGap {
		s = fold.SkipGap(s, rec, fold.GapExpired)
		return f.apply(ctx, s, rec)
	}
	if err == nil && s.Position.Ordinal < rec.Ordinal {
		// A lagging replica delivered rec and does not have it.
		err = fmt.Errorf("session %s: the log ends at record %d, but %d was delivered", s.Session, s.Position.Ordinal, rec.Ordinal)
	}
	return s, err
}

// step applies one record, or skips it if it is invalid.
func (f *applier) step(ctx context.Context, s fold.Snapshot, rec chunk.Record) (fold.Snapshot, error) {
	if f.stepped != nil {
		defer f.stepped()
	}
	before := s.Position
	s, err := fold.Apply(s, rec)
	switch {
	case fold.IsPermanent(err):
		return f.skip(ctx, s, rec, err.Error())
	case err == nil && s.Position != before && f.applied != nil:
		f.applied(rec.Type)
	}
	return s, err
}

// skip reports a record and then skips it. The other order would lose the report of a record whose dead letter could not be
// written: it would be skipped already when the session is retried.
func (f *applier) skip(ctx context.Context, s fold.Snapshot, rec chunk.Record, reason string) (fold.Snapshot, error) {
	if f.skipped != nil {
		if err := f.skipped(ctx, rec, reason); err != nil {
			return s, err
		}
	}
	return fold.Skip(s, rec, reason)
}

// catchUp folds the log after s to its current end. It returns chunk.ErrUnknownSession if both s and the log are empty.
func (f *applier) catchUp(ctx context.Context, s fold.Snapshot) (fold.Snapshot, error) {
	c := catchUp{applier: f, snap: s}
	return c.run(ctx)
}

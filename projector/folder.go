package projector

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// folder folds records onto a snapshot, whatever comes: it reads what is
// missing from the log, goes back where a mark says so, and passes what cannot
// be read.
type folder struct {
	log replays

	// skipped is called for each record that is passed, when not nil. With its
	// error the fold ends, to be tried again.
	skipped func(ctx context.Context, rec chunk.Record, reason string) error

	// stepped is called after each record, when not nil.
	stepped func()

	// applied is called for each record that changed the snapshot, when not nil.
	applied func(t chunk.Type)
}

// maxRounds bounds how often one catch-up starts over. The marks in the log send
// it back a few times, and each clean-up that runs at the same time once.
const maxRounds = 1000

// apply folds one delivered record. Afterwards the snapshot is at the record or
// beyond it.
func (f *folder) apply(ctx context.Context, s fold.Snapshot, rec chunk.Record) (fold.Snapshot, error) {
	next, err := f.step(ctx, s, rec)
	switch {
	case err == nil:
		return next, nil
	case errors.Is(err, fold.ErrRefold):
		c := catchUp{folder: f, snap: next}
		c.goBack(ctx, rec, err)
		return c.run(ctx)
	case errors.Is(err, fold.ErrRewound):
		return f.catchUp(ctx, fold.New(rec.Session))
	case errors.Is(err, fold.ErrGap):
		return f.fillGap(ctx, next, rec)
	}
	return next, err
}

// fillGap reads what is missing before rec. Where the log cannot be read at all,
// as when a number was given out twice, rec is what goes on.
func (f *folder) fillGap(ctx context.Context, s fold.Snapshot, rec chunk.Record) (fold.Snapshot, error) {
	s, err := f.catchUp(ctx, s)
	var truncated *chunk.TruncatedError
	if errors.As(err, &truncated) && truncated.Reason == chunk.TruncatedGap {
		s = fold.Across(s, rec, fold.Expired)
		return f.apply(ctx, s, rec)
	}
	if err == nil && s.Position.Ordinal < rec.Ordinal {
		// A replica that lags: it delivered rec and does not have it.
		err = fmt.Errorf("session %s: the log ends at record %d, but %d was delivered", s.Session, s.Position.Ordinal, rec.Ordinal)
	}
	return s, err
}

// step applies one record, or passes it when it cannot be read.
func (f *folder) step(ctx context.Context, s fold.Snapshot, rec chunk.Record) (fold.Snapshot, error) {
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

// skip passes a record and says so first: were it the other way round, a record
// whose letter could not be written would be passed already when it is tried
// again.
func (f *folder) skip(ctx context.Context, s fold.Snapshot, rec chunk.Record, reason string) (fold.Snapshot, error) {
	if f.skipped != nil {
		if err := f.skipped(ctx, rec, reason); err != nil {
			return s, err
		}
	}
	return fold.Skip(s, rec, reason)
}

// catchUp folds the log after s to its present end. It is
// chunk.ErrUnknownSession when neither s nor the log knows anything.
func (f *folder) catchUp(ctx context.Context, s fold.Snapshot) (fold.Snapshot, error) {
	c := catchUp{folder: f, snap: s}
	return c.run(ctx)
}

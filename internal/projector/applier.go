package projector

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// applier folds records in whatever order they arrive: it reads missing records from the log, rolls back when a
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

// apply folds one delivered record. Afterwards the folder is at the record or later.
func (a *applier) apply(ctx context.Context, f *fold.Folder, rec chunk.Record) error {
	if expired, err := a.hasExpired(ctx, f, rec); err != nil || expired {
		return err
	}
	restarted, err := a.hasRestarted(ctx, f, rec)
	if err == nil && !restarted {
		err = a.step(ctx, f, rec)
	}
	switch {
	case restarted:
		return a.catchUp(ctx, f)
	case errors.Is(err, fold.ErrRefold):
		c := catchUp{applier: a, folder: f}
		c.rollBack(ctx, rec, err)
		return c.run(ctx)
	case errors.Is(err, fold.ErrLogRolledBack), errors.Is(err, fold.ErrGap) && rec.Ordinal <= f.Position().Ordinal:
		return a.resolveReuse(ctx, f, rec, errors.Is(err, fold.ErrLogRolledBack))
	case errors.Is(err, fold.ErrGap):
		return a.fillGap(ctx, f, rec)
	}
	return err
}

// hasExpired reports whether rec was stored before the position of f, and the log does not have it any more. Its ordinal does not show that:
//  1. the records 2 to 12 are in flight to this process, whose f is at record 1,
//  2. they expire, and a writer that knows only the saved record 1 writes other records 2 to 8, which arrive and are folded,
//  3. the earlier record 9 arrives: it is the next one of f by its ordinal alone.
func (a *applier) hasExpired(ctx context.Context, f *fold.Folder, rec chunk.Record) (bool, error) {
	at := f.Position()
	if rec.Seq > at.Seq || rec.Ordinal <= at.Ordinal {
		return false, nil
	}
	first, err := a.first(ctx, rec.Session)
	switch {
	case errors.Is(err, chunk.ErrUnknownSession):
		return true, nil
	case errors.Is(err, chunk.ErrTruncated):
		return false, nil // an earlier state of the log
	}
	return err == nil && first.Seq > rec.Seq, err
}

// hasRestarted reports whether rec has the next ordinal only by chance: all records of f have expired, and the writer of rec has numbered without them. Such
// a record is delivered first if the earlier ones are redelivered later, or have expired too.
func (a *applier) hasRestarted(ctx context.Context, f *fold.Folder, rec chunk.Record) (bool, error) {
	at := f.Position()
	if !f.IsUnexpected(rec) || rec.Seq <= at.Seq {
		return false, nil
	}
	first, err := a.first(ctx, rec.Session)
	if errors.Is(err, chunk.ErrTruncated) {
		return false, nil // an earlier state of the log
	}
	return err == nil && first.Seq > at.Seq && (first.Seq != rec.Seq || rec.Epoch < f.Epoch()), err
}

// resolveReuse handles a record with an ordinal that f contains and that is not a repetition. If the log starts after the position, all records of f have
// expired, and the writer of rec has numbered without them: f keeps them and continues with the log. If the log was rolled back, its records replace those
// of f. Otherwise rec is invalid: it has the ordinal of another record of the log.
func (a *applier) resolveReuse(ctx context.Context, f *fold.Folder, rec chunk.Record, rolledBack bool) error {
	first, err := a.first(ctx, rec.Session)
	switch {
	case err != nil:
		return err
	case rec.Seq > f.Position().Seq && first.Seq > f.Position().Seq:
		return a.catchUp(ctx, f)
	case rolledBack:
		*f = *fold.New(rec.Session)
		return a.catchUp(ctx, f)
	}
	return nil
}

// first returns the first record of a session that the log still has.
func (a *applier) first(ctx context.Context, s chunk.Session) (chunk.Record, error) {
	for rec, err := range a.log.Replay(ctx, chunk.Range{Session: s, FromOldest: true}) {
		return rec, err
	}
	return chunk.Record{}, fmt.Errorf("session %s: %w", s, chunk.ErrUnknownSession)
}

// fillGap reads the records before rec. If the log has an unexplained gap, for example because two messages have the same
// ordinal, the fold continues with rec.
func (a *applier) fillGap(ctx context.Context, f *fold.Folder, rec chunk.Record) error {
	err := a.catchUp(ctx, f)
	if truncated, ok := errors.AsType[*chunk.TruncatedError](err); ok && truncated.Reason == chunk.TruncatedGap {
		f.SkipGap(rec, fold.GapExpired)
		return a.apply(ctx, f, rec)
	}
	if err == nil && !isContained(f.Position(), rec.Position()) {
		// A lagging replica delivered rec and does not have it.
		err = fmt.Errorf("session %s: the log ends at record %d, but %d was delivered", f.Session(), f.Position().Ordinal, rec.Ordinal)
	}
	return err
}

// isContained reports whether a snapshot at a position contains a record: by its ordinal, or by its sequence, because ordinals may start again at 1 when all
// records have expired.
func isContained(at, rec chunk.Position) bool { return rec.Ordinal <= at.Ordinal || rec.Seq <= at.Seq }

// step applies one record, or skips it if it is invalid.
func (a *applier) step(ctx context.Context, f *fold.Folder, rec chunk.Record) error {
	if a.stepped != nil {
		defer a.stepped()
	}
	before := f.Position()
	err := f.Apply(rec)
	switch {
	case errors.Is(err, fold.ErrInvalidRecord):
		return a.skip(ctx, f, rec, err.Error())
	case err == nil && f.Position() != before && a.applied != nil:
		a.applied(rec.Type)
	}
	return err
}

// skip reports a record and then skips it. The other order would lose the report of a record whose dead letter could not be
// written: it would be skipped already when the session is retried.
func (a *applier) skip(ctx context.Context, f *fold.Folder, rec chunk.Record, reason string) error {
	if a.skipped != nil {
		if err := a.skipped(ctx, rec, reason); err != nil {
			return err
		}
	}
	return f.Skip(rec, reason)
}

// catchUp folds the log after f to its current end. It returns chunk.ErrUnknownSession if both f and the log are empty.
func (a *applier) catchUp(ctx context.Context, f *fold.Folder) error {
	c := catchUp{applier: a, folder: f}
	return c.run(ctx)
}

// continueFrom folds the log after a snapshot to its current end.
func (a *applier) continueFrom(ctx context.Context, s fold.Snapshot) (*fold.Folder, error) {
	f := fold.From(s)
	return f, a.catchUp(ctx, f)
}

package projector

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// Outcome is the result of Rebuild.
type Outcome int

// The outcomes.
const (
	// Unchanged: the stored snapshot equals the fold of the log.
	Unchanged Outcome = iota

	// Replaced: Rebuild stored the fold of the log.
	Replaced

	// Kept: Rebuild left the stored snapshot, because the log no longer has all records of it, or because the session was
	// deleted and a fold of the remaining records would restore it.
	Kept

	// Copied: as Kept, and RebuildTo copied the snapshot to the other store.
	Copied
)

var outcomes = [...]string{"unchanged", "replaced", "kept", "copied"}

func (o Outcome) String() string { return outcomes[o] }

// RebuildResult is the result of Rebuild for one session.
type RebuildResult struct {
	Session  chunk.Session
	Outcome  Outcome
	Position chunk.Position   // of the snapshot that is stored now
	Skipped  []chunk.Position // the records that were read and could not be folded
	Reason   string           // one line, for Kept and Copied
}

// Rebuild folds a session from the start of the log with the code of this build, and replaces the stored head by
// compare-and-set. Until then readers get the old snapshot, or fold the log if a message has changed. Projectors may run at the
// same time: the later of two saves fails, and its caller loads the stored head and continues from it. Rebuild is idempotent.
// It holds one session in memory. Errors: chunk.ErrUnknownSession if neither the store nor the log has the session; those of
// both.
func Rebuild(ctx context.Context, store Store, log Log, s chunk.Session) (RebuildResult, error) {
	return newRebuild(store, store, log, s).run(ctx)
}

// RebuildTo is Rebuild into another store. If the other store has the session already, RebuildTo only folds the rest of the log
// onto it, so a second call costs only the new records. A session that Rebuild would keep is copied.
func RebuildTo(ctx context.Context, from, to Store, log Log, s chunk.Session) (RebuildResult, error) {
	r := newRebuild(from, to, log, s)
	r.toOther = true
	return r.run(ctx)
}

type rebuild struct {
	applier

	from, to Store
	toOther  bool         // to is another store than from
	folder   *fold.Folder // folds the log; the next attempt continues from it
	result   RebuildResult
}

func newRebuild(from, to Store, log Log, s chunk.Session) *rebuild {
	r := &rebuild{from: from, to: to, folder: fold.New(s), result: RebuildResult{Session: s}}
	r.applier = applier{log: log, skipped: func(_ context.Context, rec chunk.Record, _ string) error {
		r.result.Skipped = append(r.result.Skipped, rec.Position())
		return nil
	}}
	return r
}

// run repeats until no projector saves between the load and the save.
func (r *rebuild) run(ctx context.Context) (RebuildResult, error) {
	for try := range maxLoads {
		if err := pause(ctx, try); err != nil {
			return RebuildResult{}, err
		}
		switch err := r.once(ctx); {
		case err == nil:
			return r.result, nil
		case !errors.Is(err, ErrConflict):
			return RebuildResult{}, err
		}
	}
	return RebuildResult{}, fmt.Errorf("session %s: %w", r.result.Session, ErrConflict)
}

// once stores the result. It returns ErrConflict if another writer has replaced the head.
func (r *rebuild) once(ctx context.Context) error {
	target, revision, targetErr := r.to.Load(ctx, r.result.Session)
	if targetErr != nil && !replaceable(targetErr) {
		return targetErr
	}
	snap, err := r.build(ctx, target, targetErr)
	r.result.Position = snap.Position
	if err != nil || r.result.Outcome == Kept {
		return err
	}
	if targetErr == nil {
		same, err := r.isStored(ctx, target, snap)
		if err != nil {
			return err
		}
		if same {
			r.result.Outcome, r.result.Reason = Unchanged, ""
			return nil
		}
	}
	_, err = r.to.Save(ctx, snap, revision)
	return err
}

// build returns the snapshot to store, or the one that is kept. targetErr is the reason why the target store has no base to
// start from.
func (r *rebuild) build(ctx context.Context, target fold.Snapshot, targetErr error) (fold.Snapshot, error) {
	s := r.result.Session
	old, _, oldErr := r.from.Load(ctx, s)
	if oldErr != nil && !isUnusable(oldErr) {
		return old, oldErr
	}
	r.result.Outcome, r.result.Reason = Replaced, ""
	if r.toOther && targetErr == nil && !old.Deleted() {
		f, err := r.continueFrom(ctx, target)
		if snap := f.Snapshot(); err != nil || snap.Faults.Lost == target.Faults.Lost {
			return snap, err
		}
		// Some of the new records have expired; the first store may have them.
	}
	reason, err := r.foldLog(ctx, old, oldErr)
	if err != nil || reason == "" {
		return r.folder.Snapshot(), err
	}
	r.result.Reason = reason
	if !r.toOther {
		r.result.Outcome = Kept
		return old, nil
	}
	r.result.Outcome = Copied
	return r.copyStored(ctx)
}

// foldLog folds the whole log. It returns a reason if the stored snapshot contains more than that.
func (r *rebuild) foldLog(ctx context.Context, old fold.Snapshot, oldErr error) (reason string, err error) {
	if old.Deleted() {
		return "the session was deleted", nil
	}
	stored := !errors.Is(oldErr, ErrNoSnapshot)
	err = r.catchUp(ctx, r.folder)
	if errors.Is(err, chunk.ErrUnknownSession) && stored {
		return "the log has nothing of the session any more", nil
	}
	if err != nil {
		return "", err
	}
	switch snap := r.folder.Snapshot(); {
	case !stored:
		return "", nil
	case snap.Faults.Lost > old.Faults.Lost, lacksStart(old, snap.Created):
		return reasonLost, nil
	case snap.Position.Ordinal >= old.Position.Ordinal:
		return "", nil
	}
	// The log was rolled back, and the stored snapshot cannot continue from there; or this is a lagging replica, or the records
	// before a truncated record expired one by one.
	tip, err := r.continueFrom(ctx, old)
	if err == nil && tip.Position().Ordinal >= old.Position.Ordinal {
		reason = "the log ends before the stored snapshot"
	}
	return reason, err
}

// copyStored returns the complete snapshot of the first store with the rest of the log folded onto it.
func (r *rebuild) copyStored(ctx context.Context) (fold.Snapshot, error) {
	old, _, err := r.from.Load(ctx, r.result.Session)
	if err != nil {
		return old, err
	}
	data, err := r.from.Messages(ctx, old)
	if err != nil {
		return old, err
	}
	f := fold.From(old)
	if err := f.Attach(data); err != nil {
		return old, err
	}
	err = r.catchUp(ctx, f)
	return f.Snapshot(), err
}

// isStored reports whether the target store, whose head is target, has snap already, with all its messages.
func (r *rebuild) isStored(ctx context.Context, target, snap fold.Snapshot) (bool, error) {
	if !bytes.Equal(target.AppendHead(nil), snap.AppendHead(nil)) {
		return false, nil
	}
	missing, err := checkMessages(ctx, r.to, target)
	return len(missing) == 0, err
}

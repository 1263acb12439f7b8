package projector

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// Outcome says what Rebuild did.
type Outcome int

// The outcomes.
const (
	// Unchanged: what is stored is what the fold of the log gives.
	Unchanged Outcome = iota

	// Replaced: the fold of the log is stored now.
	Replaced

	// Kept: the stored snapshot knows more than a fold of the log would, which no
	// longer has all of the session; or the session was deleted, and a fold of what
	// is left of it would bring it back. What is stored stays.
	Kept

	// Copied: the same, and it was brought to the other store.
	Copied
)

var outcomes = [...]string{"unchanged", "replaced", "kept", "copied"}

func (o Outcome) String() string { return outcomes[o] }

// Rebuilt is what Rebuild did for a session.
type Rebuilt struct {
	Session  chunk.Session
	Outcome  Outcome
	Position chunk.Position   // of what is stored now
	Passed   []chunk.Position // the records that could not be folded, of those that were read
	Why      string           // one line, of Kept and Copied
}

// Rebuild folds a session from the beginning of the log, as this build does it,
// and switches the stored head to the result by compare-and-set. Until then
// readers have the old one, or fold the log where a message has changed under it.
// Projectors may be at work: whoever of the two comes second loads what the first
// has saved, and goes on from there. To do it twice is harmless. It holds one
// session in memory. Errors: chunk.ErrUnknownSession when neither store nor log
// has the session; those of both.
func Rebuild(ctx context.Context, store Store, log Log, s chunk.Session) (Rebuilt, error) {
	return newRebuild(store, store, log, s).run(ctx)
}

// RebuildTo is Rebuild into another store. A session that the other store has
// already is not folded anew but brought to the end of the log, so that a second
// time costs what has come since. One that would be Kept is copied.
func RebuildTo(ctx context.Context, from, to Store, log Log, s chunk.Session) (Rebuilt, error) {
	r := newRebuild(from, to, log, s)
	r.beside = true
	return r.run(ctx)
}

type rebuild struct {
	folder

	from, to Store
	beside   bool          // to is another store than from
	snap     fold.Snapshot // the fold of the log; the next try goes on from it
	done     Rebuilt
}

func newRebuild(from, to Store, log Log, s chunk.Session) *rebuild {
	r := &rebuild{from: from, to: to, snap: fold.New(s), done: Rebuilt{Session: s}}
	r.folder = folder{log: log, skipped: func(_ context.Context, rec chunk.Record, _ string) error {
		r.done.Passed = append(r.done.Passed, rec.Position())
		return nil
	}}
	return r
}

// run tries until no projector comes between the load and the save.
func (r *rebuild) run(ctx context.Context) (Rebuilt, error) {
	for try := range loads {
		if err := pause(ctx, try); err != nil {
			return Rebuilt{}, err
		}
		switch err := r.once(ctx); {
		case err == nil:
			return r.done, nil
		case !errors.Is(err, ErrConflict):
			return Rebuilt{}, err
		}
	}
	return Rebuilt{}, fmt.Errorf("session %s: %w", r.done.Session, ErrConflict)
}

// once brings what is to be stored to the store; ErrConflict when somebody else
// was faster.
func (r *rebuild) once(ctx context.Context) error {
	there, revision, err := r.to.Load(ctx, r.done.Session)
	if err != nil && !replaceable(err) {
		return err
	}
	snap, err := r.build(ctx, there, err)
	r.done.Position = snap.Position
	if err != nil || r.done.Outcome == Kept {
		return err
	}
	// Loaded again: what there was of it may be used up.
	same, err := r.same(ctx, snap)
	if err != nil {
		return err
	}
	if same {
		r.done.Outcome, r.done.Why = Unchanged, ""
		return nil
	}
	_, err = r.to.Save(ctx, snap, revision)
	return err
}

// build is what is to be stored, or what is Kept. thereErr says why there is
// nothing to go on from in the store that is filled.
func (r *rebuild) build(ctx context.Context, there fold.Snapshot, thereErr error) (fold.Snapshot, error) {
	s := r.done.Session
	old, _, oldErr := r.from.Load(ctx, s)
	if oldErr != nil && !unusable(oldErr) {
		return old, oldErr
	}
	r.done.Outcome, r.done.Why = Replaced, ""
	if r.beside && thereErr == nil && !old.Deleted() {
		lost := there.Faults.Lost
		snap, err := r.catchUp(ctx, there)
		if err != nil || snap.Faults.Lost == lost {
			return snap, err
		}
		// What came since has expired in part; the first store may have it.
	}
	why, err := r.foldLog(ctx, old, oldErr)
	if err != nil || why == "" {
		return r.snap, err
	}
	r.done.Why = why
	if !r.beside {
		r.done.Outcome = Kept
		return old, nil
	}
	r.done.Outcome = Copied
	return r.copied(ctx)
}

// foldLog makes r.snap the fold of the log, from its beginning to its end. It
// says why when the stored snapshot, if there is one, knows more.
func (r *rebuild) foldLog(ctx context.Context, old fold.Snapshot, oldErr error) (why string, err error) {
	if old.Deleted() {
		return "the session was deleted", nil
	}
	stored := !errors.Is(oldErr, ErrNoSnapshot)
	was, lost := old.Position.Ordinal, old.Faults.Lost
	snap, err := r.catchUp(ctx, r.snap)
	if errors.Is(err, chunk.ErrUnknownSession) && stored {
		return "the log has nothing of the session any more", nil
	}
	if err != nil {
		return "", err
	}
	r.snap = snap
	switch {
	case !stored:
		return "", nil
	case snap.Faults.Lost > lost:
		return "the log has lost records of the session", nil
	case snap.Position.Ordinal >= was:
		return "", nil
	}
	// Either the log was set back, and what is stored cannot go on from there; or
	// this is a replica that lags, or records expired one by one behind a mark.
	tip, err := r.catchUp(ctx, old)
	if err == nil && tip.Position.Ordinal >= was {
		why = "the log ends before the stored snapshot"
	}
	return why, err
}

// copied is the snapshot of the first store, whole, and the rest of the log on
// top.
func (r *rebuild) copied(ctx context.Context) (fold.Snapshot, error) {
	old, _, err := r.from.Load(ctx, r.done.Session)
	if err != nil {
		return old, err
	}
	data, err := r.from.Messages(ctx, old)
	if err != nil {
		return old, err
	}
	if old, err = old.Hold(data); err != nil {
		return old, err
	}
	return r.catchUp(ctx, old)
}

// same reports whether what is stored is snap already, with all its messages.
func (r *rebuild) same(ctx context.Context, snap fold.Snapshot) (bool, error) {
	head, _, err := r.to.Load(ctx, r.done.Session)
	if unusable(err) || err == nil && !bytes.Equal(head.AppendHead(nil), snap.AppendHead(nil)) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	torn, err := tornMessages(ctx, r.to, head)
	return len(torn) == 0, err
}

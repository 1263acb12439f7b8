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

	// Kept: the log no longer has all of the session, and the stored snapshot knows
	// more than a fold of the log would; or the session was deleted, and a fold of
	// what is left of it would bring it back. What is stored stays.
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
	Position chunk.Position // of what is stored now
	Why      string         // one line, "" when there is nothing to add
}

// Rebuild folds a session from the beginning of the log and switches the stored
// head to the result by compare-and-set. Until then readers have the old one, or
// fold the log where a message has changed under it. Projectors may be at work:
// whoever of the two comes second loads what the first has saved, and goes on
// from there. To do it twice is harmless. It holds one session in memory. Errors:
// chunk.ErrUnknownSession when neither store nor log has the session; those of
// both.
func Rebuild(ctx context.Context, store Store, log Log, s chunk.Session) (Rebuilt, error) {
	r := rebuild{folder: folder{log: log}, from: store, to: store, session: s}
	return r.run(ctx, r.anew)
}

// RebuildTo is Rebuild into another store. A session that the other store has
// already is not folded anew but brought to the end of the log, so that a second
// time costs what has come since. One that the log no longer has in full is
// copied.
func RebuildTo(ctx context.Context, from, to Store, log Log, s chunk.Session) (Rebuilt, error) {
	r := rebuild{folder: folder{log: log}, from: from, to: to, session: s}
	return r.run(ctx, r.beside)
}

type rebuild struct {
	folder

	from, to Store
	session  chunk.Session
	snap     fold.Snapshot // of the try before: the next one goes on from it
}

// stored is the head that a Rebuild found.
type stored struct {
	head     fold.Snapshot
	revision Revision
	err      error // why head is of no use, nil when it is
}

// run tries until no projector comes between the load and the save.
func (r *rebuild) run(ctx context.Context, build func(context.Context, stored) (fold.Snapshot, Outcome, error)) (Rebuilt, error) {
	for try := range loads {
		if err := pause(ctx, try); err != nil {
			return Rebuilt{}, err
		}
		head, revision, err := r.to.Load(ctx, r.session)
		if err != nil && !replaceable(err) {
			return Rebuilt{}, err
		}
		was := stored{head, revision, err}
		snap, outcome, err := build(ctx, was)
		if gone, ok := errors.AsType[*logGoneError](err); ok {
			return Rebuilt{Session: r.session, Outcome: Kept, Position: head.Position, Why: gone.why}, nil
		}
		if err != nil {
			return Rebuilt{}, err
		}
		done := Rebuilt{Session: r.session, Outcome: outcome, Position: snap.Position}
		// What build was given it may have used up.
		same, err := r.same(ctx, snap)
		if err != nil {
			return Rebuilt{}, err
		}
		if same {
			done.Outcome = Unchanged
			return done, nil
		}
		if _, err = r.to.Save(ctx, snap, revision); !errors.Is(err, ErrConflict) {
			return done, err
		}
	}
	return Rebuilt{}, fmt.Errorf("session %s: %w", r.session, ErrConflict)
}

// anew folds the log from its beginning, in the place of what is stored.
func (r *rebuild) anew(ctx context.Context, was stored) (fold.Snapshot, Outcome, error) {
	if was.err == nil && was.head.Deleted() {
		return was.head, Kept, &logGoneError{"the session was deleted"}
	}
	snap, err := r.wholeLog(ctx)
	if _, ok := errors.AsType[*logGoneError](err); ok && errors.Is(was.err, ErrNoSnapshot) {
		return r.rest(ctx)
	}
	if err != nil {
		return snap, Replaced, err
	}
	if was.err == nil && snap.Position.Ordinal < was.head.Position.Ordinal {
		tip, err := r.catchUp(ctx, was.head)
		if err != nil {
			return snap, Replaced, err
		}
		if tip.Position.Ordinal >= was.head.Position.Ordinal {
			// Not a log that was set back: a replica that lags, or records that
			// expired one by one behind a mark.
			return snap, Replaced, &logGoneError{"the log ends before the stored snapshot"}
		}
	}
	return snap, Replaced, nil
}

// beside brings the other store to the end of the log.
func (r *rebuild) beside(ctx context.Context, was stored) (fold.Snapshot, Outcome, error) {
	old, _, oldErr := r.from.Load(ctx, r.session)
	if oldErr == nil && old.Deleted() {
		return old, Copied, nil
	}
	if was.err == nil {
		lost := was.head.Faults.Lost
		snap, err := r.catchUp(ctx, was.head)
		if err != nil || snap.Faults.Lost == lost {
			return snap, Replaced, err
		}
		// What came since has expired in part; the first store may have it.
	}
	snap, err := r.wholeLog(ctx)
	if _, ok := errors.AsType[*logGoneError](err); !ok {
		return snap, Replaced, err
	}
	if errors.Is(oldErr, ErrNoSnapshot) {
		return r.rest(ctx)
	}
	if oldErr != nil {
		return old, Copied, oldErr
	}
	data, err := r.from.Messages(ctx, old)
	if err != nil {
		return old, Copied, err
	}
	if old, err = old.Hold(data); err != nil {
		return old, Copied, err
	}
	snap, err = r.catchUp(ctx, old)
	return snap, Copied, err
}

// rest folds what the log still has of a session that nobody has stored, as a
// projector does.
func (r *rebuild) rest(ctx context.Context) (fold.Snapshot, Outcome, error) {
	snap, err := r.catchUp(ctx, fold.New(r.session))
	return snap, Replaced, err
}

// wholeLog folds the log from record 1. It is a *logGoneError when the log does
// not have that any more.
func (r *rebuild) wholeLog(ctx context.Context) (fold.Snapshot, error) {
	base := r.snap
	if base.Session == (chunk.Session{}) {
		base = fold.New(r.session)
	}
	snap, err := r.catchUp(ctx, base)
	switch {
	case errors.Is(err, chunk.ErrUnknownSession):
		return snap, &logGoneError{"the log has nothing of the session any more"}
	case err != nil:
		return snap, err
	case snap.Faults.Lost > 0:
		return snap, &logGoneError{"the log has lost records of the session"}
	}
	r.snap = snap
	return snap, nil
}

// same reports whether what is stored is snap already, with all its messages.
func (r *rebuild) same(ctx context.Context, snap fold.Snapshot) (bool, error) {
	head, _, err := r.to.Load(ctx, r.session)
	if unusable(err) || err == nil && !bytes.Equal(head.AppendHead(nil), snap.AppendHead(nil)) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	torn, err := tornMessages(ctx, r.to, head)
	return len(torn) == 0, err
}

// logGoneError says that a session cannot be folded from its first record.
type logGoneError struct{ why string }

func (e *logGoneError) Error() string { return e.why }

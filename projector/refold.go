package projector

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// ErrLogGone reports a session that cannot be folded anew: the log no longer has
// all that the stored snapshot was folded from.
var ErrLogGone = errors.New("the log no longer has all of the session")

// Refold folds a session from the beginning of the log, as this build does it,
// and puts the result in the place of the stored head. It gives the records that
// were passed. Runners may be at work on the session: the next save of one is
// refused, and it goes on from what is here. Errors: ErrLogGone, and then the
// head is as it was; chunk.ErrUnknownSession; those of Store and Log.
func Refold(ctx context.Context, store Store, log Log, s chunk.Session) ([]chunk.Record, error) {
	for try := range loads {
		if err := pause(ctx, try); err != nil {
			return nil, err
		}
		head, revision, err := store.Load(ctx, s)
		if err != nil && !replaceable(err) {
			return nil, err
		}
		if err == nil && head.Deleted() {
			return nil, fmt.Errorf("session %s, deleted: %w", s, chunk.ErrUnknownSession)
		}
		var passed []chunk.Record
		f := folder{log: log, skipped: func(_ context.Context, rec chunk.Record, _ string) error {
			passed = append(passed, rec)
			return nil
		}}
		snap, err := f.catchUp(ctx, fold.New(s))
		switch {
		case err != nil:
			return nil, err
		case snap.Faults.Lost > head.Faults.Lost, snap.Position.Ordinal < head.Position.Ordinal:
			return nil, fmt.Errorf("session %s: %w", s, ErrLogGone)
		}
		if _, err = store.Save(ctx, snap, revision); !errors.Is(err, ErrConflict) {
			return passed, err
		}
	}
	return nil, fmt.Errorf("session %s: %w", s, ErrConflict)
}

package projector

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// Finding says how a stored snapshot stands against the log.
type Finding int

// The findings.
const (
	// Same: the snapshot is what a fold of the log to its position gives.
	Same Finding = iota

	// Different: it is not.
	Different

	// Unreadable: there is a head that this build cannot read. It is folded anew
	// when somebody projects the session.
	Unreadable

	// Older: an earlier version began it, which kept less. What it has is the
	// same. Rebuild completes it.
	Older

	// Unsaved: the log has the session and the store does not. Whoever reads it
	// folds the log.
	Unsaved

	// Unprovable: the log no longer has all that the snapshot was folded from.
	Unprovable
)

var findings = [...]string{"same", "different", "unreadable", "older", "unsaved", "unprovable"}

func (f Finding) String() string { return findings[f] }

// Verdict is what Verify finds out.
type Verdict struct {
	Session     chunk.Session
	Finding     Finding
	At          chunk.Position // where the two were compared; of the stored head where they were not
	Chain       fold.Chain     // of the records up to there, as the stored head has it
	Differences []fold.Difference
	Why         string // one line, "" when there is nothing to add
}

// Verify compares the stored snapshot of a session, its finished messages
// included, with a fold of the log to the same position. It changes nothing, and
// holds one session in memory. A projector may be at work: the head that was
// loaded is the one that is compared. Errors: chunk.ErrUnknownSession when
// neither store nor log has the session; those of both.
func Verify(ctx context.Context, store Store, log Log, s chunk.Session) (Verdict, error) {
	head, _, err := store.Load(ctx, s)
	v := Verdict{Session: s, At: head.Position, Chain: head.Chain()}
	switch {
	case errors.Is(err, ErrNoSnapshot):
		v.Finding = Unsaved
		return v, known(ctx, log, s)
	case unusable(err):
		v.Finding, v.Why = Unreadable, err.Error()
		return v, nil
	case err != nil:
		return v, err
	case head.Deleted():
		return v.unprovable("the session was deleted"), nil
	}
	if v.Differences, err = tornMessages(ctx, store, head); len(v.Differences) > 0 || err != nil {
		v.Finding = Different
		return v, err
	}
	now, err := foldTo(ctx, log, s, head.Position.Ordinal)
	switch {
	case errors.Is(err, chunk.ErrUnknownSession):
		return v.unprovable("the log has nothing of the session any more"), nil
	case errors.Is(err, chunk.ErrTruncated):
		return v.unprovable("the log has lost records of the session"), nil
	case err != nil:
		return v, err
	}
	if now.Unexplained() || now.Position.Ordinal < head.Position.Ordinal {
		// A mark further on has taken back what the head counts, and the log has let
		// go of it: only what comes after the mark is the same.
		if head, now, err = atTheEnd(ctx, log, head); err != nil {
			return v, err
		}
		if now.Position.Ordinal < v.At.Ordinal {
			return v.unprovable(fmt.Sprintf("the log ends at record %d", now.Position.Ordinal)), nil
		}
		v.At, v.Chain = head.Position, head.Chain()
	}
	v.Differences = fold.Compare(head, now)
	switch {
	case len(v.Differences) > 0:
		v.Finding = Different
	case fold.Partial(head, now):
		v.Finding, v.Why = Older, fmt.Sprintf("it knows its records since %d only", head.Chain().Since)
	}
	return v, nil
}

func (v Verdict) unprovable(why string) Verdict {
	v.Finding, v.Why = Unprovable, why
	return v
}

// known is an error when the log has nothing of a session.
func known(ctx context.Context, log Log, s chunk.Session) error {
	for _, err := range log.ReplayFloor(ctx, s, chunk.Position{}) {
		return err
	}
	return fmt.Errorf("session %s: %w", s, chunk.ErrUnknownSession)
}

// foldTo folds the log from its first record through an ordinal. It is
// chunk.ErrTruncated when the log does not begin with record 1.
func foldTo(ctx context.Context, log Log, s chunk.Session, last chunk.Ordinal) (fold.Snapshot, error) {
	f := folder{log: &prefix{log: log, over: func(rec chunk.Record) bool { return rec.Ordinal > last }}}
	return f.catchUp(ctx, fold.New(s))
}

// atTheEnd folds a stored head and the log from its beginning to one and the
// same end.
func atTheEnd(ctx context.Context, log Log, head fold.Snapshot) (stored, now fold.Snapshot, err error) {
	f := folder{log: log}
	if stored, err = f.catchUp(ctx, head); err != nil {
		return stored, now, err
	}
	now, err = foldTo(ctx, log, head.Session, stored.Position.Ordinal)
	return stored, now, err
}

// tornMessages looks whether the store has the finished messages of a head that
// was loaded.
func tornMessages(ctx context.Context, store Store, head fold.Snapshot) ([]fold.Difference, error) {
	data, err := store.Messages(ctx, head)
	if err == nil {
		_, err = head.Hold(data)
	}
	if errors.Is(err, fold.ErrTorn) {
		return []fold.Difference{{Member: "messages", Stored: err.Error(), Now: fmt.Sprintf("%d messages", head.FinishedCount())}}, nil
	}
	return nil, err
}

package projector

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// Finding is the result of comparing a stored snapshot with the log.
type Finding int

// The findings.
const (
	// Same: the snapshot equals the fold of the log to its position.
	Same Finding = iota

	// Different: it does not.
	Different

	// Unreadable: this build cannot read the head. A projector refolds the session with its next record.
	Unreadable

	// Unsaved: the log has the session and the store does not. Readers fold the log.
	Unsaved

	// Unprovable: the log no longer has all records of the snapshot.
	Unprovable
)

var findings = [...]string{"same", "different", "unreadable", "unsaved", "unprovable"}

func (f Finding) String() string { return findings[f] }

// VerifyResult is the result of VerifySnapshot.
type VerifyResult struct {
	Session     chunk.Session
	Finding     Finding
	At          chunk.Position // position of the comparison; of the stored head if nothing was compared
	Chain       fold.Chain     // of the records up to At, as stored in the head
	Differences []Difference
	Reason      string // one line, "" for none
}

// VerifySnapshot compares the stored snapshot of a session, including its finished messages, with a fold of the log to the same
// position. It changes nothing and holds one session in memory. A projector may run at the same time: VerifySnapshot compares
// the head that it loaded. Errors: chunk.ErrUnknownSession if neither the store nor the log has the session; those of both.
func VerifySnapshot(ctx context.Context, store Store, log Log, s chunk.Session) (VerifyResult, error) {
	head, _, err := store.Load(ctx, s)
	v := VerifyResult{Session: s, At: head.Position, Chain: head.Chain()}
	switch {
	case errors.Is(err, ErrNoSnapshot):
		v.Finding = Unsaved
		_, err = (&applier{log: log}).first(ctx, s)
		return v, err
	case isUnusable(err):
		v.Finding, v.Reason = Unreadable, err.Error()
		return v, nil
	case err != nil:
		return v, err
	case head.Deleted():
		return v.unprovable("the session was deleted"), nil
	}
	if v.Differences, err = checkMessages(ctx, store, head); len(v.Differences) > 0 || err != nil {
		v.Finding = Different
		return v, err
	}
	now, err := foldTo(ctx, log, s, head.Position.Ordinal)
	switch {
	case errors.Is(err, chunk.ErrUnknownSession):
		return v.unprovable("the log has nothing of the session any more"), nil
	case errors.Is(err, chunk.ErrTruncated), err == nil && lacksStart(head, now.Created):
		return v.unprovable(reasonLost), nil
	case err != nil:
		return v, err
	}
	if now.HasUnexplainedGap() || now.Position.Ordinal < head.Position.Ordinal {
		// A later truncated record has removed records that the head contains, and the log has deleted them: only the snapshots
		// after the truncated record can be compared.
		if head, now, err = foldToEnd(ctx, log, head); err != nil {
			return v, err
		}
		if now.Position.Ordinal < v.At.Ordinal {
			return v.unprovable(fmt.Sprintf("the log ends at record %d", now.Position.Ordinal)), nil
		}
		v.At, v.Chain = head.Position, head.Chain()
	}
	if v.Differences = compare(head, now); len(v.Differences) > 0 {
		v.Finding = Different
	}
	return v, nil
}

// reasonLost is the reason why a stored snapshot is neither compared nor replaced.
const reasonLost = "the log has lost records of the session"

func (v VerifyResult) unprovable(reason string) VerifyResult {
	v.Finding, v.Reason = Unprovable, reason
	return v
}

// foldTo folds the log from its first record through an ordinal. It returns chunk.ErrTruncated if the log does not start with
// record 1.
func foldTo(ctx context.Context, log Log, s chunk.Session, last chunk.Ordinal) (fold.Snapshot, error) {
	a := applier{log: &boundedLog{log: log, isBeyond: func(rec chunk.Record) bool { return rec.Ordinal > last }}}
	f := fold.New(s)
	err := a.catchUp(ctx, f)
	return f.Snapshot(), err
}

// foldToEnd folds a stored head and the log from its start to the same end.
func foldToEnd(ctx context.Context, log Log, head fold.Snapshot) (stored, now fold.Snapshot, err error) {
	a := applier{log: log}
	f, err := a.continueFrom(ctx, head)
	if stored = f.Snapshot(); err != nil {
		return stored, now, err
	}
	now, err = foldTo(ctx, log, head.Session, stored.Position.Ordinal)
	return stored, now, err
}

// checkMessages compares the stored messages with the hash in a loaded head.
func checkMessages(ctx context.Context, store Store, head fold.Snapshot) ([]Difference, error) {
	data, err := store.Messages(ctx, head)
	if err == nil {
		err = fold.From(head).Attach(data)
	}
	if errors.Is(err, fold.ErrInconsistent) {
		return []Difference{{Member: "messages", Stored: err.Error(), Now: fmt.Sprintf("%d messages", head.FinishedCount())}}, nil
	}
	return nil, err
}

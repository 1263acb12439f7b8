package retention

import (
	"context"
	"errors"
	"iter"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// Forks yields the forks of a root session that exist, with their owners, or at most one error. The forks of an earlier session with the same id are not among them.
// Each fork is read when it is yielded, so that a caller deletes some also if there are too many for its time.
func (e *Eraser) Forks(ctx context.Context, s chunk.Session) iter.Seq2[projector.SessionInfo, error] {
	return func(yield func(projector.SessionInfo, error) bool) {
		origin, err := e.head(ctx, s)
		var all []chunk.Session
		if err == nil {
			all, err = e.store.Forks(ctx, s)
		}
		for _, fork := range all {
			var snap fold.Snapshot
			snap, err = e.reader.Head(ctx, fork)
			if errors.Is(err, chunk.ErrUnknownSession) || snap.Origin != nil {
				err = nil // it does not exist, or what could be folded has its origin
			}
			if err != nil {
				break
			}
			if !continues(snap, origin, s) {
				continue
			}
			info := projector.SessionInfo{Session: fork, Origin: s.ID}
			if snap.Owner != nil {
				info.Owner = snap.Owner.Subject
			}
			if !yield(info, nil) {
				return
			}
		}
		if err != nil {
			yield(projector.SessionInfo{}, err)
		}
	}
}

// continues reports whether a session is a fork of s, whose head is origin: the point of the fork is not before the first record of s.
func continues(fork, origin fold.Snapshot, s chunk.Session) bool {
	o := fork.Origin
	if o == nil || o.Session != s.ID {
		return false
	}
	if o.Anchor == nil {
		return true
	}
	at, ok := chunk.ParseCursor(strconv.FormatInt(o.Sequence, 10) + "-" + *o.Anchor)
	return !ok || int64(at.Anchor) >= origin.Created
}

// forgetFork removes the key of a deleted session, if it was a fork. A process that crashes before leaves a key that goes with the origin.
func (e *Eraser) forgetFork(ctx context.Context, snap fold.Snapshot) error {
	if snap.Origin == nil {
		return nil
	}
	return e.store.RemoveFork(ctx, chunk.RootSession(snap.Session.Tenant, snap.Origin.Session), snap.Session)
}

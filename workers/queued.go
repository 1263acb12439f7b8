package workers

import (
	"context"
	"errors"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/projector/fold"
)

// startQueued requests the run of the message that waits for the end of the run of a session, however that has ended. It runs before the command of the ended
// run is acknowledged, and so is repeated after a crash. A run that pauses does not end. load returns the session with that end; it is called only if a message
// waits.
func (w *Workers) startQueued(ctx context.Context, s chunk.Session, load func() (fold.Snapshot, error)) error {
	if !s.IsRoot() {
		return nil // users send messages to the root
	}
	all, err := w.inbox.Queued(ctx, s)
	next := conversation.NextQueued(all)
	if err != nil || next == nil {
		return err
	}
	snap, err := load()
	if err != nil || runPhase(snap, snap.Run.ID) != phaseDone {
		return err
	}
	err = conversation.StartQueued(ctx, w.inbox, next, func(c control.Command) error { return w.requestAfter(ctx, c, snap) })
	if errors.Is(err, control.ErrBusy) {
		return nil // the worker of the other command starts the message at its end
	}
	return err
}

// isWaiting reports whether the inbox has the message of a command that has waited there: a process may have taken it, and requested the command after the
// deletion of the session.
func (j *commandJob) isWaiting(ctx context.Context) (bool, error) {
	all, err := j.w.inbox.Queued(ctx, j.cmd.Session)
	return slices.ContainsFunc(all, func(q control.Queued) bool {
		return q.Command.RunID == j.cmd.RunID && q.State != control.QueuedWithdrawn
	}), err
}

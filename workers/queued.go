package workers

import (
	"context"
	"errors"
	"slices"
	"time"

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
	if err != nil || snap.Run.ID == "" || snap.WasDeleted() || runPhase(snap, snap.Run.ID) != phaseDone {
		return err
	}
	err = conversation.StartQueued(ctx, w.inbox, next, func(c control.Command) error { return w.requestAfter(ctx, c, snap) })
	if errors.Is(err, control.ErrBusy) {
		return nil // the worker of the other command starts the message at its end
	}
	return err
}

// StartQueued requests the run of the message that waits for the end of the run of a session. A process that ends a run without a worker calls it after each
// end, and for a repeated request too. What fails is logged: the sweep repeats it.
func (r *Reaper) StartQueued(ctx context.Context, s chunk.Session) {
	w, release, err := r.open()
	if err == nil {
		defer release()
		err = w.startQueued(ctx, s, func() (fold.Snapshot, error) { return w.snapshot(ctx, s) })
	}
	if err != nil {
		r.cfg.Log.WarnContext(ctx, "message that waits not started", "session", s.String(), "error", err)
	}
}

// CheckMessages ends the run between two steps if a user has sent a message that is to be read before the next one (the mode steer of a chat), and returns
// ErrInterrupted, as every later Step does. The run that follows answers the message, and has the steps of this one in its Messages. A message for which the agent
// does not check starts after the run. CheckMessages does nothing before the first step, and while approved calls are to be run. It is called like Step.
func (t *Turn) CheckMessages(ctx context.Context) error {
	if err := t.enterSDK(); err != nil {
		return err
	}
	defer t.exitSDK()
	isApproved := func(c fold.Call) bool { return c.Approved }
	if t.outcome != nil || t.final || t.failedStep != nil || t.step == 0 || t.stopped() != "" || !t.cmd.Session.IsRoot() ||
		slices.ContainsFunc(t.snap.OpenCalls(), isApproved) {
		return t.outcome
	}
	message, err := t.takeMessage(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		return t.recordWriteErr(err)
	case err != nil || message == nil:
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stop.Kind == "" {
		t.stop = control.Stop{Session: message.Session, RunID: t.cmd.RunID, Kind: control.StopInterrupt, By: message.By}
	}
	return t.finishTurn(ErrInterrupted)
}

// takeMessage takes the next message that steers, so that it cannot be withdrawn any more. The worker that ends the run starts it, which is another one if this one
// crashes. It returns nil if there is none, or it was withdrawn or deleted at the same time.
func (t *Turn) takeMessage(ctx context.Context) (*control.Command, error) {
	all, err := t.w.inbox.Queued(ctx, t.cmd.Session)
	if err != nil {
		return nil, err
	}
	next := conversation.NextQueued(slices.DeleteFunc(all, func(q control.Queued) bool {
		// That of this turn may still be taken, see conversation.StartQueued, and many runs may have followed the first one of the turn.
		return !q.Steers || q.Command.RunID == t.snap.TurnRun().ID || runPhase(t.snap, q.Command.RunID) != phaseNone
	}))
	if next == nil {
		return nil, nil //nolint:nilnil // none waits
	}
	err = t.w.inbox.SetQueued(ctx, t.cmd.Session, next.Command.RunID, control.QueuedTaken)
	if errors.Is(err, control.ErrNotQueued) {
		return nil, nil //nolint:nilnil // none waits any more
	}
	return &next.Command, err
}

// isOfQueue reports whether a command is that of a message that has waited.
func isOfQueue(c control.Command) bool {
	return c.Kind == control.Execute && c.Mode == control.ModeQueued
}

// isQueued reports whether the inbox has the message of a command that has waited there: a process may have taken it, and requested the command after the
// deletion of the session.
func (w *Workers) isQueued(ctx context.Context, c control.Command) (bool, error) {
	all, err := w.inbox.Queued(ctx, c.Session)
	return slices.ContainsFunc(all, func(q control.Queued) bool { return q.Command.RunID == c.RunID && q.State != control.QueuedWithdrawn }), err
}

// sweepQueued starts the messages that wait although the run before them has ended: its writer has crashed before StartQueued, and no response waits. Without a session there is nothing to
// wait for: the edge that has stored the message starts it.
func (r *Reaper) sweepQueued(ctx context.Context, w *Workers, now time.Time, failed *int) error {
	sessions, err := w.inbox.QueuedBefore(ctx, now.Add(-commandAge))
	for _, s := range sessions {
		err := w.startQueued(ctx, s, func() (fold.Snapshot, error) { return w.snapshot(ctx, s) })
		r.report(ctx, s, err, failed)
	}
	return err
}

package workers

import (
	"context"
	"errors"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/projector/fold"
)

// isWanted reports whether the run of a command that has not been started is to be started. snap is the snapshot of its session.
func (j *commandJob) isWanted(ctx context.Context, snap fold.Snapshot) (bool, error) {
	if forgotten, err := j.isForgotten(ctx, snap); forgotten || err != nil {
		return false, err
	}
	if removed, err := j.isRemoved(ctx, snap); removed || err != nil {
		return false, err
	}
	if isOfQueue(j.cmd) {
		return j.w.isQueued(ctx, j.cmd)
	}
	if j.cmd.Parent == nil {
		return true, nil
	}
	parent, call, err := j.w.callOf(ctx, j.cmd)
	switch {
	case err != nil || call == nil:
		return false, err
	case isTombstone(snap):
		return false, j.w.answerDeleted(ctx, parent, *call)
	}
	// The call decides what the sub-agent gets: after a deletion of the tree and a new run with the same ids, a worker of the deleted run may have requested
	// the command.
	own := childCommand(parent.Session, *j.cmd.Parent, j.cmd.AgentType, call.Input)
	j.cmd.Input, j.cmd.Params = own.Input, own.Params
	return true, nil
}

// isTombstone reports whether a snapshot is that of a session that was deleted and has not started again.
func isTombstone(snap fold.Snapshot) bool { return snap.Created == 0 && snap.Position.Ordinal > 0 }

// isRemoved reports whether the session was deleted after this worker got the command, and with it the command. Without it:
//  1. Worker A gets a command and stalls before it starts the run.
//  2. The session is deleted: its commands, its log and its snapshot are removed.
//  3. Worker A starts the run, with the deleted message, in the session that does not exist or has started again.
//
// The deletion appends a record, so that a worker that has checked before cannot start the run. The queue is asked only about a session that was deleted once.
func (j *commandJob) isRemoved(ctx context.Context, snap fold.Snapshot) (bool, error) {
	if snap.Chain().FirstOrdinal == 1 && !isTombstone(snap) && !snap.WasDeleted() {
		return false, nil
	}
	for c, err := range j.w.queue.Commands(ctx, j.cmd.Session, j.cmd.AgentType) {
		switch {
		case errors.Is(err, control.ErrBusy):
		case err != nil:
			return false, err
		case c.ID() == j.cmd.ID() && c.Issued.Equal(j.cmd.Issued):
			return false, nil
		}
	}
	return true, nil
}

// callOf returns the call that waits for the sub-agent of a command, with the snapshot of its session, or nil: the parent was deleted, or its call has an
// outcome. The snapshot is not older than the command, because a command without a call is removed.
func (w *Workers) callOf(ctx context.Context, c control.Command) (fold.Snapshot, *conversation.PendingCall, error) {
	s := c.Session.Child(c.Parent.Session)
	parent, err := w.snapshot(ctx, s)
	if err != nil {
		return parent, nil, err
	}
	last, err := w.last.Last(ctx, s)
	if err == nil {
		parent, _, err = w.catchUp(ctx, parent, last.Position())
	}
	if err != nil && !errors.Is(err, chunk.ErrUnknownSession) { // the log has expired, or the session was deleted
		return parent, nil, err
	}
	for _, call := range parent.OpenCalls() {
		if call.ID == c.Parent.CallID && call.Child != nil && call.Child.Session == c.Session.ID {
			return parent, &conversation.PendingCall{
				Session: s, RunID: parent.Run.ID, CallID: call.ID, ToolName: call.ToolName, Kind: control.SubagentResult, Child: call.Child, Input: call.Input,
			}, nil
		}
	}
	return parent, nil, nil
}

// answerDeleted answers the call of a sub-agent that was deleted alone, and resumes the parent.
func (w *Workers) answerDeleted(ctx context.Context, parent fold.Snapshot, call conversation.PendingCall) error {
	err := w.answerParent(ctx, control.Answer{
		Session: parent.Session, RunID: parent.Run.ID, CallID: call.CallID, ToolName: call.ToolName, Kind: control.SubagentResult,
		Error: "sub-agent deleted", ErrorCode: chunk.CodeSessionDeleted,
	})
	if err != nil {
		return err
	}
	return w.resumeParent(ctx, parent.Session, parent.Run.ID)
}

// ContinueParent answers the calls of a suspended run whose sub-agents were deleted or have ended, and resumes the run if it has all answers. It does nothing
// for any other session.
func (r *Reaper) ContinueParent(ctx context.Context, s chunk.Session) error {
	w, release, err := r.open()
	if err != nil {
		return err
	}
	defer release()
	return w.sweepSuspended(ctx, s)
}

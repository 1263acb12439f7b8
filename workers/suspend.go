package workers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/projector/fold"
)

// suspend pauses the run until its pending calls have answers.
func (t *Turn) suspend(ctx context.Context) error {
	calls := conversation.PendingCalls(t.snap, t.cmd.RunID)
	ids := make([]string, 0, len(calls))
	paused := chunk.RunPaused{RunID: t.cmd.RunID, Reason: suspendedChildren}
	for _, c := range calls {
		if c.Child != nil {
			continue // the marker lists calls of users and browsers only
		}
		ids = append(ids, c.CallID)
		if paused.PendingToolCallID == nil {
			paused.Reason, paused.PendingToolCallID, paused.PendingToolName = suspendedClient, &c.CallID, &c.ToolName
		}
	}
	if err := t.storeParams(ctx, paused.Reason, ids); err != nil {
		return err
	}
	if err := t.emit(ctx, t.step, paused); err != nil {
		return err
	}
	if err := t.run.Pause(ctx, paused.Reason); err != nil {
		return t.recordWriteErr(err)
	}
	t.trace.outcome = runSuspended
	if err := t.refresh(ctx); err != nil {
		return err
	}
	return t.w.afterPause(ctx, t.snap)
}

// afterPause completes a pause: it starts the sub-agents, schedules the deadline, and resumes the run if all
// answers are stored. It runs after run_paused is stored and is repeated after a crash. Without that order:
//  1. A sub-agent ends before its parent's run_paused is in the log.
//  2. Its worker finds the parent running and does not resume it.
//  3. The parent pauses, and no process resumes it.
func (w *Workers) afterPause(ctx context.Context, snap fold.Snapshot) error {
	if aborted, err := w.abortIfRequested(ctx, snap); aborted || err != nil {
		return err
	}
	open, err := w.unanswered(ctx, snap)
	if err != nil {
		return err
	}
	for _, call := range open {
		if call.Child == nil {
			continue
		}
		if err := w.startChild(ctx, snap, call); err != nil {
			return err
		}
	}
	if next, ok := conversation.NextDeadline(open); ok {
		if err := w.expireAt(ctx, snap, next); err != nil {
			return err
		}
	}
	return w.requestResume(ctx, snap)
}

// abortIfRequested queues an Abort of the suspended run of a session if the inbox has that request, and reports whether it has.
func (w *Workers) abortIfRequested(ctx context.Context, snap fold.Snapshot) (requested bool, err error) {
	stop, wanted, err := w.inbox.StopRequest(ctx, snap.Session, snap.Run.ID)
	if err != nil || !wanted || stop.Kind != control.StopAbort {
		return false, err
	}
	return true, w.request(ctx, conversation.Abort(snap, stop), snap)
}

// expireAt schedules the deadline of a run. A deadline beyond the maximum delay of the queue is scheduled in
// several stages.
func (w *Workers) expireAt(ctx context.Context, snap fold.Snapshot, at time.Time) error {
	if last := time.Now().Add(jscontrol.MaxDelay - time.Hour); at.After(last) {
		at = last
	}
	return w.queue.PublishAt(ctx, control.Command{
		Kind: control.Expire, Session: snap.Session, AgentType: snap.AgentType, RunID: snap.Run.ID, Deadline: at,
	}, at)
}

// expire stores an answer for every call whose deadline has passed.
func (w *Workers) expire(ctx context.Context, snap fold.Snapshot, c control.Command) error {
	if runPhase(snap, c.RunID) != phaseSuspended {
		return nil // the run was resumed
	}
	for _, a := range conversation.Expire(conversation.PendingCalls(snap, c.RunID), c.Deadline.Add(time.Millisecond)) { // that of the command has passed
		if err := w.inbox.Answer(ctx, a); err != nil && !errors.Is(err, control.ErrAnswered) {
			return err
		}
	}
	return w.afterPause(ctx, snap)
}

// unanswered returns the calls without an answer that the suspended run of a session waits for.
func (w *Workers) unanswered(ctx context.Context, snap fold.Snapshot) ([]conversation.PendingCall, error) {
	answers, err := w.answers(ctx, snap.Session, snap.Run.ID)
	return slices.DeleteFunc(conversation.PendingCalls(snap, snap.Run.ID), func(c conversation.PendingCall) bool {
		_, ok := answers[c.CallID]
		return ok
	}), err
}

// continueSuspended requests what the suspended run of a session waits for: its Abort if the inbox has that request, or its Resume
// if all answers are stored. Another process that requested one of them may have found a command of the session on the queue, and
// relied on its worker.
func (w *Workers) continueSuspended(ctx context.Context, snap fold.Snapshot) error {
	if runPhase(snap, snap.Run.ID) != phaseSuspended {
		return nil
	}
	if aborted, err := w.abortIfRequested(ctx, snap); aborted || err != nil {
		return err
	}
	return w.requestResume(ctx, snap)
}

// requestResume queues a Resume of the suspended run of a session if all answers are stored.
func (w *Workers) requestResume(ctx context.Context, snap fold.Snapshot) error {
	answers, err := w.answers(ctx, snap.Session, snap.Run.ID)
	if err != nil {
		return err
	}
	c, ok := conversation.Resume(snap, answers, time.Now())
	if !ok {
		return nil
	}
	return w.request(ctx, c, snap)
}

// request publishes the next command of a session, for which snap was loaded. A command on the queue that is
// complete must not prevent that. Otherwise:
//  1. A worker pauses a run and crashes; its command is redelivered after the lease.
//  2. The answers arrive earlier, and the run is resumed by another command.
//  3. It pauses for a sub-agent, whose worker requests the Resume and finds the command of 1.
//  4. The next worker of that command sees a run that has ended, and no process resumes the new one.
//
// Any other command on the queue belongs to a worker that has yet to load the session, and that will see the
// same records.
func (w *Workers) request(ctx context.Context, c control.Command, snap fold.Snapshot) error {
	err := w.requestAfter(ctx, c, snap)
	if busy, ok := errors.AsType[*control.BusyError](err); ok && busy.Unreadable == nil {
		return nil
	}
	return err
}

// requestAfter is request, and returns control.ErrBusy if another command is on the queue.
func (w *Workers) requestAfter(ctx context.Context, c control.Command, snap fold.Snapshot) error {
	for after := control.Revision(0); ; {
		err := w.queue.Request(ctx, c, after)
		busy, ok := errors.AsType[*control.BusyError](err)
		if !ok || busy.Unreadable != nil || !conversation.Done(snap, busy.Command) {
			return err
		}
		after = busy.Revision
	}
}

// startChild requests the run of a sub-agent. The command is a function of the log, and thus the same from
// every worker.
func (w *Workers) startChild(ctx context.Context, snap fold.Snapshot, call conversation.PendingCall) error {
	parent := control.Parent{Session: snap.Session.ID, AgentType: snap.AgentType, RunID: snap.Run.ID, CallID: call.CallID, ToolName: call.ToolName}
	return w.request(ctx, childCommand(snap.Session, parent, call.Child.Type, call.Input), fold.Snapshot{})
}

// childCommand returns the command of the sub-agent that the call of a session starts.
func childCommand(s chunk.Session, p control.Parent, agentType string, input chunk.Value) control.Command {
	return control.Command{
		Kind: control.Execute, Session: control.SubagentSession(s, p.RunID, p.CallID), AgentType: agentType,
		RunID:  control.SubagentRunID(s, p.RunID, p.CallID),
		Input:  []chunk.InputMessage{{Content: messageIn(input)}},
		Params: input,
		Parent: &p,
	}
}

// messageIn returns the input message of a sub-agent.
func messageIn(input chunk.Value) string {
	var in struct {
		Message *string `json:"message"`
	}
	if json.Unmarshal(input, &in) == nil && in.Message != nil {
		return *in.Message
	}
	return input.String()
}

// afterEnd stores the result of a run as the answer to its parent's call, and starts a message that waits for its end. It is repeated after a crash.
func (w *Workers) afterEnd(ctx context.Context, snap fold.Snapshot, run string) error {
	if err := w.startQueued(ctx, snap.Session, func() (fold.Snapshot, error) { return snap, nil }); err != nil {
		return err
	}
	if snap.Run.ID != run || snap.Run.Parent == nil || snap.Session.IsRoot() {
		return nil
	}
	parent := chunk.Session{Tenant: snap.Session.Tenant, Root: snap.Session.Root, ID: snap.Run.Parent.SessionID}
	at, err := w.snapshot(ctx, parent)
	if err != nil {
		return err
	}
	for _, call := range at.OpenCalls() {
		if call.ID != snap.Run.Parent.CallID || call.Child == nil || call.Child.Session != snap.Session.ID {
			continue
		}
		a := subagentAnswer(snap)
		a.Session, a.RunID, a.CallID, a.ToolName = parent, at.Run.ID, call.ID, call.ToolName
		if err := w.answerParent(ctx, a); err != nil {
			return err
		}
		return w.resumeParent(ctx, parent, a.RunID)
	}
	return nil
}

// resumeParent resumes a suspended parent. It must be called after the answer is stored. Without that order:
//  1. The worker of a sub-agent finds the parent running.
//  2. The parent pauses and finds no answer.
//  3. The answer is stored, and no process resumes the parent.
func (w *Workers) resumeParent(ctx context.Context, parent chunk.Session, run string) error {
	snap, err := w.snapshot(ctx, parent)
	if err != nil {
		return err
	}
	if runPhase(snap, run) != phaseSuspended {
		return nil // the parent reads the answers after its pause
	}
	return w.requestResume(ctx, snap)
}

// answerParent stores the result of a sub-agent. A result that exceeds the limits is replaced by an error, so
// that the parent is resumed.
func (w *Workers) answerParent(ctx context.Context, a control.Answer) error {
	err := w.inbox.Answer(ctx, a)
	if errors.Is(err, chunk.ErrTooLarge) || errors.Is(err, chunk.ErrInvalid) {
		w.cfg.Log.WarnContext(ctx, "sub-agent result not stored", "session", a.Session.String(), "run", a.RunID, "call", a.CallID, "error", err)
		a.Result, a.Error, a.ErrorCode = nil, "sub-agent result exceeds the limits", CodeInternal
		err = w.inbox.Answer(ctx, a)
	}
	if errors.Is(err, control.ErrAnswered) {
		return nil
	}
	return err
}

// maxChildError bounds the text of a failure that a parent gets, in bytes.
const maxChildError = 1 << 10

// subagentAnswer returns the result of a sub-agent's run as an answer.
func subagentAnswer(snap fold.Snapshot) control.Answer {
	a := control.Answer{Kind: control.SubagentResult}
	switch snap.Run.Status {
	case fold.RunEnded:
		a.Result = snap.Run.Output
		if len(a.Result) == 0 {
			a.Result, _ = chunk.ValueOf(conversation.LastText(snap)) // a text is always a value
		}
	case fold.RunFailed:
		a.Error, a.ErrorCode = "sub-agent failed", CodeInternal
		if f := snap.Failure; f != nil {
			a.Error = strings.ToValidUTF8(f.Message[:min(len(f.Message), maxChildError)], "")
			if f.Detail != nil && f.Detail.Code != nil {
				a.ErrorCode = *f.Detail.Code
			}
		}
	default:
		a.Error, a.ErrorCode = fmt.Sprintf("sub-agent %s", snap.Run.Status), CodeAborted
	}
	return a
}

// abort fails a suspended run.
func (j *commandJob) abort(ctx context.Context, snap fold.Snapshot) error {
	if snap.Run.ID != j.cmd.RunID {
		return nil
	}
	switch snap.Run.Status {
	case fold.RunSuspended, fold.RunInterrupted, fold.RunRunning: // running: the previous worker of this command crashed
		return j.abandon(ctx, snap, abortError(j.cmd.Reason))
	}
	return j.w.afterEnd(ctx, snap, j.cmd.RunID)
}

// abandon opens a run that has no worker once more, gives its calls an outcome, and fails it with reason.
func (j *commandJob) abandon(ctx context.Context, snap fold.Snapshot, reason *Error) error {
	t, err := j.reopen(ctx, snap)
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.fail(ctx, reason); err != nil {
		return err
	}
	if err := t.refresh(ctx); err != nil {
		return err
	}
	return j.w.afterEnd(ctx, t.snap, t.snap.Run.ID)
}

// reopen starts the latest, suspended run of a session again with a new writer, and aborts its sub-agents.
func (j *commandJob) reopen(ctx context.Context, snap fold.Snapshot) (*Turn, error) {
	job := *j
	job.cmd.RunID, job.cmd.Input = snap.Run.ID, nil
	t, err := job.start(ctx, snap, chunk.RunStarted{
		RunID: snap.Run.ID, Mode: modeConclude, CheckpointID: snap.CheckpointID, Parent: snap.Run.Parent,
	})
	if err != nil {
		return nil, err
	}
	t.step = t.snap.Run.Step // it is committed: the run has paused after it
	if err := j.w.stopChildren(ctx, t.snap, t.snap.Run.ID); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// concludeInterrupted ends the run of this command, which another worker had opened in order to end it. If this worker took the run
// over instead, as one that is running:
//  1. Worker A starts a message: it opens the suspended run in order to end it, and crashes.
//  2. Worker B has a late delivery of the command of that run, takes it over, and crashes.
//  3. The run is active, and its own command was acknowledged when it was suspended: the message waits for its end.
func (j *commandJob) concludeInterrupted(ctx context.Context, snap fold.Snapshot) error {
	stop, wanted, err := j.w.inbox.StopRequest(ctx, snap.Session, snap.Run.ID)
	switch {
	case err != nil:
		return err
	case wanted && stop.Kind == control.StopAbort:
		return j.abandon(ctx, snap, abortError(stop.Reason))
	}
	if err := j.conclude(ctx, snap); err != nil {
		return err
	}
	return errRetry
}

// conclude ends the suspended turn before the next one starts: its calls get the stored answers, and
// CodeAbandoned without one. The outcomes are thus in the turn of their calls.
func (j *commandJob) conclude(ctx context.Context, snap fold.Snapshot) error {
	t, err := j.reopen(ctx, snap)
	if err != nil {
		return err
	}
	defer t.close()
	answers, err := j.w.answers(ctx, snap.Session, snap.Run.ID)
	if err != nil {
		return err
	}
	for _, call := range t.snap.OpenCalls() {
		if call.Approved {
			continue // the agent runs it in the next turn
		}
		if err := t.completeCall(ctx, t.step, call, t.outcomeFor(ctx, answers, call)); isRejected(err) {
			return t.fail(ctx, err)
		} else if err != nil {
			return err
		}
	}
	t.trace.outcome = runCompleted
	return t.run.End(ctx, nil)
}

// stopChildren aborts the sub-agents of an aborted run. A queued or running sub-agent gets a stop request in
// its inbox, a suspended one also an Abort command.
func (w *Workers) stopChildren(ctx context.Context, parent fold.Snapshot, run string) error {
	for _, call := range conversation.PendingCalls(parent, run) {
		if call.Child == nil {
			continue
		}
		if err := w.stopChild(ctx, parent.Session.Child(call.Child.Session), control.SubagentRunID(parent.Session, run, call.CallID)); err != nil {
			return err
		}
	}
	return nil
}

func (w *Workers) stopChild(ctx context.Context, s chunk.Session, first string) error {
	snap, err := w.snapshot(ctx, s)
	if err != nil {
		return err
	}
	stop := control.Stop{Session: s, RunID: cmp.Or(snap.Run.ID, first), Kind: control.StopAbort, Reason: "parent run stopped"}
	if runPhase(snap, stop.RunID) == phaseDone {
		return nil
	}
	if err := w.inbox.Stop(ctx, stop); err != nil {
		return err
	}
	if runPhase(snap, stop.RunID) != phaseSuspended {
		return nil // the run reads its inbox after a pause
	}
	return w.request(ctx, conversation.Abort(snap, stop), snap)
}

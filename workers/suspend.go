package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/projector/fold"
)

var zeroTime time.Time

// suspend pauses the run on the calls that others answer.
func (t *Turn) suspend(ctx context.Context) error {
	calls := waiting(t.snap, t.cmd.RunID)
	ids := make([]string, 0, len(calls))
	paused := chunk.RunPaused{RunID: t.cmd.RunID, Reason: suspendedChildren}
	for _, c := range calls {
		if c.Child != nil {
			continue // whoever is listed in a marker waits for a person
		}
		ids = append(ids, c.ID)
		if paused.PendingToolCallID == nil {
			paused.Reason, paused.PendingToolCallID, paused.PendingToolName = suspendedClient, &c.ID, &c.ToolName
		}
	}
	if err := t.keepParams(ctx, paused.Reason, ids); err != nil {
		return err
	}
	if err := t.say(ctx, t.step, paused); err != nil {
		return err
	}
	if err := t.run.Pause(ctx, paused.Reason); err != nil {
		return t.breaks(err)
	}
	if err := t.refresh(ctx); err != nil {
		return err
	}
	return t.w.paused(ctx, t.snap, t.cmd)
}

// paused does what a run that waits owes: its sub-agents are at work, its
// deadline will be heard of, and it goes on if all have answered. It comes after
// the pause and is repeated when the worker dies before the end of it. Without
// that order:
//  1. a sub-agent ends before its parent's pause is in the log,
//  2. its worker sees a parent at work, and leaves it alone,
//  3. the parent pauses, and nobody wakes it.
func (w *Workers) paused(ctx context.Context, snap fold.Snapshot, c commands.Command) error {
	run := snap.Run.ID
	stop, wanted, err := w.inbox.Stopped(ctx, c.Session, run)
	if err != nil {
		return err
	}
	if wanted && stop.Kind == inbox.Abort {
		return w.giveUp(ctx, snap, c.AgentType, stop.Reason)
	}
	answers, err := w.answers(ctx, c.Session, run)
	if err != nil {
		return err
	}
	var next time.Time
	for _, call := range waiting(snap, run) {
		if _, done := answers[call.ID]; done {
			continue
		}
		if call.Child != nil {
			if err := w.startChild(ctx, snap, c.AgentType, call); err != nil {
				return err
			}
			continue
		}
		if p, ok := pendingOf(snap, call.ID); ok && p.Deadline > 0 {
			if d := time.UnixMilli(p.Deadline); next.IsZero() || d.Before(next) {
				next = d
			}
		}
	}
	if !next.IsZero() {
		if err := w.expireAt(ctx, c, run, next); err != nil {
			return err
		}
	}
	return w.wake(ctx, snap, c.AgentType)
}

// giveUp asks for the paused run of a session to be aborted: whoever wanted that
// while the run still worked came too late for it. It is a command of its own that
// ends the run. If the one at hand did:
//  1. a worker pauses a run, and sleeps before it acknowledges the command,
//  2. which is given to another one; that opens the run to end it, and dies,
//  3. the first wakes up, and its acknowledgement takes the command away: the run
//     is at work for ever, and the session takes no other.
func (w *Workers) giveUp(ctx context.Context, snap fold.Snapshot, agentType, reason string) error {
	return w.request(ctx, commands.Command{
		Kind: commands.Abort, Session: snap.Session, AgentType: agentType, RunID: snap.Run.ID, Reason: reason,
	}, snap)
}

// expireAt has the clock answer at a time. One that is further away than the queue
// takes is asked for in stages.
func (w *Workers) expireAt(ctx context.Context, c commands.Command, run string, at time.Time) error {
	if last := time.Now().Add(commands.MaxDelay - time.Hour); at.After(last) {
		at = last
	}
	return w.queue.PublishAt(ctx, commands.Command{
		Kind: commands.Expire, Session: c.Session, AgentType: c.AgentType, RunID: run, Deadline: at,
	}, at)
}

// expire answers, in the name of the clock, what nobody has answered in time.
func (w *Workers) expire(ctx context.Context, snap fold.Snapshot, c commands.Command) error {
	if standing(snap, c.RunID) != atPause {
		return nil // it has gone on, or is about to pause anew
	}
	for _, call := range waiting(snap, c.RunID) {
		p, ok := pendingOf(snap, call.ID)
		if !ok || p.Deadline == 0 || p.Deadline > c.Deadline.UnixMilli() {
			continue
		}
		a := inbox.Answer{
			Session: c.Session, RunID: c.RunID, CallID: call.ID, ToolName: call.ToolName, Kind: inbox.ClientResult,
			Error: "nobody answered in time", ErrorCode: CodeDeadline,
		}
		if call.ApprovalID != "" {
			a.Kind, a.ApprovalID = inbox.Approval, call.ApprovalID
		}
		if err := w.inbox.Answer(ctx, a); err != nil && !errors.Is(err, inbox.ErrAnswered) {
			return err
		}
	}
	return w.paused(ctx, snap, c)
}

// answered reports whether a run has all the answers that it waits for.
func (w *Workers) answered(ctx context.Context, snap fold.Snapshot, run string) (bool, error) {
	answers, err := w.answers(ctx, snap.Session, run)
	if err != nil {
		return false, err
	}
	for _, call := range waiting(snap, run) {
		if _, ok := answers[call.ID]; !ok {
			return false, nil
		}
	}
	return true, nil
}

// wake asks for the paused run of a session to be resumed if all have answered.
// Who does that too asks for the same run, and is told that it is asked for.
func (w *Workers) wake(ctx context.Context, snap fold.Snapshot, agentType string) error {
	run := snap.Run.ID
	ready, err := w.answered(ctx, snap, run)
	if err != nil || !ready {
		return err
	}
	return w.request(ctx, commands.Command{
		Kind: commands.Resume, Session: snap.Session, AgentType: agentType,
		RunID: commands.ResumeRunID(run), Resumes: run, Mode: modeContinue,
	}, snap)
}

// request publishes a session's next command, of which snap is what we saw. A
// command that is there and is spent is no reason to wait. Were it one:
//  1. a worker pauses a run and dies; its command comes again after AckWait,
//  2. the answers come before that, and the run goes on with a command of its own,
//  3. it pauses for a sub-agent, whose worker is to wake it, and finds the command of 1,
//  4. whose next worker sees a run that is over, and nobody wakes anything.
//
// Any other is somebody who is yet to look at the session, and sees what we saw.
func (w *Workers) request(ctx context.Context, c commands.Command, snap fold.Snapshot) error {
	for after := commands.Revision(0); ; {
		err := w.queue.Request(ctx, c, after)
		busy, ok := errors.AsType[*commands.BusyError](err)
		switch {
		case !ok || busy.Unreadable != nil:
			return err
		case !spent(snap, busy.Command):
			return nil
		}
		after = busy.Revision
	}
}

// spent reports whether nothing is left to do for a command but to take it off
// the queue.
func spent(snap fold.Snapshot, c commands.Command) bool {
	switch standing(snap, c.RunID) {
	case isOver:
		return true
	case atPause:
		return c.Kind != commands.Abort
	}
	return false
}

// startChild asks for the sub-agent of a call. What it is asked is a function of
// what the log has, so that it is the same whoever does it.
func (w *Workers) startChild(ctx context.Context, snap fold.Snapshot, agentType string, call fold.Call) error {
	s, run := snap.Session, snap.Run.ID
	return w.request(ctx, commands.Command{
		Kind: commands.Execute, Session: childSession(s, run, call.ID), AgentType: call.Child.Type,
		RunID:  childRun(s, run, call.ID),
		Input:  []chunk.InputMessage{{Content: messageIn(call.Input)}},
		Params: call.Input,
		Parent: &commands.Parent{Session: s.ID, AgentType: agentType, RunID: run, CallID: call.ID, ToolName: call.ToolName},
	}, fold.Snapshot{})
}

// messageIn is the text that a sub-agent is asked with.
func messageIn(input chunk.Value) string {
	var in struct {
		Message *string `json:"message"`
	}
	if json.Unmarshal(input, &in) == nil && in.Message != nil {
		return *in.Message
	}
	return input.String()
}

// ended does what a run that is over owes: the parent that waits for it is told.
// It is repeated when the worker dies before the end of it.
func (w *Workers) ended(ctx context.Context, snap fold.Snapshot, run string) error {
	if snap.Run.ID != run || snap.Run.Parent == nil || snap.Session.IsRoot() {
		return nil
	}
	parent := chunk.Session{Tenant: snap.Session.Tenant, Root: snap.Session.Root, ID: snap.Run.Parent.SessionID}
	at, err := w.look(ctx, parent)
	if err != nil {
		return err
	}
	for _, call := range at.Unsettled() {
		if call.ID != snap.Run.Parent.CallID || call.Child == nil || call.Child.Session != snap.Session.ID {
			continue
		}
		a := result(snap)
		a.Session, a.RunID, a.CallID, a.ToolName = parent, at.Run.ID, call.ID, call.ToolName
		if err := w.answerParent(ctx, a); err != nil {
			return err
		}
		return w.wakeParent(ctx, parent, a.RunID)
	}
	return nil
}

// wakeParent looks at a parent after it was answered, and never before. Without
// that order:
//  1. a sub-agent's worker sees its parent at work,
//  2. the parent pauses, and finds no answer,
//  3. the answer is stored, and nobody wakes the parent.
func (w *Workers) wakeParent(ctx context.Context, parent chunk.Session, run string) error {
	snap, err := w.look(ctx, parent)
	if err != nil {
		return err
	}
	if standing(snap, run) != atPause {
		return nil // it looks for answers when it has paused
	}
	return w.wake(ctx, snap, snap.AgentType)
}

// answerParent stores a result. One that is too large for an answer is an error
// that says so: the parent must not wait for ever.
func (w *Workers) answerParent(ctx context.Context, a inbox.Answer) error {
	err := w.inbox.Answer(ctx, a)
	if errors.Is(err, chunk.ErrTooLarge) || errors.Is(err, chunk.ErrInvalid) {
		w.cfg.Log.WarnContext(ctx, "the result of a sub-agent cannot be told to its parent", "session", a.Session.String(), "run", a.RunID, "call", a.CallID, "error", err)
		a.Result, a.Error, a.ErrorCode = nil, "the sub-agent's result cannot be passed on", CodeInternal
		err = w.inbox.Answer(ctx, a)
	}
	if errors.Is(err, inbox.ErrAnswered) {
		return nil
	}
	return err
}

// result is what came of a sub-agent's run.
func result(snap fold.Snapshot) inbox.Answer {
	a := inbox.Answer{Kind: inbox.SubagentResult}
	switch snap.Run.Status {
	case fold.RunEnded:
		a.Result = snap.Run.Output
		if len(a.Result) == 0 {
			a.Result, _ = chunk.ValueOf(lastText(snap)) // a text is always a value
		}
	case fold.RunFailed:
		a.Error, a.ErrorCode = "the sub-agent failed", CodeInternal
		if f := snap.Failure; f != nil {
			a.Error = clip(f.Message)
			if f.Detail != nil && f.Detail.Code != nil {
				a.ErrorCode = *f.Detail.Code
			}
		}
	default:
		a.Error, a.ErrorCode = fmt.Sprintf("the sub-agent was %s", snap.Run.Status), CodeAborted
	}
	return a
}

// clip is s as an answer holds it.
func clip(s string) string {
	const most = 1 << 10
	for n := most; n < len(s); n-- {
		if s[n]&0xC0 != 0x80 {
			return s[:n]
		}
	}
	return s
}

// lastText is the last thing that the answer of a run said.
func lastText(snap fold.Snapshot) string {
	list := messagesOf(snap.Transcript(snap.TurnMessages()))
	for _, m := range slices.Backward(list) {
		if text := m.Text(); m.Role == fold.Assistant && text != "" {
			return text
		}
	}
	return ""
}

// abort fails a run that waits.
func (j *job) abort(ctx context.Context, snap fold.Snapshot) error {
	if snap.Run.ID != j.cmd.RunID {
		return nil
	}
	switch snap.Run.Status {
	case fold.RunSuspended, fold.RunInterrupted, fold.RunRunning: // running: another worker died over this command
		return j.abandon(ctx, snap, j.cmd.Reason)
	}
	return j.w.ended(ctx, snap, j.cmd.RunID)
}

// abandon opens a run that waits once more, gives its calls an outcome, and fails
// it.
func (j *job) abandon(ctx context.Context, snap fold.Snapshot, reason string) error {
	t, err := j.reopen(ctx, snap)
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.abort(ctx, reason); err != nil {
		return err
	}
	if err := t.refresh(ctx); err != nil {
		return err
	}
	return j.w.ended(ctx, t.snap, t.snap.Run.ID)
}

// reopen is the latest run of a session, which waits, under a new writer. Its
// sub-agents are told to stop.
func (j *job) reopen(ctx context.Context, snap fold.Snapshot) (*Turn, error) {
	again := *j
	again.cmd.RunID, again.cmd.Input = snap.Run.ID, nil
	t, err := again.start(ctx, snap, chunk.RunStarted{
		RunID: snap.Run.ID, Mode: modeConclude, CheckpointID: snap.CheckpointID, Parent: snap.Run.Parent,
	})
	if err != nil {
		return nil, err
	}
	t.step = t.snap.Run.Step // all of it is committed: the run has paused on it
	if err := j.w.stopChildren(ctx, t.snap, t.snap.Run.ID); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// conclude ends the turn that waits, before another one is opened: its calls get
// the outcomes that people gave, and those that nobody answered are abandoned. So
// they are told where they were asked for.
func (j *job) conclude(ctx context.Context, snap fold.Snapshot) error {
	t, err := j.reopen(ctx, snap)
	if err != nil {
		return err
	}
	defer t.close()
	answers, err := j.w.answers(ctx, snap.Session, snap.Run.ID)
	if err != nil {
		return err
	}
	for _, call := range t.snap.Unsettled() {
		if call.Granted {
			continue // the agent runs it in the turn that follows
		}
		if err := t.settleOne(ctx, t.step, call, outcomeIn(answers, call.ID)); err != nil {
			return err
		}
	}
	return t.run.End(ctx, nil)
}

// stopChildren aborts the sub-agents of a run that nobody waits for any more. One
// that has begun, or is to begin, hears it in its inbox; one that waits itself
// gets a command.
func (w *Workers) stopChildren(ctx context.Context, parent fold.Snapshot, run string) error {
	for _, call := range waiting(parent, run) {
		if call.Child == nil {
			continue
		}
		if err := w.stopChild(ctx, parent.Session.Child(call.Child.Session), call.Child.Type, childRun(parent.Session, run, call.ID)); err != nil {
			return err
		}
	}
	return nil
}

func (w *Workers) stopChild(ctx context.Context, s chunk.Session, agentType, first string) error {
	const why = "its parent was stopped"
	snap, err := w.look(ctx, s)
	if err != nil {
		return err
	}
	run := snap.Run.ID
	switch {
	case run == "":
		run = first
	case standing(snap, run) == isOver:
		return nil
	}
	if err := w.inbox.Stop(ctx, inbox.Stop{Session: s, RunID: run, Kind: inbox.Abort, Reason: why}); err != nil {
		return err
	}
	if standing(snap, run) != atPause {
		return nil // should it pause just now, it looks into its inbox
	}
	return w.giveUp(ctx, snap, agentType, why)
}

package conversation

import (
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/projector/fold"
)

// PendingCall is a call that a suspended run waits for.
type PendingCall struct {
	Session  chunk.Session
	RunID    string // that made the call
	CallID   string // in its own session
	UICallID string // as a client has it
	ToolName string
	Kind     control.AnswerKind
	Approval string      // its id, of an control.Approval
	Child    *fold.Child // of a control.SubagentResult
	Input    chunk.Value
	Deadline int64 // in milliseconds since 1970 UTC, 0 for none

	// Answer is the accepted answer, nil while there is none.
	Answer *control.Answer
}

// PendingCalls returns the calls that a run waits for: those of users and browsers, and those of the sub-agents that it has started.
func PendingCalls(s fold.Snapshot, run string) []PendingCall {
	return slices.DeleteFunc(pendingCalls(s, run), func(c PendingCall) bool {
		return c.Child != nil && c.Child.Session != control.SubagentSession(s.Session, run, c.CallID).ID
	})
}

// pendingCalls returns the calls that a run waits for, with all running sub-agents: those of other writers have any session.
func pendingCalls(s fold.Snapshot, run string) []PendingCall {
	var calls []PendingCall
	for _, c := range s.OpenCalls() {
		w := PendingCall{Session: s.Session, RunID: run, CallID: c.ID, ToolName: c.ToolName, Input: c.Input, Child: c.Child}
		at := slices.IndexFunc(s.Pending, func(p fold.PendingCall) bool { return p.CallID == c.ID && p.RunID == run })
		switch {
		case c.Child != nil:
			w.Kind = control.SubagentResult
		case c.Approved || at < 0:
			continue
		case s.Pending[at].Kind == fold.PendingApproval:
			w.Kind, w.Approval, w.Deadline = control.Approval, s.Pending[at].ApprovalID, s.Pending[at].Deadline
		default:
			w.Kind, w.Deadline = control.ClientResult, s.Pending[at].Deadline
		}
		calls = append(calls, w)
	}
	return calls
}

// NextDeadline returns the first deadline of calls, false if none has one.
func NextDeadline(calls []PendingCall) (time.Time, bool) {
	var next int64
	for _, c := range calls {
		if c.Deadline > 0 && (next == 0 || c.Deadline < next) {
			next = c.Deadline
		}
	}
	return time.UnixMilli(next), next > 0
}

// Expire returns the answers of the calls whose deadline has passed.
func Expire(calls []PendingCall, now time.Time) []control.Answer {
	late := slices.DeleteFunc(slices.Clone(calls), func(c PendingCall) bool { return !c.expired(now) })
	return failAll(late, "no answer before the deadline", control.CodeDeadline)
}

// expired reports whether the deadline passed without an answer.
func (w *PendingCall) expired(now time.Time) bool {
	return w.Answer == nil && w.Deadline > 0 && w.Deadline < now.UnixMilli()
}

func failAll(waits []PendingCall, text, code string) []control.Answer {
	var out []control.Answer
	for _, w := range waits {
		if w.Kind == control.SubagentResult {
			continue // the worker of the sub-agent stores its result
		}
		a := w.answer()
		a.Error, a.ErrorCode = text, code
		out = append(out, a)
	}
	return out
}

// answer returns an answer to the call without a result.
func (w *PendingCall) answer() control.Answer {
	return control.Answer{Session: w.Session, RunID: w.RunID, CallID: w.CallID, ToolName: w.ToolName, Kind: w.Kind, ApprovalID: w.Approval}
}

// Resume returns the command that resumes the suspended run of a session, false while a call has no answer, or was abandoned for a message that is about to start
// a run. It is the same for every process that requests it.
func Resume(s fold.Snapshot, answers map[string]control.Answer, now time.Time) (control.Command, bool) {
	for _, c := range PendingCalls(s, s.Run.ID) {
		if a, ok := answers[c.CallID]; !ok || a.AwaitsMessage(now) {
			return control.Command{}, false
		}
	}
	return resumeCommand(s.Session, s.AgentType, s.Run.ID), true
}

func resumeCommand(s chunk.Session, agentType, run string) control.Command {
	return control.Command{Kind: control.Resume, Session: s, AgentType: agentType, RunID: control.ResumeRunID(run), Resumes: run, Mode: modeContinue}
}

// Abort returns the command that fails the suspended run of a session. A stop request that a run did not read before it paused needs a command of its own. If the
// current command aborted the run instead:
//  1. Worker A pauses a run and stalls before it acknowledges the command.
//  2. The command is redelivered to worker B, which starts the run in order to end it, and crashes.
//  3. Worker A acknowledges the command. The run stays active forever, and the session accepts no other run.
func Abort(s fold.Snapshot, stop control.Stop) control.Command {
	return control.Command{Kind: control.Abort, Session: s.Session, AgentType: s.AgentType, RunID: s.Run.ID, Reason: stop.Reason}
}

// Done reports whether a command needs only its acknowledgement.
func Done(s fold.Snapshot, c control.Command) bool {
	if s.Run.ID != c.RunID {
		return slices.ContainsFunc(s.PastRuns, func(r fold.Run) bool { return r.ID == c.RunID })
	}
	return s.Run.Status != fold.RunRunning && (s.Run.Status != fold.RunSuspended || c.Kind != control.Abort)
}

// LastText returns the last text of the answer of a run, "" if it has none.
func LastText(s fold.Snapshot) string {
	for _, m := range slices.Backward(s.Messages(s.TurnMessages())) {
		if text := m.Text(); m.Role == fold.Assistant && text != "" {
			return text
		}
	}
	return ""
}

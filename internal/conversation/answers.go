package conversation

import (
	"bytes"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// answerSet has the answers of a request, sorted.
type answerSet struct {
	intents  []control.Answer // to calls without an answer, CS-18
	known    bool             // equal to the accepted answer, CS-19
	lost     *control.Answer  // the accepted answer, if another one was accepted first
	rejected []Rejection      // to calls that do not wait, CS-20
}

// sort classifies every answer in the message of a request. Most are old: a client sends the whole message with each POST.
func (r Request) sort(state *State) answerSet {
	var s answerSet
	if r.Answered == nil {
		return s
	}
	for _, c := range r.Answered.Answers {
		w := state.wait(c.CallID)
		if w == nil {
			s.completed(state, c)
			continue
		}
		reason := w.mismatch(c, !state.hides.Inputs)
		switch {
		case reason != "":
			s.reject(state, c, reason)
		case w.Answer == nil:
			s.addIntent(w.take(c))
		case same(*w.Answer, w.take(c)):
			s.known = true
		case w.Answer.ErrorCode == control.CodeDeadline:
			s.reject(state, c, Expired)
		default:
			lost := *w.Answer
			lost.CallID = c.CallID // as the client knows it
			s.lost = &lost
		}
	}
	return s
}

// completed returns the rejection of an answer to a call that no run waits for any more, or that does not exist.
func (s *answerSet) completed(state *State, c control.Answer) {
	call, known := state.Calls[c.CallID]
	agent, _ := dialect.SplitCallID(c.CallID, state.isSubAgent)
	switch {
	case !known && agent != "":
		s.known = true // its sub-agent ended earlier
	case !known && c.Kind == control.Approval && runOf(c.ApprovalID) != "" && runOf(c.ApprovalID) != state.Run.ID:
		s.reject(state, c, StaleRun)
	case !known:
		s.reject(state, c, UnknownCall)
	case c.Kind == control.Approval && call.ApprovalID == "":
		s.reject(state, c, KindMismatch)
	case c.Kind == control.Approval && call.ApprovalID != c.ApprovalID:
		s.reject(state, c, StaleRun)
	case c.Kind == control.Approval && call.Approved != nil && *call.Approved != c.Approved:
		s.reject(state, c, AlreadyResolved)
	default:
		s.known = true
	}
}

func (s *answerSet) reject(state *State, c control.Answer, reason RejectionReason) {
	r := Rejection{Reason: reason, ToolCallID: c.CallID, ApprovalID: c.ApprovalID, Kind: c.Kind, Message: RejectionTexts[reason]}
	if !state.hides.RunIDs {
		r.CurrentRunID = state.Run.ID
	}
	s.rejected = append(s.rejected, r)
}

// addIntent adds the first answer to each call.
func (s *answerSet) addIntent(a control.Answer) {
	for _, other := range s.intents {
		if other.Session == a.Session && other.CallID == a.CallID {
			return
		}
	}
	s.intents = append(s.intents, a)
}

// mismatch returns the reason why an answer does not match its call, CS-14, "" if it does.
func (w *PendingCall) mismatch(c control.Answer, showsInput bool) RejectionReason {
	switch {
	case w.Kind != c.Kind:
		return KindMismatch
	case w.Kind == control.Approval && w.isApproval(c.ApprovalID) && !w.isBound(c, showsInput):
		return InputMismatch
	case w.Kind != control.Approval || w.isApproval(c.ApprovalID):
		return ""
	case runOf(c.ApprovalID) != runOf(w.Approval):
		return StaleRun
	}
	return ApprovalMismatch
}

// isApproval reports whether an id is that of the approval. A client of Mastra makes it from the id of the run and its own id of the call.
func (w *PendingCall) isApproval(id string) bool {
	run, made := strings.CutSuffix(w.Approval, "::"+w.CallID)
	return id == w.Approval || made && id == run+"::"+w.UICallID
}

// isBound reports whether an approval is for the present input of the call, as far as the client says what it was shown. A denial needs no such proof.
//  1. a client shows the input of a call,
//  2. the worker dies, and the next one repeats the step; the model makes the call with the same id and another input,
//  3. the user approves what is shown.
//
// A client that must not see the input cannot approve it. Otherwise it could find the input out, too: each guess would be compared.
func (w *PendingCall) isBound(c control.Answer, showsInput bool) bool {
	return !c.Approved || showsInput && (c.InputHash == "" || c.InputHash == control.InputHash(w.Input))
}

// runOf returns the run in an approval id.
func runOf(approvalID string) string {
	run, _, found := strings.Cut(approvalID, "::")
	if !found {
		return ""
	}
	return run
}

// take returns a candidate as an answer to the call.
func (w *PendingCall) take(c control.Answer) control.Answer {
	a := w.answer()
	switch {
	case c.Kind == control.Approval:
		a.Approved, a.Reason = c.Approved, c.Reason
		if a.Approved { // the worker compares it with the input that it would execute
			a.InputHash = control.InputHash(w.Input)
		}
	case c.Failed():
		a.Error, a.ErrorCode = c.Error, c.ErrorCode
	default:
		a.Result = c.Result
	}
	return a
}

// same reports whether two answers to a call are equal.
func same(a, b control.Answer) bool {
	return a.Kind == b.Kind && a.Approved == b.Approved && a.ApprovalID == b.ApprovalID &&
		a.Failed() == b.Failed() && a.Error == b.Error && a.ErrorCode == b.ErrorCode && sameJSON(a.Result, b.Result)
}

func sameJSON(a, b chunk.Value) bool {
	return a.IsNull() && b.IsNull() || bytes.Equal(rawjson.AppendCompact(nil, a), rawjson.AppendCompact(nil, b))
}

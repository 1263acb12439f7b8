package conversation

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/projector/fold"
)

var (
	wantResult   = invalid("want a result or an error, and not both")
	wantApproval = invalid("want approvalId and approved, and no result")
	isNoApproval = invalid("a result is not an approval")
)

// check rejects an answer with contradicting members. The zero Result is null: an answer of a Go program may have neither a result nor an error.
func check(c control.Answer) *Refusal {
	switch c.Kind {
	case control.ClientResult:
		switch {
		case len(c.Result) > 0 && c.Failed():
			return wantResult
		case c.Approved:
			return isNoApproval
		}
	case control.Approval:
		if len(c.Result) > 0 || c.Failed() {
			return wantApproval
		}
	default:
		return invalid("this kind is unknown: want client-tool-result or approval-response")
	}
	return nil
}

// lenient has options for JSON from browsers: a request with a lone surrogate is not rejected.
var lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// ParseAnswer parses one answer, docs/protocol/chat.md#helix-6.5, and checks what does not depend on the state of the chat, CS-13 and CS-15. Unknown members are ignored.
func ParseAnswer(text []byte) (control.Answer, *Refusal) {
	var b struct {
		Kind       control.AnswerKind `json:"kind"`
		ToolCallID string             `json:"toolCallId"`
		Result     chunk.Value        `json:"result"`
		Error      *string            `json:"error"`
		ApprovalID string             `json:"approvalId"`
		Approved   *bool              `json:"approved"`
		Reason     string             `json:"reason"`
		InputHash  string             `json:"inputHash"`
	}
	if err := json.Unmarshal(text, &b, lenient); err != nil {
		return control.Answer{}, invalid("the body is not an answer to a call")
	}
	c := control.Answer{Kind: cmp.Or(b.Kind, control.ClientResult), CallID: b.ToolCallID, ApprovalID: b.ApprovalID, Reason: b.Reason, InputHash: b.InputHash, Result: b.Result}
	if b.Error != nil {
		c.Error, c.ErrorCode = *b.Error, control.CodeToolFailed
	}
	switch {
	case b.ToolCallID == "" || !dialect.FitsID(b.ToolCallID) || !dialect.FitsID(b.ApprovalID):
		return c, refusal(ReasonBadID)
	case c.Kind == control.ClientResult && len(b.Result) == 0 && b.Error == nil:
		return c, wantResult
	case c.Kind == control.ClientResult && b.Approved != nil:
		return c, isNoApproval
	case c.Kind == control.Approval && (b.Approved == nil || b.ApprovalID == ""):
		return c, wantApproval
	}
	c.Approved = b.Approved != nil && *b.Approved
	return c, check(c)
}

// Answer stores an answer to a call, and requests the resume of the run if it was the last one that the run waits for. It returns nil if the answer is
// stored. agentType is "" or that of the session.
func (s *Service) Answer(ctx context.Context, id chunk.Session, agentType string, c control.Answer) *Refusal {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	r := check(c)
	if r == nil {
		r = s.store(ctx, Request{Session: id, Request: dialect.Request{AgentType: agentType}}, c)
	}
	if r != nil {
		s.observe.Refused(r)
	}
	return s.caller.shown(r)
}

// store stores an answer. It does not request the resume: the next request that loads the state does.
func (s *Service) store(ctx context.Context, req Request, c control.Answer) *Refusal {
	if r := s.CheckAgent(req.AgentType); r != nil {
		return r
	}
	state, snap, err := s.loadState(ctx, req.Session, s.typesOf(req.AgentType), withAnswer)
	if err == nil && state.wait(c.CallID) == nil {
		state, snap, err = s.loadState(ctx, req.Session, s.typesOf(req.AgentType), withMessages)
	}
	if err != nil {
		return s.Failed(ctx, req.Session, "look", err)
	}
	wait := state.wait(c.CallID)
	if wait == nil {
		return s.refuseUnawaited(ctx, &state, snap, c)
	}
	switch wait.mismatch(c, !state.hides.Inputs) {
	case "":
	case KindMismatch:
		return refusal(ReasonWrongKind)
	case InputMismatch:
		return refusal(ReasonWrongInput)
	default:
		return refusal(ReasonWrongApproval)
	}
	answer := wait.take(c)
	if wait.expired(state.Now) {
		answer = Expire([]PendingCall{*wait}, state.Now)[0]
	}
	err = s.answer(ctx, answer)
	first, late := errors.AsType[*control.AnsweredError](err)
	if err != nil && !late {
		return s.Failed(ctx, req.Session, "answer", err)
	}
	if !late && answer.ErrorCode != control.CodeDeadline {
		s.observe.Accepted()
	}
	if plan, _ := s.decide(ctx, &req); plan.Refusal != nil && !late {
		// It is stored: the next request that loads the state requests the resume.
		s.cfg.Log.WarnContext(ctx, "run not resumed yet", "session", req.Session.String(), "reason", plan.Refusal.Reason)
	}
	if late {
		answer = first.Answer
	}
	if late || answer.ErrorCode == control.CodeDeadline {
		answer.CallID = c.CallID // the inbox has the id of the call in the sub-agent's session
		return alreadyAnswered(answer)
	}
	return nil
}

// refuseUnawaited returns the refusal of an answer to a call that no run waits for: the call has an outcome, was not made yet, or does not exist.
func (s *Service) refuseUnawaited(ctx context.Context, state *State, snap fold.Snapshot, c control.Answer) *Refusal {
	agent, id := dialect.SplitCallID(c.CallID, state.isSubAgent)
	if agent != "" {
		// The calls of a sub-agent that has ended are not in the state.
		child, err := s.ports.Snapshots.Snapshot(ctx, state.Session.Child(agent))
		if err != nil && !errors.Is(err, chunk.ErrUnknownSession) {
			return s.Failed(ctx, state.Session, "look", err)
		}
		state.addCalls(child.Messages(0), agent)
		snap = child
	}
	switch call, known := state.Calls[c.CallID]; {
	case !known:
		return refusal(ReasonUnknownCall)
	case !call.answered() && (state.working() || snap.Status == fold.Active):
		return s.callInFlight(ctx, snap, id, c.CallID)
	default:
		return alreadyAnswered(call.first(c.CallID))
	}
}

// callInFlight returns the refusal of an answer to a call without an outcome while a run is in progress: the call does not wait yet, or its answer is not in
// the log yet.
func (s *Service) callInFlight(ctx context.Context, snap fold.Snapshot, callID, clientID string) *Refusal {
	for _, p := range snap.Pending {
		if p.CallID != callID {
			continue
		}
		answers, err := s.ports.Inbox.Answers(ctx, snap.Session, p.RunID)
		if err != nil {
			return s.Failed(ctx, snap.Session, "answers", err)
		}
		for _, first := range answers {
			if first.CallID == callID {
				first.CallID = clientID
				return alreadyAnswered(first)
			}
		}
	}
	return refusal(ReasonStillRunning)
}

// StopAnswer requests that the answer in flight ends at its next step, and returns its run, "" if there is none.
func (s *Service) StopAnswer(ctx context.Context, id chunk.Session, agentType, reason string) (run string, r *Refusal) {
	if r := s.CheckAgent(agentType); r != nil {
		return "", r
	}
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	run, state, err := s.requestStop(ctx, id, agentType, reason)
	if err != nil {
		return "", s.Failed(ctx, id, "stop", err)
	}
	return run, s.endWithoutWorker(ctx, &state)
}

// requestStop stores a stop request and returns the stopped run with the state before. It aborts a run that waits for sub-agents by a command, and the
// sub-agents with it: no worker reads its inbox, and it would resume under another id.
func (s *Service) requestStop(ctx context.Context, session chunk.Session, agentType, reason string) (run string, state State, err error) {
	for {
		state, _, err = s.loadState(ctx, session, s.typesOf(agentType), withBranches)
		if err != nil {
			return "", state, err
		}
		switch c := state.Waiting(); {
		case c != nil:
			run = c.RunID
		case state.awaitsSubAgents():
			abort := control.Command{Kind: control.Abort, Session: session, AgentType: state.AgentType, RunID: state.Run.ID, Reason: reason}
			err = s.record(ctx, audit.Abort, session, state.Run.ID, "", func() error { return s.request(ctx, abort, state.after()) })
			if errors.Is(err, control.ErrBusy) {
				continue // its resume has just been requested
			}
			return state.Run.ID, state, err
		case state.InFlight():
			run = state.Run.ID
		default:
			return "", state, nil
		}
		return run, state, s.storeStop(ctx, control.Stop{Session: session, RunID: run, Kind: control.StopInterrupt, Reason: reason})
	}
}

package workers

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/projector/fold"
)

// The kinds of suspension markers, which edges do not forward.
const (
	suspendedClient   = "suspended_client_tool"
	suspendedChildren = "suspended_awaiting_children"
	suspendedStep     = "suspended_step_partial"
)

// suspensionMarker returns the record that lists the pending calls of a run and stores its parameters: the
// client that resumes the run may not know them.
func suspensionMarker(kind string, calls []string, deadline time.Time, params chunk.Value) chunk.SuspensionMarker {
	payload := struct {
		ToolCallIDs []string    `json:"toolCallIds"`
		Deadline    int64       `json:"deadline,omitempty"`
		Params      chunk.Value `json:"params,omitempty"`
	}{ToolCallIDs: calls, Params: params}
	if !deadline.IsZero() {
		payload.Deadline = deadline.UnixMilli()
	}
	if calls == nil {
		payload.ToolCallIDs = []string{}
	}
	text, err := json.Marshal(payload)
	if err != nil { // unreachable: params was parsed as JSON
		text = []byte(`{"toolCallIds":[]}`)
	}
	return chunk.SuspensionMarker{Kind: kind, Payload: text}
}

// paramsOf returns the parameters in a marker, nil if there are none.
func paramsOf(m chunk.SuspensionMarker) chunk.Value {
	var payload struct {
		Params chunk.Value `json:"params"`
	}
	if json.Unmarshal(m.Payload, &payload) != nil {
		return nil
	}
	return payload.Params
}

// failedAnswer returns the answer to a call that has failed.
func failedAnswer(code, text string) control.Answer {
	return control.Answer{Error: text, ErrorCode: code}
}

// completeCall writes the outcome of a call at a step. An approval is not an outcome: the agent runs the
// approved call.
func (t *Turn) completeCall(ctx context.Context, step int64, c fold.Call, a control.Answer) error {
	if c.ApprovalID != "" && !c.Approved && a.Kind == control.Approval && !a.Failed() {
		decision := chunk.ToolApprovalResponse{ToolCallID: c.ID, ToolName: c.ToolName, ApprovalID: c.ApprovalID, Approved: a.Approved}
		if a.Reason != "" {
			decision.Reason = &a.Reason
		}
		if err := t.emit(ctx, step, decision, control.ByMember(a.By)...); err != nil || a.Approved {
			return err
		}
		a = failedAnswer(CodeDenied, fold.Denial(a.Reason))
	}
	end := chunk.ToolEnd{
		ToolCallID: c.ID, ToolName: c.ToolName, ProviderExecuted: new(c.Child != nil || strings.HasPrefix(c.ToolName, subagentPrefix)),
	}
	if a.Failed() {
		end.Error = new(cmp.Or(a.Error, a.ErrorCode))
	} else {
		end.Result = a.Result
	}
	if a.ErrorCode != "" {
		end.ErrorCode = &a.ErrorCode
	}
	if c.Child != nil {
		if err := t.emit(ctx, step, chunk.SubagentEnd{
			SubAgentType: c.Child.Type, SubSessionID: c.Child.Session, CallID: c.ID, Result: parentAnswer(end),
		}); err != nil {
			return err
		}
	}
	if c.Input == nil && end.Error != nil { // its arguments are incomplete
		return t.emit(ctx, step, chunk.ToolInputError{ToolCallID: c.ID, ToolName: c.ToolName, Error: *end.Error})
	}
	return t.emit(ctx, step, end, control.ByMember(a.By)...)
}

// parentAnswer returns the result for subagent_end: a failure is an object with a member "error" (SA-8).
func parentAnswer(end chunk.ToolEnd) chunk.Value {
	if end.Error == nil {
		return end.Result
	}
	var failed struct {
		Error struct {
			Message string  `json:"message"`
			Code    *string `json:"code,omitempty"`
		} `json:"error"`
	}
	failed.Error.Message, failed.Error.Code = *end.Error, end.ErrorCode
	v, err := chunk.ValueOf(failed)
	if err != nil { // the text is not valid UTF-8
		return chunk.Value(`{"error":{"message":"failed"}}`)
	}
	return v
}

// applyPendingStop applies an abort of the suspended run that was requested after its Resume was queued.
func (t *Turn) applyPendingStop(ctx context.Context, resumes string) error {
	stop, wanted, err := t.w.inbox.StopRequest(ctx, t.cmd.Session, resumes)
	if err != nil || !wanted || stop.Kind != control.StopAbort {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop = stop
	return nil
}

// writeAnswers writes the answers to the previous run that are not in the log yet.
func (t *Turn) writeAnswers(ctx context.Context, resumes string) error {
	if err := t.applyPendingStop(ctx, resumes); err != nil {
		return t.recordWriteErr(err)
	}
	answers, err := t.w.answers(ctx, t.cmd.Session, resumes)
	if err != nil {
		return t.recordWriteErr(err)
	}
	written := 0
	pending := conversation.PendingCalls(t.snap, t.cmd.RunID)
	for _, c := range t.snap.OpenCalls() {
		if c.Approved || slices.ContainsFunc(pending, func(p conversation.PendingCall) bool { return p.CallID == c.ID }) {
			continue
		}
		if err := t.completeCall(ctx, t.step, c, t.outcomeFor(ctx, answers, c)); err != nil {
			return err
		}
		written++
	}
	if written == 0 {
		return nil
	}
	return t.refresh(ctx)
}

// outcomeFor returns the answer to a call, or CodeAbandoned if there is none. An approval counts if it is for the input that the log has, which is the one that
// is executed.
func (t *Turn) outcomeFor(ctx context.Context, answers map[string]control.Answer, c fold.Call) control.Answer {
	a, ok := answers[c.ID]
	switch {
	case !ok:
		return failedAnswer(CodeAbandoned, "no answer to the call")
	case a.Approved && a.InputHash != "" && a.InputHash != control.InputHash(c.Input):
		t.log.WarnContext(ctx, "approval not used", "call", c.ID, "reason", "input mismatch")
		t.w.audit.Record(ctx, audit.Event{Act: audit.RejectAnswer, By: a.By, Session: a.Session, Run: a.RunID, Call: a.CallID}, audit.Refused)
		return failedAnswer(CodeInputMismatch, "the approval was given for another input")
	}
	return a
}

// answers returns the answers to a run by call id.
func (w *Workers) answers(ctx context.Context, s chunk.Session, run string) (map[string]control.Answer, error) {
	list, err := w.inbox.Answers(ctx, s, run)
	if err != nil {
		return nil, err
	}
	byCall := make(map[string]control.Answer, len(list))
	for _, a := range list {
		byCall[a.CallID] = a
	}
	return byCall, nil
}

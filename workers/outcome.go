package workers

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/projector/fold"
)

// The kinds of suspension markers, which stay inside the house.
const (
	suspendedClient   = "suspended_client_tool"
	suspendedChildren = "suspended_awaiting_children"
	suspendedStep     = "suspended_step_partial"
)

// marker says which calls a run waits for, and keeps what the run was asked for
// with: the command that resumes it may come from somebody who does not know.
func marker(kind string, calls []string, deadline time.Time, params chunk.Value) chunk.SuspensionMarker {
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
	if err != nil { // only params can be wrong, and those were read as JSON
		text = []byte(`{"toolCallIds":[]}`)
	}
	return chunk.SuspensionMarker{Kind: kind, Payload: text}
}

// paramsOf is what a marker keeps, nil for nothing.
func paramsOf(m chunk.SuspensionMarker) chunk.Value {
	var payload struct {
		Params chunk.Value `json:"params"`
	}
	if json.Unmarshal(m.Payload, &payload) != nil {
		return nil
	}
	return payload.Params
}

// waits reports whether a call waits for the answer to a run: people's, or a
// sub-agent's.
func waits(snap fold.Snapshot, c fold.Call, run string) bool {
	if c.Granted {
		return false
	}
	if c.Child != nil {
		return c.Child.Session == childSession(snap.Session, run, c.ID).ID
	}
	p, ok := pendingOf(snap, c.ID)
	return ok && p.RunID == run
}

func pendingOf(snap fold.Snapshot, call string) (fold.Pending, bool) {
	for _, p := range snap.Pending {
		if p.CallID == call {
			return p, true
		}
	}
	return fold.Pending{}, false
}

// waiting are the calls that a run waits for.
func waiting(snap fold.Snapshot, run string) []fold.Call {
	var calls []fold.Call
	for _, c := range snap.Unsettled() {
		if waits(snap, c, run) {
			calls = append(calls, c)
		}
	}
	return calls
}

// outcome is what the log is told of a call.
type outcome struct {
	result  chunk.Value
	err     *string
	code    *string
	decided *bool // of an approval
	reason  *string
}

func outcomeError(code, text string) outcome { return outcome{err: &text, code: &code} }

// outcomeOf reads an answer.
func outcomeOf(a inbox.Answer) outcome {
	var o outcome
	switch {
	case a.Failed():
		o = outcomeError(a.ErrorCode, a.Error)
		if a.Error == "" {
			o.err = &a.ErrorCode
		}
		if a.ErrorCode == "" {
			o.code = nil
		}
	case a.Kind == inbox.Approval:
		o.decided = &a.Approved
		if a.Reason != "" {
			o.reason = &a.Reason
		}
	default:
		o.result = a.Result
	}
	return o
}

// settleOne writes what came of a call, at a step. That of an approval which was
// given is not the call's outcome: the agent runs it.
func (t *Turn) settleOne(ctx context.Context, step int64, c fold.Call, o outcome) error {
	ours := c.Child != nil || strings.HasPrefix(c.ToolName, subagentPrefix)
	if c.ApprovalID != "" && !c.Granted && o.decided != nil {
		if err := t.say(ctx, step, chunk.ToolApprovalResponse{
			ToolCallID: c.ID, ToolName: c.ToolName, ApprovalID: c.ApprovalID, Approved: *o.decided, Reason: o.reason,
		}); err != nil || *o.decided {
			return err
		}
		why := ""
		if o.reason != nil {
			why = *o.reason
		}
		o = outcomeError(CodeDenied, deniedText(why))
	}
	if c.Child != nil {
		if err := t.say(ctx, step, chunk.SubagentEnd{
			SubAgentType: c.Child.Type, SubSessionID: c.Child.Session, CallID: c.ID, Result: o.forParent(),
		}); err != nil {
			return err
		}
	}
	if c.Input == nil && o.err != nil { // its arguments never came whole
		return t.say(ctx, step, chunk.ToolInputError{ToolCallID: c.ID, ToolName: c.ToolName, Error: *o.err})
	}
	return t.say(ctx, step, chunk.ToolEnd{
		ToolCallID: c.ID, ToolName: c.ToolName, Result: o.result, Error: o.err, ErrorCode: o.code, ProviderExecuted: &ours,
	})
}

// forParent is the outcome as subagent_end has it: a failure is a result with a
// member "error" (helix.md, SA-8).
func (o outcome) forParent() chunk.Value {
	if o.err == nil {
		return o.result
	}
	var failed struct {
		Error struct {
			Message string  `json:"message"`
			Code    *string `json:"code,omitempty"`
		} `json:"error"`
	}
	failed.Error.Message, failed.Error.Code = *o.err, o.code
	v, err := chunk.ValueOf(failed)
	if err != nil { // a text that is none
		return chunk.Value(`{"error":{"message":"failed"}}`)
	}
	return v
}

// hearStop obeys who gave the run up while it waited, and came too late to say so
// by a command: somebody had asked for it to go on.
func (t *Turn) hearStop(ctx context.Context, resumes string) error {
	stop, wanted, err := t.w.inbox.Stopped(ctx, t.cmd.Session, resumes)
	if err != nil || !wanted || stop.Kind != inbox.Abort {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop = stop
	return nil
}

// hear writes the answers to the run before this one, those that are not in the
// log yet.
func (t *Turn) hear(ctx context.Context, resumes string) error {
	if err := t.hearStop(ctx, resumes); err != nil {
		return t.breaks(err)
	}
	answers, err := t.w.answers(ctx, t.cmd.Session, resumes)
	if err != nil {
		return t.breaks(err)
	}
	heard := 0
	for _, c := range t.snap.Unsettled() {
		if c.Granted || waits(t.snap, c, t.cmd.RunID) {
			continue
		}
		if err := t.settleOne(ctx, t.step, c, outcomeIn(answers, c.ID)); err != nil {
			return err
		}
		heard++
	}
	if heard == 0 {
		return nil
	}
	return t.refresh(ctx)
}

// outcomeIn is what was answered to a call. One that nobody answered is abandoned.
func outcomeIn(answers map[string]inbox.Answer, call string) outcome {
	if a, ok := answers[call]; ok {
		return outcomeOf(a)
	}
	return outcomeError(CodeAbandoned, "nobody answered the call")
}

// answers are those to a run, by call.
func (w *Workers) answers(ctx context.Context, s chunk.Session, run string) (map[string]inbox.Answer, error) {
	list, err := w.inbox.Answers(ctx, s, run)
	if err != nil {
		return nil, err
	}
	byCall := make(map[string]inbox.Answer, len(list))
	for _, a := range list {
		byCall[a.CallID] = a
	}
	return byCall, nil
}

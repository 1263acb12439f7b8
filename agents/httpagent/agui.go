package httpagent

import (
	"encoding/json"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/agui"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/workers"
)

// approvalEvent is the custom event with the id of the interrupt that asks for an approval. The log has an id of its own for the approval, and the agent wants its own.
const approvalEvent = agui.Prefix + "approval"

// aguiBody returns a RunAgentInput.
func aguiBody(t *workers.Turn) any {
	history := t.Messages()
	req := agui.RunRequest{ThreadID: t.Session().ID, RunID: t.RunID(), History: history, State: t.State(), ForwardedProps: t.Params()}
	if n := len(history); n > 0 {
		req.Resume = resumedInterrupts(history[n-1])
	}
	return json.RawMessage(agui.AppendRunInput(nil, req))
}

// resumedInterrupts returns the answers to the interrupts of the last step.
func resumedInterrupts(m workers.Message) []agui.Answer {
	interrupts := make(map[string]string) // of approvals, by call
	for _, p := range m.Parts {
		if p.Data != nil && p.Data.Name == approvalEvent {
			call, _ := rawjson.Text(rawjson.Get(p.Data.Value, "toolCallId")).Unquote()             // it was written by approvalOf
			interrupts[call], _ = rawjson.Text(rawjson.Get(p.Data.Value, "interruptId")).Unquote() // likewise
		}
	}
	var list []agui.Answer
	for _, c := range m.Calls() {
		approval := interrupts[c.ID]
		switch {
		case c.Name == agui.InterruptTool:
			list = append(list, agui.Answer{InterruptID: c.ID, Cancelled: c.State != workers.CallDone, Payload: c.Output})
		case approval == "":
		case c.State == workers.CallApproved:
			list = append(list, agui.Answer{InterruptID: approval, Payload: chunk.Value(`{"approved":true}`)})
		case c.State == workers.CallDenied:
			o := rawjson.Begin(nil)
			o.Bool("approved", false)
			if c.Approval != nil {
				o.Maybe("reason", c.Approval.Reason)
			}
			list = append(list, agui.Answer{InterruptID: approval, Payload: o.End()})
		case c.State == workers.CallFailed: // no user has decided in time
			list = append(list, agui.Answer{InterruptID: approval, Cancelled: true})
		}
	}
	return list
}

// approvalOf returns the event that keeps the id of an interrupt.
func approvalOf(callID, interruptID string) chunk.Custom {
	o := rawjson.Begin(nil)
	o.String("toolCallId", callID)
	o.String("interruptId", interruptID)
	return chunk.Custom{EventName: approvalEvent, Data: o.End()}
}

package sinktest

import (
	"encoding/json"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

func isTrue(b *bool) bool { return b != nil && *b }

func (r *reference) applyCall(c chunk.Chunk) {
	switch b := c.Body.(type) {
	case chunk.ToolArgStreamStart:
		if call := r.begins(b.ToolCallID, b.ToolName); call != nil {
			call.complete = false
		}
	case chunk.ToolStart:
		if call := r.begins(b.ToolCallID, b.ToolName); call != nil {
			call.complete, call.byServer = true, call.byServer || chunk.RunByProvider(c.Extra)
		}
	case chunk.ToolApprovalRequest:
		r.ask(b)
	case chunk.ToolApprovalResponse:
		r.decide(b)
	case chunk.ToolEnd:
		call := r.completes(b.ToolCallID, b.ToolName)
		switch {
		case b.Error != nil && b.ErrorCode != nil && *b.ErrorCode == "client_tool_denied":
			r.outcome(call, row.Denied)
		case b.Error != nil, call != nil && call.childFailed:
			r.outcome(call, row.Failed)
		default:
			r.outcome(call, row.Completed)
		}
	case chunk.ToolInputError:
		r.outcome(r.completes(b.ToolCallID, b.ToolName), row.Rejected)
	case chunk.ToolOutputError:
		r.outcome(r.completes(b.ToolCallID, b.ToolName), row.Failed)
	case chunk.SubagentStart:
		if call := r.call(b.CallID); call != nil && !call.done {
			call.byChild = true
		}
	case chunk.SubagentEnd:
		if call := r.call(b.CallID); call != nil && !call.done {
			var result map[string]any
			failed := json.Unmarshal(b.Result, &result) == nil && result["error"] != nil
			call.childFailed = call.childFailed || failed
		}
	case chunk.RunPaused:
		if b.PendingToolCallID != nil {
			r.client(*b.PendingToolCallID)
		}
	case chunk.SuspensionMarker:
		var payload struct {
			ToolCallIDs []string `json:"toolCallIds"`
		}
		if json.Unmarshal(b.Payload, &payload) == nil {
			for _, id := range payload.ToolCallIDs {
				r.client(id)
			}
		}
	}
}

func (r *reference) ask(b chunk.ToolApprovalRequest) {
	c := r.begins(b.ToolCallID, b.ToolName)
	if c == nil {
		return
	}
	c.complete = true
	if isTrue(b.IsAutomatic) {
		return
	}
	c.approved = false
	if c.client.isOpen() {
		c.client.end(row.Unknown, r.at)
	}
	r.wait(c, &c.approval, row.Approval)
}

func (r *reference) decide(b chunk.ToolApprovalResponse) {
	c := r.completes(b.ToolCallID, b.ToolName)
	if c == nil {
		return
	}
	asked := c.approval.isOpen()
	if !asked && isTrue(b.IsAutomatic) {
		c.approval = r.add(row.Approval, row.Waiting, c.id)
	}
	if c.client.isOpen() {
		c.client.end(row.Unknown, r.at)
	}
	if c.approved = asked && b.Approved; b.Approved {
		if c.approval.isOpen() {
			c.approval.end(row.Completed, r.at)
		}
		if c.Status == row.Waiting {
			c.Status = row.Running
		}
		return
	}
	if c.approval.isOpen() {
		c.approval.end(row.Denied, r.at)
	}
	r.outcome(c, row.Denied)
}

package mastra

import (
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
)

// serverSide marks results that the client did not produce: Mastra never sends results of client tools.
var serverSide = true

var toolKinds = []string{
	"tool-call-input-streaming-start", "tool-call-delta", "tool-call-input-streaming-end", "tool-call",
	"tool-result", "tool-error", "tool-call-approval", "tool-output-denied", "tool-call-suspended", "tool-output",
}

// translateTool translates a chunk about a tool call.
func (t *translator) translateTool(a *agent, m message) bool {
	id, known := m.payload.Text("toolCallId")
	if !known || !slices.Contains(toolKinds, m.kind) {
		return t.translateOther(a, m)
	}
	c := a.call(id)
	c.name = m.payload.Or("toolName", c.name)
	switch m.kind {
	case "tool-call-input-streaming-start":
		if c.args == nil {
			c.args = []string{}
		}
		a.Emit(chunk.ToolArgStreamStart{ToolCallID: id, ToolName: c.name})
	case "tool-call-delta":
		piece, ok := m.payload.Text("argsTextDelta")
		if !ok {
			return false
		}
		if !c.started {
			c.args = append(c.args, piece)
		}
		a.Emit(chunk.ToolArgStreamDelta{ToolCallID: id, Delta: piece})
	case "tool-call-input-streaming-end":
		a.Emit(chunk.ToolArgStreamEnd{ToolCallID: id})
	case "tool-call":
		t.emitToolStart(a, id, m.payload.Peek("args"), m.payload)
	case "tool-result":
		end := chunk.ToolEnd{ToolCallID: id, ToolName: c.name, Result: m.payload.Peek("result"), ProviderExecuted: &serverSide}
		if m.payload.Flag("isError") {
			text := failureText(end.Result)
			end.Error = &text
		}
		t.endCall(a, id, m.payload, end)
	case "tool-error":
		f := readFailure(m.payload.Peek("error"))
		t.endCall(a, id, m.payload, chunk.ToolEnd{ToolCallID: id, ToolName: c.name, Error: &f.Message, ErrorCode: f.Code, ProviderExecuted: &serverSide})
	case "tool-call-approval":
		a.wait(id, "tool_approval")
		t.startCall(a, id, m.payload)
		a.Emit(chunk.ToolApprovalRequest{ToolCallID: id, ToolName: c.name, ApprovalID: a.approval(id), Input: arguments(m.payload.Peek("args"))})
	case "tool-output-denied":
		a.answered(id)
		approval := m.payload.Object("approval")
		t.startCall(a, id, m.payload)
		t.close(a, id, chunk.ErrorDetail{Message: approval.Or("reason", "denied")}, failed)
		a.Emit(chunk.ToolApprovalResponse{ToolCallID: id, ToolName: c.name, ApprovalID: a.approval(id), Reason: approval.Maybe("reason")})
	case "tool-call-suspended":
		a.wait(id, "tool_suspended")
		t.startCall(a, id, m.payload)
		t.passThrough(a, m) // before the pause, so that readers of the pause have the reason
		a.Emit(chunk.RunPaused{RunID: a.run, Reason: a.waitFor, PendingToolName: &c.name, PendingToolCallID: &id})
	case "tool-output":
		return t.toolOutput(a, id, c.name, m.payload)
	}
	return true
}

// approval returns the id of an approval. The ids that Mastra has in a request and in the response to it differ.
func (a *agent) approval(callID string) string { return a.run + "::" + callID }

func (a *agent) call(id string) *call {
	c := a.calls[id]
	if c == nil {
		c = &call{}
		if a.calls == nil {
			a.calls = make(map[string]*call)
		}
		a.calls[id] = c
	}
	return c
}

// emitToolStart emits the start of a call, once.
func (t *translator) emitToolStart(a *agent, id string, args chunk.Value, p *dialect.Object) {
	c := a.call(id)
	if c.started {
		t.unused = true
		return
	}
	c.started, c.args = true, nil
	extra := t.part(p)
	if p.Flag("providerExecuted") {
		extra = append(extra, chunk.RunBy(true))
	}
	a.Emit(chunk.ToolStart{ToolCallID: id, ToolName: c.name, Arguments: arguments(args)}, extra...)
}

// arguments returns the input of a call as an object. It is missing if it could not be parsed.
func arguments(args chunk.Value) chunk.Value { return dialect.Arguments(args) }

// startCall starts a call whose arguments were streamed, at its next chunk. A call without any earlier chunk was started in an earlier response.
func (t *translator) startCall(a *agent, id string, p *dialect.Object) {
	c := a.call(id)
	if c.started || c.args == nil {
		return
	}
	args := p.Peek("args")
	if args == nil {
		// Input that cannot be parsed is omitted, as with a call without arguments.
		args, _ = dialect.CheckValue([]byte(strings.Join(c.args, "")))
	}
	t.emitToolStart(a, id, args, p)
}

// endCall ends a call, and before it the sub-agents of the call.
func (t *translator) endCall(a *agent, id string, p *dialect.Object, end chunk.ToolEnd) {
	a.answered(id)
	t.startCall(a, id, p)
	if end.Error != nil {
		t.close(a, id, chunk.ErrorDetail{Message: *end.Error, Code: end.ErrorCode}, failed)
	} else {
		t.close(a, id, chunk.ErrorDetail{}, finished)
	}
	a.Emit(end)
}

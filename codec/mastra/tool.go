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
func (t *Translator) translateTool(a *agent, m message) bool {
	id, known := m.payload.text("toolCallId")
	if !known || !slices.Contains(toolKinds, m.kind) {
		return t.translateOther(a, m)
	}
	c := a.call(id)
	c.name = m.payload.or("toolName", c.name)
	switch m.kind {
	case "tool-call-input-streaming-start":
		if c.args == nil {
			c.args = []string{}
		}
		t.emit(a, chunk.ToolArgStreamStart{ToolCallID: id, ToolName: c.name})
	case "tool-call-delta":
		piece, ok := m.payload.text("argsTextDelta")
		if !ok {
			return false
		}
		if !c.started {
			c.args = append(c.args, piece)
		}
		t.emit(a, chunk.ToolArgStreamDelta{ToolCallID: id, Delta: piece})
	case "tool-call-input-streaming-end":
		t.emit(a, chunk.ToolArgStreamEnd{ToolCallID: id})
	case "tool-call":
		t.emitToolStart(a, id, m.payload["args"], m.payload)
	case "tool-result":
		end := chunk.ToolEnd{ToolCallID: id, ToolName: c.name, Result: m.payload["result"], ProviderExecuted: &serverSide}
		if m.payload.flag("isError") {
			text := failureText(end.Result)
			end.Error = &text
		}
		t.endCall(a, id, m.payload, end)
	case "tool-error":
		f := readFailure(m.payload["error"])
		t.endCall(a, id, m.payload, chunk.ToolEnd{ToolCallID: id, ToolName: c.name, Error: &f.text, ErrorCode: f.code, ProviderExecuted: &serverSide})
	case "tool-call-approval":
		a.wait(id, "tool_approval")
		t.startCall(a, id, m.payload)
		t.emit(a, chunk.ToolApprovalRequest{ToolCallID: id, ToolName: c.name, ApprovalID: a.approval(id), Input: arguments(m.payload["args"])})
	case "tool-output-denied":
		a.answered(id)
		approval := m.payload.object("approval")
		t.startCall(a, id, m.payload)
		t.close(a, id, failure{text: approval.or("reason", "denied")}, failed)
		t.emit(a, chunk.ToolApprovalResponse{ToolCallID: id, ToolName: c.name, ApprovalID: a.approval(id), Reason: approval.maybe("reason")})
	case "tool-call-suspended":
		a.wait(id, "tool_suspended")
		t.startCall(a, id, m.payload)
		t.passThrough(a, m) // before the pause, so that readers of the pause have the reason
		t.emit(a, chunk.RunPaused{RunID: a.run, Reason: a.waitFor, PendingToolName: &c.name, PendingToolCallID: &id})
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
func (t *Translator) emitToolStart(a *agent, id string, args chunk.Value, p object) {
	c := a.call(id)
	if c.started {
		t.unused = true
		return
	}
	c.started, c.args = true, nil
	t.emitPart(a, chunk.ToolStart{ToolCallID: id, ToolName: c.name, Arguments: arguments(args)}, p)
	if p.flag("providerExecuted") {
		last := &t.out[len(t.out)-1]
		last.Extra = append(last.Extra, chunk.RunBy(true))
	}
}

// arguments returns the input of a call as an object. It is missing if it could not be parsed.
func arguments(args chunk.Value) chunk.Value {
	switch {
	case isObject(args):
		return args
	case args.IsNull():
		return chunk.Value(`{}`)
	}
	return append(append(chunk.Value(`{"value":`), args...), '}')
}

// startCall starts a call whose arguments were streamed, at its next chunk. A call without any earlier chunk was started in an earlier response.
func (t *Translator) startCall(a *agent, id string, p object) {
	c := a.call(id)
	if c.started || c.args == nil {
		return
	}
	args, hasArgs := p["args"]
	if !hasArgs {
		// Input that cannot be parsed is omitted, as with a call without arguments.
		args, _ = dialect.CheckValue([]byte(strings.Join(c.args, "")))
	}
	t.emitToolStart(a, id, args, p)
}

// endCall ends a call, and before it the sub-agents of the call.
func (t *Translator) endCall(a *agent, id string, p object, end chunk.ToolEnd) {
	a.answered(id)
	t.startCall(a, id, p)
	if end.Error != nil {
		t.close(a, id, failure{text: *end.Error, code: end.ErrorCode}, failed)
	} else {
		t.close(a, id, failure{}, finished)
	}
	t.emit(a, end)
}

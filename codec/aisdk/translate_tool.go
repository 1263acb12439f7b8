package aisdk

import (
	"maps"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
)

// incomingCall is a tool call of the server.
type incomingCall struct {
	name      string
	input     chunk.Value // nil before it is complete
	streaming bool        // its arguments stream
	waits     bool        // nothing has the outcome: the client runs it, or a user must approve it
	approval  *string     // id of the question whether it may run
	automatic *bool       // a rule of the server answers that
	denied    bool
}

// toolPart translates a part of a tool call. A part of a call that is not known is carried, except its outcome: an earlier response, to which another Translator was
// used, had the call, and an approved call has run.
func (t *translator) toolPart(p part) bool {
	id := p.text("toolCallId")
	if id == "" {
		return p.kind == "tool-approval-response" && t.decided(p)
	}
	c := t.calls[id]
	name := p.text("toolName")
	if c == nil && name != "" && slices.Contains([]string{"tool-input-start", "tool-input-available", "tool-input-error"}, p.kind) {
		c = &incomingCall{name: name}
		t.calls[id] = c
	}
	if c == nil {
		return t.outcome(id, &incomingCall{name: unknownTool}, p)
	}
	if name != c.name {
		p.Unread("toolName")
	}
	switch p.kind {
	case "tool-input-start":
		if c.streaming || c.input != nil {
			return false
		}
		c.streaming = true
		t.emit(chunk.ToolArgStreamStart{ToolCallID: id, ToolName: c.name}, append(callMembers(p), runBy(p))...)
	case "tool-input-delta":
		piece := p.Maybe("inputTextDelta")
		if piece == nil || !c.streaming {
			return false
		}
		t.emit(chunk.ToolArgStreamDelta{ToolCallID: id, Delta: *piece})
	case "tool-input-available":
		return t.inputAvailable(id, c, p)
	case "tool-input-error":
		c.streaming, c.waits = false, false
		e := chunk.ToolInputError{ToolCallID: id, ToolName: c.name, Error: p.text("errorText")}
		if v := p.Get("input"); v != nil {
			e.PartialInput = &v
		}
		t.emit(e, callMembers(p)...)
	case "tool-approval-request":
		approval := p.Maybe("approvalId")
		if approval == nil || c.input == nil {
			return false
		}
		c.approval, c.automatic, c.waits = approval, nil, true
		if p.Flag("isAutomatic") { // a rule of the server decides it, and the server runs it
			c.automatic, c.waits = new(true), false
		}
		t.emit(chunk.ToolApprovalRequest{ToolCallID: id, ToolName: c.name, ApprovalID: *approval, Input: c.input, IsAutomatic: c.automatic})
	default:
		return t.outcome(id, c, p)
	}
	return true
}

// decided writes the answer to the question whether a call may run. The server runs a call that is approved.
func (t *translator) decided(p part) bool {
	approval := p.text("approvalId")
	for _, id := range slices.Sorted(maps.Keys(t.calls)) { // the first one, if a server uses an id of a question twice
		c := t.calls[id]
		if approval == "" || c.approval == nil || *c.approval != approval || c.denied {
			continue
		}
		c.waits, c.denied = false, !p.Flag("approved")
		t.emit(chunk.ToolApprovalResponse{
			ToolCallID: id, ToolName: c.name, ApprovalID: approval, Approved: !c.denied, Reason: p.Maybe("reason"), IsAutomatic: c.automatic,
		})
		return true
	}
	return false
}

func (t *translator) inputAvailable(id string, c *incomingCall, p part) bool {
	input := p.Get("input")
	if input == nil || c.input != nil {
		return false
	}
	if c.streaming {
		c.streaming = false
		t.emit(chunk.ToolArgStreamEnd{ToolCallID: id})
	}
	c.input = dialect.Arguments(input)
	// The provider reports the outcome of its own call, perhaps in a later response.
	c.waits = !p.Flag("providerExecuted")
	t.emit(chunk.ToolStart{ToolCallID: id, ToolName: c.name, Arguments: c.input}, append(callMembers(p), runBy(p))...)
	return true
}

// outcome writes the outcome of a call.
func (t *translator) outcome(id string, c *incomingCall, p part) bool {
	switch p.kind {
	case typeOutput:
		output := p.Get("output")
		if output == nil {
			return false
		}
		if p.Flag("preliminary") {
			t.emit(chunk.Custom{EventName: chunk.PreliminaryEvent, Data: p.GetAll()})
			return true
		}
		t.emit(chunk.ToolEnd{ToolCallID: id, ToolName: c.name, Result: output, ProviderExecuted: new(true)}, outcomeMembers(p)...)
	case "tool-output-error":
		text := p.Maybe("errorText")
		if text == nil {
			return false
		}
		t.emit(chunk.ToolEnd{ToolCallID: id, ToolName: c.name, Error: text, ProviderExecuted: new(true)}, outcomeMembers(p)...)
	case "tool-output-denied":
		if !c.denied {
			c.denied = true
			t.emit(chunk.ToolApprovalResponse{ToolCallID: id, ToolName: c.name, ApprovalID: pointed(c.approval), Reason: p.Maybe("reason"), IsAutomatic: c.automatic})
		}
	default:
		return false
	}
	c.waits = false
	return true
}

// runBy says who runs the call that p begins: the provider of the model, or, if the part does not say so, a client that knows the tool.
func runBy(p part) chunk.Member { return chunk.RunBy(p.Flag("providerExecuted")) }

func pointed(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// callMembers returns the members of a part that begins a call which the chunk schema does not have. Servers leave out dynamic in the part of a static tool.
func callMembers(p part) []chunk.Member {
	all := p.members("title", "toolMetadata", "providerMetadata")
	all.Static = !p.Flag("dynamic")
	return all.Extra()
}

// outcomeMembers returns those of an outcome.
func outcomeMembers(p part) []chunk.Member {
	return p.members("toolMetadata", "providerMetadata").Extra()
}

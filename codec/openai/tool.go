package openai

import (
	"cmp"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/openaistream"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// id returns the model's id of a call, or a generated one.
func (t *translator) id(c *openaistream.Call) string {
	id := c.ID
	if (chunk.Chunk{AgentID: "-", Body: chunk.ToolArgStreamEnd{ToolCallID: id}}).Validate() != nil || id == "" {
		return fmt.Sprintf("call_%d_%d", t.agent.Step, c.Index)
	}
	return id
}

// name returns the tool of a call.
func name(c *openaistream.Call) string {
	return cmp.Or(c.Name, "unknown")
}

// by returns the member that says who runs a call. The Agents SDK, which runs its tools, does not say it.
func (t *translator) by(provider bool) []chunk.Member {
	if t.sdk && !provider {
		return nil
	}
	return []chunk.Member{chunk.RunBy(provider)}
}

func (t *translator) arguments(c *openaistream.Call, piece string) {
	if c.Arguments() == piece { // the first one
		t.agent.EmitValid(chunk.ToolArgStreamStart{ToolCallID: t.id(c), ToolName: name(c)}, t.by(c.Provider)...)
	}
	t.agent.EmitValid(chunk.ToolArgStreamDelta{ToolCallID: t.id(c), Delta: piece})
}

// callDone starts a call, or rejects one whose arguments are not JSON. The run does not wait for its result.
func (t *translator) callDone(c *openaistream.Call) {
	t.content = true
	id, args := t.id(c), chunk.Value(rawjson.TrimSpace([]byte(c.Arguments())))
	if c.Streamed() {
		t.agent.EmitValid(chunk.ToolArgStreamEnd{ToolCallID: id})
	}
	if len(args) == 0 {
		args = chunk.Value(`{}`) // some models omit empty arguments
	}
	if rawjson.Kind(args) != '{' {
		args = append(append(chunk.Value(`{"value":`), args...), '}')
	}
	extra := openaistream.Extra(c.State)
	if c.Overlong() || !t.agent.EmitValid(chunk.ToolStart{ToolCallID: id, ToolName: name(c), Arguments: args}, append(extra, t.by(c.Provider)...)...) {
		t.rejected = true
		e := chunk.ToolInputError{ToolCallID: id, ToolName: name(c), Error: "the arguments are not valid JSON, or too long"}
		if partial, err := chunk.ValueOf(c.Arguments()); err == nil && c.Replaced() {
			e.PartialInput = &partial
		}
		if !t.agent.EmitValid(e, extra...) {
			e.PartialInput = nil
			t.agent.EmitValid(e)
		}
		return
	}
	t.calls[id] = name(c)
	if !c.Provider {
		t.open = append(t.open, openCall{id, name(c)})
	}
}

// serverCall translates a call of an MCP server, which the endpoint has made.
func (t *translator) serverCall(item chunk.Value) {
	t.content = true
	start, end := openaistream.ServerCallOf(item)
	t.agent.EmitValid(start, chunk.RunBy(true))
	t.agent.EmitValid(end)
}

package agui

import (
	"bytes"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
)

// tool translates an event of a call.
func (t *Translator) tool(e event) bool {
	a := e.by
	id, ok := e.text("toolCallId")
	delta, hasDelta := e.text("delta")
	switch e.kind {
	case "TOOL_CALL_START":
		name, named := e.text("toolCallName")
		if !ok || !named {
			return false
		}
		t.beginCall(a, id, name)
	case "TOOL_CALL_ARGS":
		return ok && hasDelta && t.arguments(a, id, delta)
	case "TOOL_CALL_END":
		if !ok || a.calls[id] == nil {
			return false
		}
		t.endArguments(a, id, e.object.object("metadata")["arguments"])
	case "TOOL_CALL_CHUNK":
		if a.chunkKind != "tool" {
			name, named := e.text("toolCallName")
			if !ok || !named {
				return false
			}
			t.beginCall(a, id, name)
			a.chunkKind, a.chunkID = "tool", id
		}
		return delta == "" || t.arguments(a, a.chunkID, delta)
	case "TOOL_CALL_RESULT":
		if !ok || !isArray(e.object["content"]) && !isText(e.object["content"]) {
			return false
		}
		t.endCall(a, id, e.object)
	default:
		return false
	}
	return true
}

func isText(v chunk.Value) bool { return len(v) > 0 && v[0] == '"' }

// call returns the call with an id, a new one if there is none without an outcome.
func (t *Translator) call(a *source, id, name string) *calling {
	c := a.calls[id]
	if c == nil || c.ended {
		a.order = append(a.order, id)
		c = &calling{name: name}
		a.calls[id] = c
	}
	return c
}

// beginCall begins the arguments of a call. A call that the agent announces again, in a later run, has its arguments.
func (t *Translator) beginCall(a *source, id, name string) {
	t.endThought(a)
	c := t.call(a, id, name)
	if c.started {
		return
	}
	if c.name == "" {
		c.name = name
	}
	t.produce(a, "")
	t.emit(a, chunk.ToolArgStreamStart{ToolCallID: id, ToolName: c.name})
}

func (t *Translator) arguments(a *source, id, delta string) bool {
	c := a.calls[id]
	switch {
	case c == nil || c.ended:
		return false
	case c.started:
		return bytes.Contains(c.input, []byte(delta)) // the agent announces the call again
	case delta == "":
		return true
	}
	if len(c.args)+len(delta) > maxArguments {
		c.args, c.tooLong = nil, true
	}
	if !c.tooLong {
		c.args = append(c.args, delta...)
	}
	t.emit(a, chunk.ToolArgStreamDelta{ToolCallID: id, Delta: delta})
	return true
}

// endArguments ends the arguments of a call. other has them if the text has not.
func (t *Translator) endArguments(a *source, id string, other chunk.Value) {
	c := a.calls[id]
	if c == nil || c.ended || c.started && other == nil {
		return
	}
	if !c.started {
		t.emit(a, chunk.ToolArgStreamEnd{ToolCallID: id})
	}
	if other != nil {
		c.args, c.started = other, false
	}
	t.start(a, id)
}

// start writes the start of a call whose arguments are complete, once.
func (t *Translator) start(a *source, id string) {
	c := a.calls[id]
	if c == nil || c.started || c.ended {
		return
	}
	c.started = true
	c.input = inputOf(c.args)
	c.args = nil
	t.emit(a, chunk.ToolStart{ToolCallID: id, ToolName: c.name, Arguments: c.input})
}

// inputOf returns the arguments of a call as an object.
func inputOf(text []byte) chunk.Value {
	if len(text) == 0 {
		return chunk.Value(`{}`)
	}
	v, err := dialect.CheckValue(text)
	switch {
	case err != nil:
		v = quote(string(text))
	case isObject(v):
		return v
	case v.IsNull():
		return chunk.Value(`{}`)
	}
	return append(append(chunk.Value(`{"value":`), v...), '}')
}

// endCall writes the outcome of a call.
func (t *Translator) endCall(a *source, id string, e object) {
	t.endThought(a)
	t.start(a, id)
	c := a.calls[id]
	if c == nil { // of an earlier response
		c = &calling{}
	}
	serverSide := true
	end := chunk.ToolEnd{ToolCallID: id, ToolName: c.name, ProviderExecuted: &serverSide}
	failure, failed := e.text("error")
	if !failed {
		failure, failed = e.object("metadata").text("error")
	}
	if failed {
		end.Error, end.ErrorCode = &failure, e.object("metadata").maybe("errorCode")
	} else {
		end.Result = resultOf(e["content"])
	}
	if !c.ended {
		a.order = slices.DeleteFunc(a.order, func(o string) bool { return o == id })
	}
	c.ended, c.input = true, nil
	t.emit(a, end)
}

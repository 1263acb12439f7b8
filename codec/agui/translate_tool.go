package agui

import (
	"bytes"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// tool translates an event of a call.
func (t *translator) tool(e event) bool {
	a := e.by
	id, ok := e.Text("toolCallId")
	delta, hasDelta := e.Text("delta")
	switch e.kind {
	case "TOOL_CALL_START":
		name, named := e.Text("toolCallName")
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
		t.endArguments(a, id, e.Object.Object("metadata").Value("arguments"))
	case "TOOL_CALL_CHUNK":
		if a.chunkKind != "tool" {
			name, named := e.Text("toolCallName")
			if !ok || !named {
				return false
			}
			t.beginCall(a, id, name)
			a.chunkKind, a.chunkID = "tool", id
		}
		return delta == "" || t.arguments(a, a.chunkID, delta)
	case "TOOL_CALL_RESULT":
		if kind := rawjson.Kind(e.Peek("content")); !ok || kind != '[' && kind != '"' {
			return false
		}
		t.endCall(a, id, e.Object)
	default:
		return false
	}
	return true
}

// call returns the call with an id, a new one if there is none without an outcome.
func (t *translator) call(a *source, id, name string) *calling {
	c := a.calls[id]
	if c == nil || c.ended {
		a.order = append(a.order, id)
		c = &calling{name: name}
		a.calls[id] = c
	}
	return c
}

// beginCall begins the arguments of a call. A call that the agent announces again, in a later run, has its arguments.
func (t *translator) beginCall(a *source, id, name string) {
	t.endThought(a)
	c := t.call(a, id, name)
	if c.started {
		return
	}
	if c.name == "" {
		c.name = name
	}
	t.produce(a, "")
	a.Emit(chunk.ToolArgStreamStart{ToolCallID: id, ToolName: c.name})
}

func (t *translator) arguments(a *source, id, delta string) bool {
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
	a.Emit(chunk.ToolArgStreamDelta{ToolCallID: id, Delta: delta})
	return true
}

// endArguments ends the arguments of a call. other has them if the text has not.
func (t *translator) endArguments(a *source, id string, other chunk.Value) {
	c := a.calls[id]
	if c == nil || c.ended || c.started && other == nil {
		return
	}
	if !c.started {
		a.Emit(chunk.ToolArgStreamEnd{ToolCallID: id})
	}
	if other != nil {
		c.args, c.started = other, false
	}
	t.start(a, id)
}

// start writes the start of a call whose arguments are complete, once.
func (t *translator) start(a *source, id string) {
	c := a.calls[id]
	if c == nil || c.started || c.ended {
		return
	}
	c.started = true
	c.input = inputOf(c.args)
	c.args = nil
	a.Emit(chunk.ToolStart{ToolCallID: id, ToolName: c.name, Arguments: c.input})
}

// inputOf returns the arguments of a call as an object.
func inputOf(text []byte) chunk.Value {
	v, err := dialect.CheckValue(text)
	if err != nil && len(text) > 0 {
		v = dialect.Quote(string(text))
	}
	return dialect.Arguments(v)
}

// endCall writes the outcome of a call.
func (t *translator) endCall(a *source, id string, e *dialect.Object) {
	t.endThought(a)
	t.start(a, id)
	c := a.calls[id]
	if c == nil { // of an earlier response
		c = &calling{}
	}
	serverSide := true
	end := chunk.ToolEnd{ToolCallID: id, ToolName: c.name, ProviderExecuted: &serverSide}
	failure, failed := e.Text("error")
	if !failed {
		failure, failed = e.Object("metadata").Text("error")
	}
	if failed {
		end.Error, end.ErrorCode = &failure, e.Object("metadata").Maybe("errorCode")
	} else {
		end.Result = resultOf(e.Value("content"))
	}
	if !c.ended {
		a.order = slices.DeleteFunc(a.order, func(o string) bool { return o == id })
	}
	c.ended, c.input = true, nil
	a.Emit(end)
}

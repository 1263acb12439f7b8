package langgraph

import (
	"bytes"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/turn"
)

// callOutput is what was written of a call. Its mark is the message that it is a block of, and the index of the block.
type callOutput struct {
	begun bool   // content-block-start was written
	asked bool   // input.requested was written for a call that the client runs
	input []byte // nil after the removal of an outcome, of a call that did not wait
}

// callOutputOf returns what was written of a call.
func callOutputOf(c *turn.Call) *callOutput {
	o, _ := turn.Kept[callOutput](&c.Kept)
	return o
}

// call writes an event of a call.
func (p *printer) call(f *turn.Frames, e *turn.Event) {
	c := e.Call
	if c == nil || e.Kind == turn.Late || e.Kind == turn.Started || e.Kind == turn.CallGone {
		return
	}
	o := callOutputOf(c)
	if !o.begun && !c.Reopened() {
		m := p.open(f, c.By)
		o.begun = true
		c.Mark = [2]uint64{uint64(m.message), uint64(m.blocks)}
		m.blocks++
		p.callBlock(f, c, "start", "content", "tool_call_chunk", func(b *rawjson.Object) {
			b.Content("id", c.Shown)
			b.Content("name", c.Name)
			b.String("args", "")
		})
	}
	switch e.Kind {
	case turn.InputDelta:
		p.callBlock(f, c, "delta", "delta", "tool-call-delta", func(d *rawjson.Object) { d.Content("args", e.Text) })
	case turn.Input:
		o.input = bytes.Clone(objectOf(e.Value))
		p.callBlock(f, c, "finish", "content", "tool_call", func(b *rawjson.Object) { appendCall(b, c.Shown, c.Name, o.input) })
		if !e.Again {
			p.tool(f, c, "tool-started", func(t *rawjson.Object) {
				t.Content("tool_name", c.Name)
				t.Raw("input", o.input)
			})
		}
	case turn.Ask:
		p.request(f, c.By, c.ApprovalID, func(v *rawjson.Object) { appendApproval(v, c.Name, objectOf(e.Item.OrNull("input"))) })
	case turn.Decision:
		p.answered(f, c.By, c.ApprovalID)
	case turn.Outcome:
		p.outcome(f, e, o)
	}
}

// outcome writes the outcome of a call.
func (p *printer) outcome(f *turn.Frames, e *turn.Event, o *callOutput) {
	c, failure, code := e.Call, asText(e.Failure), e.Code
	if o.asked {
		o.asked = false // the outcome may be removed
		p.answered(f, c.By, c.Shown)
	}
	if e.Denied {
		failure, code = denial(e.Item.Text("reason")), chunk.Value(`"denied"`)
	}
	if failure == nil {
		p.tool(f, c, "tool-finished", func(t *rawjson.Object) { t.Raw("output", e.Value) })
		return
	}
	p.tool(f, c, "tool-error", func(t *rawjson.Object) {
		t.Raw("message", failure)
		if rawjson.Kind(code) == '"' {
			t.Raw("code", code)
		}
	})
}

// denial returns the text of the outcome of a call that a user has denied.
func denial(reason string) chunk.Value {
	text := "call denied"
	if reason != "" {
		text += ": " + reason
	}
	return rawjson.AppendQuoted(nil, text)
}

// callBlock writes an event of the block of a call, unless its message has ended.
func (p *printer) callBlock(f *turn.Frames, c *turn.Call, event, name, kind string, content func(o *rawjson.Object)) {
	if m := outputOf(c.By); m.message != 0 && uint64(m.message) == c.Mark[0] {
		p.block(f, c.By, event, int(c.Mark[1]), name, kind, content)
	}
}

func (p *printer) tool(f *turn.Frames, c *turn.Call, event string, data func(o *rawjson.Object)) {
	p.event(f, "tools", below(c.By, "tools:"+c.ID), func(t *rawjson.Object) {
		t.String("event", event)
		t.Content("tool_call_id", c.Shown)
		data(t)
	})
}

// request writes a question to the user. id is the content of a JSON string.
func (p *printer) request(f *turn.Frames, a *turn.Agent, id []byte, value func(o *rawjson.Object)) {
	p.event(f, "input.requested", pathOf(a), func(o *rawjson.Object) {
		o.Content("interrupt_id", id)
		o.Nest("payload")
		value(o)
		o.Close()
	})
}

func (p *printer) answered(f *turn.Frames, a *turn.Agent, id []byte) {
	if id == nil {
		return // another answer was first
	}
	p.event(f, "input.answered", pathOf(a), func(o *rawjson.Object) {
		o.Raw("interrupt_ids", slices.Concat([]byte(`["`), id, []byte(`"]`)))
	})
}

// appendCall appends the members of a call. id and name are contents of JSON strings.
func appendCall(o *rawjson.Object, id, name, args []byte) {
	o.Content("id", id)
	o.Content("name", name)
	o.Raw("args", args)
}

// appendClientCall appends the value of an interrupt for a call that the client runs.
func appendClientCall(o *rawjson.Object, id, name, args []byte) {
	o.String("type", "tool")
	o.Nest("tool_call")
	appendCall(o, id, name, args)
	o.Close()
}

// appendApproval appends the value of an interrupt for a call that a user must decide about.
func appendApproval(o *rawjson.Object, name, args []byte) {
	o.Raw("action_requests", slices.Concat([]byte(`[{"name":"`), name, []byte(`","args":`), args, []byte(`}]`)))
	o.Raw("review_configs", slices.Concat([]byte(`[{"action_name":"`), name, []byte(`","allowed_decisions":["approve","reject"]}]`)))
}

// objectOf returns arguments, which are an object in the protocol.
func objectOf(arguments chunk.Value) chunk.Value {
	if arguments = bytes.TrimSpace(arguments); rawjson.Kind(arguments) != '{' {
		return chunk.Value(`{}`)
	}
	return arguments
}

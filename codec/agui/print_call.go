package agui

import (
	"bytes"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/turn"
)

// callOutput is what was written of a call.
type callOutput struct {
	tag     []byte // subagentRunId; it does not change: a client rejects another one if the sub-agent was started again
	open    bool   // TOOL_CALL_START was written in this run, TOOL_CALL_END was not
	fixed   bool   // the client has text that is not the beginning of the arguments: the metadata of the call has them
	written []byte // arguments that the client has
}

// callOutputOf returns what was written of a call. Its mark is the message that it is attached to. One whose outcome was removed has nothing else.
func callOutputOf(c *turn.Call) *callOutput {
	o, isNew := turn.Kept[callOutput](&c.Kept)
	o.fixed = o.fixed || isNew && c.Reopened()
	if isNew && !o.fixed {
		of := carrierOf(c.By)
		c.Mark, o.tag = [2]uint64{uint64(of.first), uint64(of.n)}, outputOf(c.By).tag
	}
	return o
}

// call writes an event of a call.
func (p *printer) call(f *turn.Frames, e *turn.Event) {
	c := e.Call
	if c == nil || e.Kind == turn.Late {
		return
	}
	switch o := callOutputOf(c); e.Kind {
	case turn.InputOpen:
		o.fixed = o.fixed || !e.Again && len(o.written) > 0
		if e.Again == o.open {
			p.callStart(f, c)
		}
	case turn.InputDelta:
		if !o.fixed { // the client cannot begin the text again
			o.written = append(o.written, e.Text...)
			callArgs(f, c, e.Text)
		}
	case turn.Input:
		p.arguments(f, e)
	case turn.Decision:
		lifecycle(f, e)
	case turn.Outcome:
		p.outcome(f, e)
	case turn.CallGone:
		callEnd(f, c, nil)
	}
}

func (p *printer) callStart(f *turn.Frames, c *turn.Call) {
	o := callOutputOf(c)
	o.open = true
	f.Open("TOOL_CALL_START")
	f.Content("toolCallId", c.Shown)
	f.Content("toolCallName", c.Name)
	p.messageID(f, "parentMessageId", messageRef{chunk.Seq(c.Mark[0]), int(c.Mark[1])})
	tag(&f.Object, o.tag)
	f.Shut()
}

// callEnd ends the arguments of a call. arguments has them if the text that was streamed does not: the client finds them in the metadata of the call.
func callEnd(f *turn.Frames, c *turn.Call, arguments chunk.Value) {
	o := callOutputOf(c)
	if !o.open {
		return
	}
	o.open = false
	f.Open("TOOL_CALL_END")
	f.Content("toolCallId", c.Shown)
	tag(&f.Object, o.tag)
	if arguments != nil {
		f.Nest("metadata")
		f.Raw("arguments", arguments)
		f.Close()
	}
	f.Shut()
}

func callArgs(f *turn.Frames, c *turn.Call, content []byte) {
	f.Open("TOOL_CALL_ARGS")
	f.Content("toolCallId", c.Shown)
	f.Content("delta", content)
	tag(&f.Object, callOutputOf(c).tag)
	f.Shut()
}

// arguments writes the arguments of a call. A later record may have other ones: they are in the metadata then, because the client appends to the text.
func (p *printer) arguments(f *turn.Frames, e *turn.Event) {
	c, o, arguments := e.Call, callOutputOf(e.Call), e.Value
	if arguments.IsNull() {
		arguments = chunk.Value(`{}`)
	}
	if !o.open {
		p.callStart(f, c)
	}
	text := rawjson.AppendEscaped(p.scratch[:0], arguments)
	p.scratch = text
	begins := !o.fixed && bytes.HasPrefix(text, o.written)
	if begins && len(text) > len(o.written) {
		callArgs(f, c, text[len(o.written):])
	}
	if begins || !o.fixed && isSameJSON(rawjson.Unescaped(o.written), arguments) {
		arguments = nil
	}
	callEnd(f, c, arguments)
	o.fixed, o.written = true, nil
}

// isSameJSON reports whether text is a JSON value that differs from v in white space only.
func isSameJSON(text []byte, v chunk.Value) bool {
	_, valid := rawjson.Scan(text, rawjson.Limits{Levels: chunk.MaxDepth})
	return valid && bytes.Equal(rawjson.AppendCompact(nil, text), rawjson.AppendCompact(nil, v))
}

// outcome writes the outcome of a call. The event has no member for an error, so its metadata has it.
func (p *printer) outcome(f *turn.Frames, e *turn.Event) {
	c, failure, code, content := e.Call, e.Failure, e.Code, e.Value
	callEnd(f, c, nil)
	if slices.Contains(p.opt.Omit, c.ID) {
		return
	}
	if e.Denied {
		text := "call denied"
		if reason := e.Item.Text("reason"); reason != "" {
			text += ": " + reason
		}
		failure, code = rawjson.AppendQuoted(nil, text), chunk.Value(`"denied"`)
	}
	if failure != nil {
		content = failure
	}
	f.Open("TOOL_CALL_RESULT")
	f.Name("messageId")
	f.Dst = append(appendResultID(append(f.Dst, '"'), p.id, c.Shown), '"')
	f.Content("toolCallId", c.Shown)
	if content[0] == '"' {
		f.Raw("content", content)
	} else {
		f.Bytes("content", content)
	}
	f.String("role", "tool")
	tag(&f.Object, callOutputOf(c).tag)
	if failure != nil {
		f.Nest("metadata")
		f.Raw("error", failure)
		f.Raw("errorCode", code)
		f.Close()
	}
	f.Shut()
}

// appendResultID appends the id of the message with the result of a call.
func appendResultID(dst, answer, call []byte) []byte {
	return append(append(append(dst, answer...), "-result-"...), call...)
}

package anthropic

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/openaistream"
)

// message is a response of the model, which is one step of its agent.
type message struct {
	id, model string
	usage     usage
	stop      string // why it ended, in the terms of the log, "" if that is not known
	whole     bool   // it was not streamed
	content   bool   // it has a text or a call
	called    bool
	ended     bool // its step_end was written
	blocks    []*block
	open      map[string]*block // by index
}

const finishFiltered = "content-filter"

var finishReasons = map[string]string{
	"end_turn": dialect.ReasonStop, "stop_sequence": dialect.ReasonStop, "max_tokens": "length", "model_context_window_exceeded": "length",
	"tool_use": dialect.ReasonToolCalls, "refusal": finishFiltered, "pause_turn": dialect.ReasonOther, "compaction": dialect.ReasonOther,
}

// begin begins a step. The message before it has ended, also if no event says it.
func (t *translator) begin(a *agent, id string) *message {
	t.finish(a)
	if a == t.root {
		if f := t.failure; f != nil { // the agent has asked again
			a.EmitValid(chunk.Error{Error: f.Message, Code: f.Code, ErrorDetail: f, Recoverable: true})
		}
		t.open, t.rejected, t.over, t.failure, t.deferred = nil, false, false, nil, nil
	}
	a.m = &message{id: id, open: map[string]*block{}}
	if id == "" {
		a.NextStep(nil)
	} else {
		a.NextStep(&id)
	}
	return a.m
}

// current returns the message of an event in the middle of one.
func (t *translator) current(a *agent) *message {
	if a.m == nil || a.m.ended {
		return t.begin(a, "")
	}
	return a.m
}

// messageStart reads the start of a streamed message, or a message that was not streamed.
func (t *translator) messageStart(a *agent, kind string, o *dialect.Object) bool {
	in := o
	if kind == "message_start" {
		in = o.Object("message")
	}
	m := t.begin(a, in.Or("id", ""))
	m.whole = kind == "message"
	t.readMessage(a, m, in)
	if m.whole {
		t.finish(a)
	}
	return in != nil
}

// readMessage reads the members of a message, and the blocks that no event had.
func (t *translator) readMessage(a *agent, m *message, in *dialect.Object) {
	m.model = in.Or("model", m.model)
	m.usage.merge(in.Object("usage"))
	t.stopped(m, in)
	if text, ok := in.Text("content"); ok {
		t.text(a, nil, text)
	}
	for _, c := range in.List("content") {
		if c == nil || t.had(a, c) {
			continue
		}
		b := &block{kind: c.Or("type", ""), whole: true}
		m.blocks = append(m.blocks, b)
		if !t.startBlock(a, b, c) {
			a.Keep(b.kind, redact(c.GetAll()))
		}
		t.closeBlock(a, b, false)
	}
}

func (t *translator) stopped(m *message, o *dialect.Object) {
	reason, ok := o.Text("stop_reason")
	if !ok {
		return
	}
	if m.stop = finishReasons[reason]; m.stop == "" {
		m.stop = dialect.ReasonOther
		o.Unread("stop_reason")
	}
}

func (t *translator) messageDelta(a *agent, o *dialect.Object) {
	m := t.current(a)
	m.usage.merge(o.Object("usage"))
	t.stopped(m, o.Object("delta"))
}

// finish ends the step of a message. A block that has no end was cut off.
func (t *translator) finish(a *agent) {
	m := a.m
	if m == nil || m.ended {
		return
	}
	for _, b := range m.blocks {
		t.closeBlock(a, b, true)
	}
	m.ended = true
	reason := m.stop
	switch {
	case reason != "":
	case m.whole && m.called:
		reason = dialect.ReasonToolCalls
	case m.whole:
		reason = dialect.ReasonStop
	default:
		reason = dialect.ReasonError
	}
	a.EndStep(reason, m.usage.chunk(), chunk.Model{Name: m.model})
}

// error reads the error of a response. Its own message may have parts of the prompt.
func (t *translator) error(o *dialect.Object) bool {
	kind, ok := o.Object("error").Text("type")
	if !ok {
		return false
	}
	e := openaistream.Error{Type: kind}
	code, final := e.Classify(0)
	if t.failure != nil {
		o.Object("error").Unread("type")
	} else {
		t.failure = dialect.ProviderFailure(openaistream.UserMessage(code), kind, openaistream.Temporary(code) && !final)
	}
	return true
}

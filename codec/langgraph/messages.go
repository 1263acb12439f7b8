package langgraph

import (
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
)

// message is a message of a model, which is one step of its agent.
type message struct {
	namespace string
	model     chunk.Model
	usage     *chunk.Usage
	stop      string // why it ended, in the terms of the log, "" if that is not known
	called    bool
	input     bool // it is of the user or of the system: not written
	ended     bool // its step_end was written
	blocks    []*block
	open      map[string]*block // by index
}

var finishReasons = map[string]string{
	"stop": dialect.ReasonStop, "end_turn": dialect.ReasonStop, "stop_sequence": dialect.ReasonStop, "length": "length", "max_tokens": "length",
	"tool_calls": dialect.ReasonToolCalls, "tool_use": dialect.ReasonToolCalls, "content_filter": "content-filter", "refusal": "content-filter", "error": dialect.ReasonError,
}

// message translates an event of a message.
func (t *translator) message(a *agent, p, d *dialect.Object) bool {
	event, ns := d.PeekText("event"), keyOf(namespaceOf(p))
	if event == "message-start" {
		m := t.messageStart(a, ns, d)
		t.meta(m, d)
		return true
	}
	if m := a.m; m != nil && m.input && !m.ended && strings.HasPrefix(event, "content-block-") {
		d.GetAll()
		return true
	}
	switch event {
	case "content-block-start":
		c := blockOf(d)
		if c == nil {
			return false
		}
		return t.blockStart(a, t.current(a, ns).add(d), c)
	case "content-block-delta":
		return t.delta(a, t.current(a, ns), d)
	case "content-block-finish":
		c := blockOf(d)
		if c == nil {
			return false
		}
		m := t.current(a, ns)
		b := m.open[string(d.Peek("index"))]
		if b == nil {
			b = m.add(d)
		}
		return t.blockEnd(a, b, c)
	case "usage":
		t.meta(t.current(a, ns), d)
	case "message-finish":
		m := t.current(a, ns)
		t.meta(m, d)
		if reason, ok := d.Text("reason"); ok {
			if m.stop = finishReasons[reason]; m.stop == "" {
				m.stop = dialect.ReasonOther
				d.Unread("reason")
			}
		} else {
			m.stop = dialect.ReasonStop
		}
		t.finish(a)
	case "error":
		message, ok := d.Text("message")
		return ok && a.EmitValid(chunk.Error{Error: message, Code: d.Maybe("code")})
	default:
		return false
	}
	return true
}

// messageStart begins a message.
func (t *translator) messageStart(a *agent, ns string, d *dialect.Object) *message {
	t.finish(a)
	a.m = &message{namespace: ns, open: map[string]*block{}}
	switch role := d.Or("role", ""); role {
	case "", "ai", "assistant":
	case "human", "user", "system":
		a.m.input = true
		d.Text("id")
		return a.m
	default:
		d.Unread("role")
	}
	a.Step++
	if !a.EmitValid(chunk.StepStart{StepID: d.Maybe("id")}) {
		d.Unread("id")
		a.EmitValid(chunk.StepStart{})
	}
	return a.m
}

// current returns the message of an event in the middle of one.
func (t *translator) current(a *agent, ns string) *message {
	if a.m == nil || a.m.ended {
		t.finish(a)
		a.m = &message{namespace: ns, open: map[string]*block{}}
		a.NextStep(nil)
	}
	return a.m
}

// meta reads the model and the tokens of a message.
func (t *translator) meta(m *message, d *dialect.Object) {
	for _, name := range []string{"metadata", "response_metadata", "responseMetadata"} {
		o := d.Object(name)
		m.model.Name = o.Or("model", o.Or("model_name", o.Or("modelName", m.model.Name)))
		m.model.Provider = o.Or("provider", o.Or("model_provider", o.Or("modelProvider", m.model.Provider)))
	}
	u := d.Object("usage")
	in, out := u.Number(either(u, "input_tokens")), u.Number(either(u, "output_tokens"))
	if in == nil || out == nil {
		return
	}
	ofIn, ofOut := u.Object(either(u, "input_token_details")), u.Object(either(u, "output_token_details"))
	m.usage = &chunk.Usage{
		InputTokens: *in, OutputTokens: *out, ReasoningTokens: ofOut.Number("reasoning"),
		CachedTokens: ofIn.Number(either(ofIn, "cache_read")), CacheWriteTokens: ofIn.Number(either(ofIn, "cache_creation")),
	}
}

// finish ends the step of a message. A block that has no end was cut off.
func (t *translator) finish(a *agent) {
	m := a.m
	if m == nil || m.ended {
		return
	}
	for _, b := range slices.Clone(m.blocks) {
		t.closeBlock(a, b, nil)
	}
	m.ended, m.blocks, m.open = true, nil, nil
	if m.input {
		return
	}
	reason := m.stop
	switch {
	case reason == "":
		reason = dialect.ReasonError
	case reason == dialect.ReasonStop && m.called:
		reason = dialect.ReasonToolCalls
	}
	a.EndStep(reason, m.usage, m.model)
}

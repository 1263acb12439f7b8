package langgraph

import (
	"slices"
	"strings"
	"time"

	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/projector/fold"
)

// State is what the state of a thread is written from. Its Pending may have calls of sub-agents, under their ids for the client.
type State struct {
	fold.Content

	Thread    string   // id for the client
	Namespace []string // of a sub-agent
	AgentType string   // of an agent that runs or waits, "" for none
}

// AppendState appends a ThreadState of LangGraph. An answer in flight is not part of it: the client gets all of it from the event stream, and created_at is before it.
func AppendState(dst []byte, s State) []byte {
	o := rawjson.Begin(dst)
	o.Name("values")
	o.Dst = appendValues(o.Dst, s.Content)
	next := []string{s.AgentType}
	if s.AgentType == "" {
		next = nil
	}
	rawjson.AddList(&o, "next", next, func(agentType string, dst []byte) []byte { return rawjson.AppendQuoted(dst, agentType) })
	rawjson.AddList(&o, "tasks", next, func(agentType string, dst []byte) []byte {
		t := rawjson.Begin(dst)
		t.String("id", s.RunID)
		t.String("name", agentType)
		rawjson.AddList(&t, "interrupts", s.Pending, func(c fold.PendingCall, dst []byte) []byte { return appendInterrupt(dst, &c) })
		return t.End()
	})
	o.Nest("checkpoint")
	o.String("thread_id", s.Thread)
	o.String("checkpoint_ns", strings.Join(s.Namespace, "|"))
	o.String("checkpoint_id", checkpointID(s.Position.Seq))
	o.Close()
	o.Raw("parent_checkpoint", []byte("null"))
	o.Nest("metadata")
	o.Number("step", int64(s.Position.Seq))
	o.Close()
	o.String("created_at", time.UnixMilli(int64(s.Anchor)).UTC().Format("2006-01-02T15:04:05.000Z"))
	return o.End()
}

// appendInterrupt appends a question to the user, as input.requested has it.
func appendInterrupt(dst []byte, c *fold.PendingCall) []byte {
	o := rawjson.Begin(dst)
	name, args := rawjson.AppendEscaped(nil, c.ToolName), objectOf(c.Input)
	if c.ApprovalID != "" {
		o.String("id", c.ApprovalID)
		o.Nest("value")
		appendApproval(&o, name, args)
	} else {
		o.String("id", c.CallID)
		o.Nest("value")
		appendClientCall(&o, rawjson.AppendEscaped(nil, c.CallID), name, args)
	}
	o.Close()
	return o.End()
}

// appendValues appends the messages of a thread, and the members of its custom state.
func appendValues(dst []byte, c fold.Content) []byte {
	o := rawjson.Begin(dst)
	o.Name("messages")
	l := messageList{dst: append(o.Dst, '['), shown: -1}
	for i := range c.Messages {
		if m := &c.Messages[i]; !m.Replaced && !m.Hidden {
			l.add(m)
		}
	}
	o.Dst = l.dst
	o.Dst = append(o.Dst, ']')
	for name, value := range rawjson.Members(objectOf(c.State)) {
		if !name.Is("messages") {
			o.Raw(string(name.Content()), value)
		}
	}
	return o.End()
}

// messageList builds the messages.
type messageList struct {
	dst   []byte
	shown int             // the answer …
	calls map[string]bool // … and the ids of its calls
}

func (l *messageList) begin() rawjson.Object {
	if l.dst[len(l.dst)-1] != '[' {
		l.dst = append(l.dst, ',')
	}
	return rawjson.Begin(l.dst)
}

// add appends the message of a user, or that of a step that has blocks and the results of its calls.
func (l *messageList) add(m *fold.Message) {
	if m.Role != fold.User && !slices.ContainsFunc(m.Parts, func(p fold.Part) bool { kind, _ := partBlock(&p); return kind != "" }) {
		return
	}
	kind, id := "human", m.ClientID
	if m.Role != fold.User {
		kind, id = "ai", messageID(m.First)
	}
	if id == "" || m.First == 0 && m.Role != fold.User {
		id = m.ID()
	}
	if l.shown != m.Shown {
		l.shown, l.calls = m.Shown, make(map[string]bool)
	}
	var ids []string
	var calls []*fold.ToolCall
	o := l.begin()
	o.String("type", kind)
	o.String("id", id)
	if m.Role == fold.User && len(m.Parts) == 1 && m.Parts[0].Kind == fold.PartText {
		o.String("content", m.Parts[0].Text)
	} else {
		o.Name("content")
		o.Dst = append(o.Dst, '[')
		for i := range m.Parts {
			p := &m.Parts[i]
			kind, write := partBlock(p)
			if kind == "" {
				continue
			}
			if p.Call != nil {
				calls, ids = append(calls, p.Call), append(ids, dialect.ShownCallID(l.calls, p.Call.ID))
				write = func(b *rawjson.Object) { appendCallOf(b, ids[len(ids)-1], p.Call) }
			}
			if o.Dst[len(o.Dst)-1] != '[' {
				o.Dst = append(o.Dst, ',')
			}
			b := rawjson.Begin(o.Dst)
			b.String("type", kind)
			write(&b)
			o.Dst = b.End()
		}
		o.Dst = append(o.Dst, ']')
	}
	o.List("tool_calls", len(calls), func(dst []byte, i int) []byte {
		c := rawjson.Begin(dst)
		appendCallOf(&c, ids[i], calls[i])
		c.String("type", "tool_call")
		return c.End()
	})
	if kind == "ai" {
		o.Nest("response_metadata")
		o.String("output_version", "v1")
		o.Close()
	}
	l.dst = o.End()
	for i, c := range calls {
		l.result(id, ids[i], c)
	}
}

// partBlock returns the block of a part, "" for a part that has none.
func partBlock(p *fold.Part) (kind string, write func(o *rawjson.Object)) {
	switch p.Kind {
	case fold.PartText:
		return "text", func(o *rawjson.Object) { o.String("text", p.Text) }
	case fold.PartReasoning:
		return "reasoning", func(o *rawjson.Object) { o.String("reasoning", p.Text) }
	case fold.PartCall:
		return "tool_call", nil
	case fold.PartFile:
		return fileBlock(p.File.URL, p.File.MediaType, p.File.Filename)
	}
	return "", nil
}

func appendCallOf(o *rawjson.Object, id string, c *fold.ToolCall) {
	appendCall(o, rawjson.AppendEscaped(nil, id), rawjson.AppendEscaped(nil, c.Name), objectOf(c.Input))
}

// result appends the message with the outcome of a call, if it has one.
func (l *messageList) result(message, id string, c *fold.ToolCall) {
	status, content := "success", c.Output
	switch c.State {
	case fold.CallDone:
	case fold.CallFailed, fold.CallDenied:
		status, content = "error", rawjson.AppendQuoted(nil, c.Error)
	default:
		return
	}
	o := l.begin()
	o.String("type", "tool")
	o.String("id", message+"-tool-"+id)
	o.String("tool_call_id", id)
	o.String("name", c.Name)
	o.Raw("content", asText(content))
	o.String("status", status)
	l.dst = o.End()
}

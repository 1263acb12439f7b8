package langgraph

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/turn"
	"github.com/tailrace/tailrace/projector/fold"
)

// agentOutput is what was written of an agent.
type agentOutput struct {
	path    []string  // its namespace, nil for that of the root graph
	message chunk.Seq // of the record that opened the step whose message is open; 0: none is
	blocks  int       // of that message
	text    []byte    // of its open text, escaped as in the records
}

// outputOf returns what was written of an agent. One without a start that is known has its session as namespace.
func outputOf(a *turn.Agent) *agentOutput {
	o, isNew := turn.Kept[agentOutput](&a.Kept)
	if isNew && !a.Own() {
		o.path = []string{"session:" + a.Session}
	}
	return o
}

func pathOf(a *turn.Agent) []string { return outputOf(a).path }

// below returns a namespace below that of a sub-agent, and that of the root graph itself. A page shows what is in the namespace of a sub-agent itself among the
// messages and calls of the root graph.
func below(a *turn.Agent, segment string) []string {
	if a.Own() {
		return nil
	}
	return append(slices.Clip(pathOf(a)), segment)
}

// messageID returns the id of the message of a step.
func messageID(first chunk.Seq) string { return "ai-" + strconv.FormatUint(uint64(first), 10) }

func (p *printer) message(f *turn.Frames, a *turn.Agent, event string, data func(o *rawjson.Object)) {
	p.event(f, "messages", below(a, "model:"+a.Session), func(o *rawjson.Object) {
		o.String("event", event)
		data(o)
	})
}

// open begins the message of the present step of an agent, unless it is open.
func (p *printer) open(f *turn.Frames, a *turn.Agent) *agentOutput {
	o := outputOf(a)
	if o.message == a.First {
		return o
	}
	p.finish(f, a, nil)
	o.message = a.First
	p.message(f, a, "message-start", func(m *rawjson.Object) {
		m.String("role", "ai")
		m.String("id", messageID(a.First))
	})
	return o
}

// finish ends the open message of an agent, with the tokens of its step.
func (p *printer) finish(f *turn.Frames, a *turn.Agent, usage chunk.Value) {
	o := outputOf(a)
	if o.message == 0 {
		return
	}
	p.message(f, a, "message-finish", func(m *rawjson.Object) {
		if usage == nil {
			return
		}
		var u turn.Usage
		u.Add(usage)
		m.Nest("usage")
		m.Number("input_tokens", u.Input)
		m.Number("output_tokens", u.Output)
		m.Number("total_tokens", u.Input+u.Output)
		if u.Cached > 0 || u.CacheWrite > 0 {
			m.Nest("input_token_details")
			m.Int("cache_read", u.Cached)
			m.Int("cache_creation", u.CacheWrite)
			m.Close()
		}
		m.Close()
	})
	o.message, o.blocks, o.text = 0, 0, nil
}

// block writes an event of a block of the open message of an agent. content writes the members of the block or of the piece, which is the member name.
func (p *printer) block(f *turn.Frames, a *turn.Agent, event string, index int, name, kind string, content func(o *rawjson.Object)) {
	p.message(f, a, "content-block-"+event, func(m *rawjson.Object) {
		m.Number("index", int64(index))
		m.Nest(name)
		m.String("type", kind)
		content(m)
		m.Close()
	})
}

// content writes the texts and files of a message.
func (p *printer) content(f *turn.Frames, e *turn.Event) {
	a, kind := e.Agent, "text"
	if a.Block.Kind == turn.ReasoningBlock {
		kind = "reasoning"
	}
	o := outputOf(a)
	text := func(content []byte) func(m *rawjson.Object) {
		return func(m *rawjson.Object) { m.Content(kind, content) }
	}
	switch e.Kind {
	case turn.BlockOpen:
		o = p.open(f, a)
		o.text = o.text[:0]
		o.blocks++
		p.block(f, a, "start", o.blocks-1, "content", kind, text(nil))
	case turn.BlockDelta:
		o.text = append(o.text, e.Text...)
		p.block(f, a, "delta", o.blocks-1, "delta", kind+"-delta", text(e.Text))
	case turn.BlockClose:
		p.block(f, a, "finish", o.blocks-1, "content", kind, text(o.text))
	default:
		if e.Item.Rec.Type != chunk.TypeFile {
			p.notice(f, e) // a source
			return
		}
		o = p.open(f, a)
		o.blocks++
		file, write := fileBlock(e.Item.Text("url"), e.Item.Text("mediaType"), e.Item.Text("filename"))
		p.block(f, a, "start", o.blocks-1, "content", file, write)
		p.block(f, a, "finish", o.blocks-1, "content", file, write)
	}
}

// fileBlock returns the block of a file, whose type is the kind of its media type.
func fileBlock(url, mediaType, name string) (kind string, write func(o *rawjson.Object)) {
	switch kind, _, _ = strings.Cut(mediaType, "/"); kind {
	case "image", "audio", "video":
	default:
		kind = "file"
	}
	return kind, func(o *rawjson.Object) {
		if head, data, ok := strings.Cut(url, ","); ok && strings.HasPrefix(head, "data:") && strings.HasSuffix(head, ";base64") {
			o.String("base64", data)
		} else {
			o.String("url", url)
		}
		o.Text("mime_type", mediaType)
		o.Text("filename", name)
	}
}

// run writes the start of a run, and the messages of users that it has, so that other clients have them. The client whose message it is has it under the same id.
func (p *printer) run(f *turn.Frames, e *turn.Event) {
	if !e.Open { // otherwise the run continues, after a crash or with the results of sub-agents: clients would drop what it has written
		p.runID = e.Turn.RunID()
		p.lifecycle(f, "running", nil)
	}
	run, _ := chunk.BodyOf[chunk.RunStarted](*e.Item.Rec)
	index, known := fold.MessageIndex(p.cfg.MessageID)
	for i := range run.Input {
		in := &run.Input[i]
		if in.Metadata != nil && fold.IsHidden(*in.Metadata) {
			continue
		}
		id := p.cfg.MessageID + "-input-" + strconv.Itoa(i)
		switch at := index - len(run.Input) + i; {
		case in.ClientMessageID != nil:
			id = *in.ClientMessageID
		case known && at >= 0:
			id = fold.MessageID(at)
		}
		p.message(f, e.Agent, "message-start", func(m *rawjson.Object) {
			m.String("role", "human")
			m.String("id", id)
		})
		n := 0
		add := func(kind string, write func(o *rawjson.Object)) {
			p.block(f, e.Agent, "start", n, "content", kind, write)
			p.block(f, e.Agent, "finish", n, "content", kind, write)
			n++
		}
		if in.Content != "" || len(in.Files) == 0 {
			add("text", func(o *rawjson.Object) { o.String("text", in.Content) })
		}
		for _, file := range in.Files {
			name := ""
			if file.Filename != nil {
				name = *file.Filename
			}
			add(fileBlock(file.URL, file.MediaType, name))
		}
		p.message(f, e.Agent, "message-finish", func(*rawjson.Object) {})
	}
}

// pause writes what the client must do, and the state of the session with it.
func (p *printer) pause(f *turn.Frames, e *turn.Event) {
	for _, c := range e.Turn.OpenCalls() {
		if o := callOutputOf(c); c.ApprovalID == nil && o.input != nil && e.Turn.WaitsForClient(c) {
			o.asked = true
			p.request(f, c.By, c.Shown, func(v *rawjson.Object) { appendClientCall(v, c.Shown, c.Name, o.input) })
		}
	}
	p.conclude(f, e)
	p.lifecycle(f, "interrupted", nil)
}

// end writes the end of the turn.
func (p *printer) end(f *turn.Frames, e *turn.Event) {
	p.conclude(f, e)
	switch {
	case e.Kind == turn.Fail:
		p.lifecycle(f, "failed", asText(e.Failure))
	case e.Reason == turn.Success:
		p.lifecycle(f, "completed", nil)
	default:
		p.lifecycle(f, "interrupted", nil)
	}
}

// conclude ends the open messages, and writes the state with all messages: clients drop those that it does not have.
func (p *printer) conclude(f *turn.Frames, e *turn.Event) {
	for _, a := range e.Turn.Agents() {
		p.finish(f, a, nil)
	}
	p.finish(f, e.Turn.Own(), nil)
	p.values(f)
}

// asText returns a value as a JSON string.
func asText(v chunk.Value) chunk.Value {
	if v == nil || v[0] == '"' {
		return v
	}
	return dialect.Quote(string(v))
}

// agent writes the start and the end of a sub-agent, whose namespace has its type and the call that started it.
func (p *printer) agent(f *turn.Frames, e *turn.Event) {
	a, o := e.Agent, outputOf(e.Agent)
	if e.Kind == turn.AgentOpen {
		call := string(rawjson.Unescaped(a.Call))
		if a.CallID == "" {
			call = a.Session
		}
		o.path = slices.Concat(pathOf(a.Parent), []string{string(rawjson.Unescaped(a.Type)) + ":" + call})
		p.event(f, "lifecycle", o.path, func(l *rawjson.Object) {
			l.String("event", "started")
			l.Content("graph_name", a.Type)
			if a.CallID != "" {
				l.Nest("cause")
				l.String("type", "toolCall")
				l.Content("tool_call_id", a.Call)
				l.Close()
			}
		})
		return
	}
	p.finish(f, a, nil)
	event, failure := "interrupted", chunk.Value(nil)
	if e.Kind == turn.AgentClose {
		if failure = rawjson.Get(e.Value, "error"); failure.IsNull() {
			failure, event = nil, "completed"
		} else {
			event = "failed"
		}
		p.event(f, "values", o.path, func(v *rawjson.Object) { v.Raw("result", e.Value) })
	}
	p.event(f, "lifecycle", o.path, func(l *rawjson.Object) {
		l.String("event", event)
		l.Raw("error", asText(failure))
	})
}

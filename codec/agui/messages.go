package agui

import (
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/projector/fold"
)

// appendMessages appends a list of messages of the fold as an array of AG-UI messages, with the ids that a client has of the stream. Hidden, replaced and empty
// messages are left out. forAgent: as an agent gets the history, with hidden messages, without activities, and with the errors of calls.
func appendMessages(dst []byte, list []fold.Message, forAgent bool) []byte {
	l := messageList{dst: append(dst, '['), forAgent: forAgent}
	for i := range list {
		m := &list[i]
		if m.Replaced || m.Hidden && !forAgent {
			continue
		}
		if m.Role == fold.User {
			l.user(m)
			continue
		}
		if l.calls == nil || l.shown != m.Shown {
			l.shown, l.calls = m.Shown, make(map[string]bool)
			l.answer = rawjson.AppendEscaped(nil, fold.MessageID(m.Shown))
		}
		l.step(m)
	}
	return append(l.dst, ']')
}

// messageList builds the messages.
type messageList struct {
	dst      []byte
	forAgent bool

	shown  int
	answer []byte          // id of the answer, as the content of a JSON string
	calls  map[string]bool // ids of the calls in it

	// Of the step at hand, as in agentState.
	ref     messageRef // of the next message
	carrier *assistant // receives the next call, nil: it begins a message
}

// assistant is a message of the agent that is not complete.
type assistant struct {
	ref   messageRef
	text  *string
	calls []fold.ToolCall
}

func (l *messageList) next() {
	if l.dst[len(l.dst)-1] != '[' {
		l.dst = append(l.dst, ',')
	}
}

func (l *messageList) user(m *fold.Message) {
	l.next()
	id := m.ClientID
	if id == "" {
		id = m.ID()
	}
	var text strings.Builder
	var files []chunk.InputFile
	for i := range m.Parts {
		switch p := &m.Parts[i]; {
		case p.Kind == fold.PartText:
			text.WriteString(p.Text)
		case p.File != nil:
			f := chunk.InputFile{URL: p.File.URL, MediaType: p.File.MediaType}
			if p.File.Filename != "" {
				f.Filename = &p.File.Filename
			}
			files = append(files, f)
		case p.Data != nil && l.forAgent: // AG-UI has no data parts
			if text.Len() > 0 {
				text.WriteByte('\n')
			}
			text.Write(p.AppendJSON(nil))
		}
	}
	var metadata *chunk.Value
	if m.Metadata != nil {
		metadata = &m.Metadata
	}
	l.dst = appendUserMessage(l.dst, id, text.String(), files, metadata)
}

// appendUserMessage appends a message of a user: its content is a text, or a list of parts if it has files.
func appendUserMessage(dst []byte, id, text string, files []chunk.InputFile, metadata *chunk.Value) []byte {
	o := rawjson.Begin(dst)
	o.String("id", id)
	o.String("role", "user")
	if len(files) == 0 {
		o.String("content", text)
	} else {
		o.Name("content")
		o.Dst = append(o.Dst, '[')
		if text != "" {
			part := rawjson.Begin(o.Dst)
			part.String("type", "text")
			part.String("text", text)
			o.Dst = part.End()
		}
		for i := range files {
			if o.Dst[len(o.Dst)-1] != '[' {
				o.Dst = append(o.Dst, ',')
			}
			o.Dst = appendFilePart(o.Dst, &files[i])
		}
		o.Dst = append(o.Dst, ']')
	}
	if metadata != nil && rawjson.Kind(*metadata) == '{' {
		if shown := withoutContext(*metadata); len(shown) > len("{}") {
			o.Raw("metadata", shown)
		}
	}
	return o.End()
}

// ContextMember is the member of the metadata of a message that has what a client posted besides the messages: it is for the agent, and the messages of clients do
// not have it.
const ContextMember = "agui"

func withoutContext(metadata chunk.Value) chunk.Value {
	if rawjson.Get(metadata, ContextMember) == nil {
		return metadata
	}
	o := rawjson.Begin(nil)
	for name, value := range rawjson.Members(metadata) {
		if !name.Is(ContextMember) {
			o.Raw(string(name.Content()), value)
		}
	}
	return o.End()
}

// appendFilePart appends a file as a part of a message, under the kind that its media type begins with.
func appendFilePart(dst []byte, f *chunk.InputFile) []byte {
	kind, _, _ := strings.Cut(f.MediaType, "/")
	switch kind {
	case "image", "audio", "video":
	default:
		kind = "document"
	}
	o := rawjson.Begin(dst)
	o.String("type", kind)
	o.Nest("source")
	if data, isData := dataURL(f.URL); isData {
		o.String("type", "data")
		o.String("value", data)
		o.String("mimeType", f.MediaType)
	} else {
		o.String("type", "url")
		o.String("value", f.URL)
		o.Text("mimeType", f.MediaType)
	}
	o.Close()
	if f.Filename != nil {
		o.Nest("metadata")
		o.String("filename", *f.Filename)
		o.Close()
	}
	return o.End()
}

// dataURL returns the base64 text of a data URL.
func dataURL(url string) (data string, ok bool) {
	rest, isData := strings.CutPrefix(url, "data:")
	if !isData {
		return "", false
	}
	head, data, ok := strings.Cut(rest, ",")
	return data, ok && strings.HasSuffix(head, ";base64")
}

// step appends the messages of a step of an answer.
func (l *messageList) step(m *fold.Message) {
	l.ref, l.carrier = messageRef{first: m.First}, nil
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Kind {
		case fold.PartText:
			l.begin()
			l.carrier = &assistant{ref: l.take(), text: &p.Text}
		case fold.PartReasoning:
			l.begin()
			l.object(func(o *rawjson.Object) {
				o.String("role", "reasoning")
				o.String("content", p.Text)
			})
		case fold.PartCall:
			if l.forAgent && p.Call.Name == InterruptTool {
				continue
			}
			if l.carrier == nil {
				l.carrier = &assistant{ref: l.take()}
			}
			l.carrier.calls = append(l.carrier.calls, *p.Call)
		case fold.PartFile, fold.PartSource, fold.PartData:
			l.activity(p)
		case fold.PartStepStart:
		}
	}
	l.begin()
}

// take returns the number of the next message of the step.
func (l *messageList) take() messageRef {
	ref := l.ref
	l.ref.n++
	return ref
}

// object appends a message of the step.
func (l *messageList) object(members func(o *rawjson.Object)) {
	ref := l.take()
	l.next()
	o := rawjson.Begin(l.dst)
	l.id(&o, ref)
	members(&o)
	l.dst = o.End()
}

func (l *messageList) id(o *rawjson.Object, ref messageRef) {
	o.Name("id")
	o.Dst = append(appendMessageID(append(o.Dst, '"'), l.answer, ref), '"')
}

// begin ends the message of the agent that is not complete: another one begins. The results of its calls follow it.
func (l *messageList) begin() {
	a := l.carrier
	if l.carrier = nil; a == nil {
		return
	}
	l.next()
	o := rawjson.Begin(l.dst)
	l.id(&o, a.ref)
	o.String("role", "assistant")
	o.Maybe("content", a.text)
	ids := make([][]byte, len(a.calls))
	o.List("toolCalls", len(a.calls), func(dst []byte, i int) []byte {
		ids[i] = rawjson.AppendEscaped(nil, dialect.ShownCallID(l.calls, a.calls[i].ID))
		return appendCall(dst, ids[i], &a.calls[i])
	})
	l.dst = o.End()
	for i := range a.calls {
		l.result(ids[i], &a.calls[i])
	}
}

func appendCall(dst, id []byte, c *fold.ToolCall) []byte {
	o := rawjson.Begin(dst)
	o.Content("id", id)
	o.String("type", "function")
	o.Nest("function")
	o.String("name", c.Name)
	switch {
	case c.State == fold.CallStreaming:
		raw := rawjson.Get(c.AppendJSON(nil), "rawInput")
		o.Raw("arguments", raw)
	case c.Input.IsNull():
		o.String("arguments", "{}")
	default:
		o.Bytes("arguments", c.Input)
	}
	o.Close()
	return o.End()
}

// result appends the message with the outcome of a call.
func (l *messageList) result(id []byte, c *fold.ToolCall) {
	failure := ""
	switch c.State {
	case fold.CallFailed, fold.CallDenied:
		failure = c.Error
	case fold.CallDone:
	default:
		return
	}
	failed := c.State != fold.CallDone
	l.next()
	o := rawjson.Begin(l.dst)
	o.Name("id")
	o.Dst = append(appendResultID(append(o.Dst, '"'), l.answer, id), '"')
	o.Content("toolCallId", id)
	o.String("role", "tool")
	switch {
	case failed:
		o.String("content", failure)
	case rawjson.Kind(c.Output) == '"':
		o.Raw("content", c.Output)
	default:
		o.Bytes("content", c.Output)
	}
	switch {
	case failed && l.forAgent:
		o.String("error", failure)
	case failed:
		o.Nest("metadata")
		o.String("error", failure)
		o.Close()
	}
	l.dst = o.End()
}

// activity appends a file, a source or structured data. Events of the application have no message.
func (l *messageList) activity(p *fold.Part) {
	structured := p.Data != nil && p.Data.Name == "structured" && p.Data.ID != nil
	if p.Data != nil && !structured {
		return
	}
	l.begin()
	if l.forAgent {
		l.take()
		return
	}
	l.object(func(o *rawjson.Object) {
		o.String("role", "activity")
		switch {
		case p.File != nil:
			o.String("activityType", ActivityFile)
			o.Nest("content")
			o.String("url", p.File.URL)
			o.String("mediaType", p.File.MediaType)
			o.Text("filename", p.File.Filename)
		case p.Source != nil:
			o.String("activityType", ActivitySource)
			o.Nest("content")
			o.String("sourceId", p.Source.ID)
			o.Text("url", p.Source.URL)
			o.Text("mediaType", p.Source.MediaType)
			o.Text("title", p.Source.Title)
			o.Text("filename", p.Source.Filename)
		default:
			o.String("activityType", ActivityStructured)
			o.Nest("content")
			o.String("id", *p.Data.ID)
			o.Raw("data", p.Data.Value)
		}
		o.Close()
	})
}

// AppendContent appends what a client sets before it follows the stream: the messages and the state of its agent, and the position.
//
//	{"threadId":"s1","runId":"run-7","messages":[…],"state":…,"streamSequence":17,"cursor":"17-mgj6k3gb","status":"paused",
//	 "interrupts":[…],"pendingToolCallIds":[…],
//	 "before":"msg-4"}                          of a page; null if there are no older messages
//
// interrupts and pendingToolCallIds are what the session waits for: interrupts is what the client sets as its pending ones.
func AppendContent(dst []byte, c fold.Content) []byte {
	o := rawjson.Begin(dst)
	o.String("threadId", c.Session.ID)
	o.Text("runId", c.RunID)
	o.Name("messages")
	o.Dst = appendMessages(o.Dst, c.Messages, false)
	if c.State == nil {
		o.Raw("state", chunk.Value(`{}`)) // as that of a client before the first change
	} else {
		o.Raw("state", c.State)
	}
	o.Number("streamSequence", int64(c.Position.Seq))
	o.String("cursor", chunk.Cursor{Seq: c.Position.Seq, Anchor: c.Anchor}.String())
	o.String("status", string(c.Status))
	var approvals, calls []fold.PendingCall
	for _, p := range c.Pending {
		if p.Kind == fold.PendingApproval {
			approvals = append(approvals, p)
		} else {
			calls = append(calls, p)
		}
	}
	o.List("interrupts", len(approvals), func(dst []byte, i int) []byte {
		p := &approvals[i]
		return appendInterrupt(dst, interrupt{
			id:   rawjson.AppendEscaped(nil, p.ApprovalID),
			call: rawjson.AppendEscaped(nil, p.CallID), tool: rawjson.AppendEscaped(nil, p.ToolName),
		})
	})
	o.List("pendingToolCallIds", len(calls), func(dst []byte, i int) []byte { return rawjson.AppendQuoted(dst, calls[i].CallID) })
	if c.Before != nil {
		o.TextOrNull("before", *c.Before)
	}
	return o.End()
}

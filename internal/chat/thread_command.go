package chat

import (
	"bytes"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// maxThreadItems is the maximum number of messages, answers, channels and namespaces that a client of a thread sends.
const maxThreadItems = 1000

// commandError is the reason why a command of the Agent Streaming Protocol has no effect.
type commandError struct{ code, text string }

func wants(what string) *commandError { return &commandError{"invalid_argument", "want " + what} }

func notSupported(what string) *commandError {
	return &commandError{"not_supported", what + " is not supported"}
}

// threadCommand is what a client posts to change a thread, or to read its state.
type threadCommand struct {
	id     chunk.Value // a number, null if the body has none
	method string

	request   dialect.Request // of run.start and input.respond
	continues bool            // a run that was interrupted is to continue
}

// parseCommand reads a command. The id is set also with an error, as far as the body has one. The result keeps no bytes of the body.
func parseCommand(raw []byte) (c threadCommand, err *commandError) {
	c.id = chunk.Value("null")
	if _, ok := rawjson.Scan(raw, rawjson.Limits{Levels: conversation.MaxDepth, Values: 1 << 20, Name: chunk.MaxName}); !ok {
		return c, wants("a JSON object within the limits")
	}
	o := dialect.Read(rawjson.TrimSpace(raw))
	if o.Number("id") == nil {
		return c, wants("a number as id")
	}
	c.id, c.method = bytes.Clone(o.Peek("id")), o.Or("method", "")
	switch c.method {
	case "run.start":
		err = c.start(o.Object("params"))
	case "input.respond":
		err = c.respond(o.Object("params"))
	case "agent.getTree", "state.get", "state.listCheckpoints":
	case "input.inject", "state.fork":
		err = notSupported(c.method)
	default:
		err = &commandError{"unknown_command", "there is no such method"}
	}
	return c, err
}

// either returns a member under its name in snake case, or else in camel case.
func either(o *dialect.Object, snake, camel string) chunk.Value {
	if v := o.Value(snake); v != nil {
		return v
	}
	return o.Value(camel)
}

// start reads the params of run.start.
func (c *threadCommand) start(o *dialect.Object) *commandError {
	if v := either(o, "assistant_id", "assistantId"); v != nil {
		if c.request.AgentType = dialect.TextAt(v); c.request.AgentType == "" {
			return wants("a string as assistant_id")
		}
	}
	switch dialect.TextAt(either(o, "multitask_strategy", "multitaskStrategy")) {
	case "enqueue":
		c.request.Mode = dialect.ModeQueue
	case "interrupt":
		c.request.Mode = dialect.ModeInterrupt
	case "rollback":
		return notSupported("rollback")
	}
	if either(o.Object("config").Object("configurable"), "checkpoint_id", "checkpointId") != nil {
		return notSupported("a run from an earlier checkpoint")
	}
	input := o.Value("input")
	if c.continues = input == nil; c.continues {
		return nil
	}
	for v := range rawjson.Elements(rawjson.Get(input, "messages")) {
		m := dialect.Read(v)
		if role := m.Or("type", m.Or("role", "")); role != "human" && role != "user" {
			c.request.Messages = nil // the messages of the user are the last ones
			continue
		}
		in, ok := userMessage(m)
		if c.request.Messages = append(c.request.Messages, in); !ok || len(c.request.Messages) > maxThreadItems {
			return wants("messages of a user with an id and a content of text and files")
		}
	}
	if len(c.request.Messages) == 0 {
		return wants("input with messages that end with one of a user, or null")
	}
	if (chunk.Chunk{AgentID: "-", Body: chunk.RunStarted{Input: c.request.Messages}}).Validate() != nil {
		return wants("messages within the limits of a chunk")
	}
	return nil
}

// userMessage reads the message of a user.
func userMessage(o *dialect.Object) (in chunk.InputMessage, ok bool) {
	if id := o.Value("id"); id != nil {
		s := dialect.TextAt(id)
		if s == "" || !dialect.FitsID(s) || strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7F }) {
			return in, false
		}
		in.ClientMessageID = &s
	}
	if in.Content, ok = o.Text("content"); ok || rawjson.Kind(o.Peek("content")) != '[' {
		return in, ok
	}
	var texts []string
	for _, b := range o.List("content") {
		if s, isText := b.Text("text"); isText {
			texts = append(texts, s)
			continue
		}
		f := chunk.InputFile{URL: b.Or("url", dialect.TextAt(b.Value("image_url"), "url")), MediaType: dialect.TextAt(either(b, "mime_type", "mimeType")), Filename: b.Maybe("filename")}
		if data := b.Or("base64", b.Or("data", "")); f.URL == "" && data != "" {
			f.URL = "data:" + f.MediaType + ";base64," + data
		}
		if in.Files = append(in.Files, f); f.URL == "" {
			return in, false
		}
	}
	in.Content = strings.Join(texts, "\n")
	return in, true
}

// respond reads the params of input.respond: one answer, or responses.
func (c *threadCommand) respond(o *dialect.Object) *commandError {
	list := []*dialect.Object{o}
	if o.Value("responses") != nil {
		list = o.List("responses")
	}
	c.request.Answered = &dialect.Answered{Latest: true}
	for _, r := range list {
		id, value := dialect.TextAt(either(r, "interrupt_id", "interruptId")), r.Peek("response")
		if inner := rawjson.Get(value, id); inner != nil && id != "" {
			value = inner // of a tool of the page
		}
		result, err := dialect.CheckValue(value)
		if id == "" || !dialect.FitsID(id) || value == nil || err != nil {
			return wants("interrupt_id, and a response within the limits of a chunk")
		}
		a := control.Answer{Kind: control.ClientResult, CallID: id, Result: result}
		if answer := dialect.Read(value); rawjson.Kind(answer.Peek("decisions")) == '[' {
			kind, decisions := "", answer.List("decisions")
			if len(decisions) == 1 {
				kind = decisions[0].Or("type", "")
			}
			if kind != "approve" && kind != "reject" {
				return notSupported("an answer without one decision that approves or rejects")
			}
			a = control.Answer{Kind: control.Approval, ApprovalID: id, Approved: kind == "approve", Reason: decisions[0].Or("message", "")}
		}
		c.request.Answered.Answers = append(c.request.Answered.Answers, a)
	}
	if n := len(list); n == 0 || n > maxThreadItems {
		return wants("responses, at most 1000")
	}
	return nil
}

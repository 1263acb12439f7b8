package agui

import (
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/projector/fold"
)

// Limits of a RunAgentInput. What becomes part of a chunk must also be within the limits of package chunk. The length of the text is the caller's to limit.
const (
	MaxInputValues = 1 << 20 // JSON values in it: clients send the whole conversation
	MaxInputDepth  = chunk.MaxDepth + 8
	MaxInputItems  = 1000 // tools, entries of context and of resume; new messages and results
)

// RunInput is a RunAgentInput: what a client posts to start or to resume a run.
type RunInput struct {
	ThreadID        string // the session
	RunID           string // of the client; the log has the id that the worker gave to the run
	ParentRunID     string // "" for none
	ProtocolVersion string // "" for a client before version 1.0

	// Messages are the new ones: those of the user at the end of the list. The log has the others. Their ids are client message ids, so a request that is
	// sent again starts no second run.
	Messages []chunk.InputMessage

	// Results are the results of tools since the last message of the user that was answered. Clients send those of the server too: a result of a call that
	// has its outcome is to be ignored.
	Results []ToolResult

	Resume         []Answer    // answers to interrupts
	Tools          []Tool      // tools that the client runs
	Context        []Context   // for the agent
	State          chunk.Value // of the client, nil for none
	ForwardedProps chunk.Value // of the application, nil for none

	// Cursor is the position after which a client reads on, zero for none. The protocol has no such member: we propose lastEventId. @ag-ui/client removes members
	// that it does not know, so forwardedProps.lastEventId is read too. A server prefers the header Last-Event-ID.
	Cursor chunk.Cursor
}

// ToolResult is the result of a call that the client ran.
type ToolResult struct {
	CallID string      // of a call of a sub-agent <session>/<call>
	Result chunk.Value // nil if the call failed
	Error  *string     // the call failed
}

// Answer is an entry of resume: the answer to an interrupt.
type Answer struct {
	InterruptID string // the id of the approval
	Cancelled   bool
	Payload     chunk.Value // nil for none
}

// Approval returns the decision of an answer, and whether it is one: a payload that is a boolean or has the boolean approved. An answer without a payload
// approves, unless it is cancelled.
func (a Answer) Approval() (approved bool, reason string, ok bool) {
	payload := dialect.Read(a.Payload)
	reason, _ = payload.Text("reason")
	switch v := string(a.Payload); {
	case a.Cancelled:
		return false, reason, true
	case a.Payload == nil, v == "true", payload.Flag("approved"):
		return true, reason, true
	case v == "false", string(payload.Peek("approved")) == "false":
		return false, reason, true
	}
	return false, "", false
}

// Tool is a tool that the client runs.
type Tool struct {
	Name, Description string
	Parameters        chunk.Value // a JSON Schema, nil for none
}

// Context is a piece of information for the agent.
type Context struct{ Description, Value string }

// ParseRunInput reads a RunAgentInput. The error is a *chunk.FieldError that names the member. Unknown members are ignored, and so are members that are null.
func ParseRunInput(raw []byte) (RunInput, error) {
	if _, ok := rawjson.Scan(raw, rawjson.Limits{Levels: MaxInputDepth, Values: MaxInputValues, Name: chunk.MaxName}); !ok {
		return RunInput{}, inputError("", "one JSON object in UTF-8 within the limits")
	}
	text := chunk.Value(rawjson.TrimSpace(raw))
	if rawjson.Duplicate(text) != nil {
		return RunInput{}, inputError("", "members with different names")
	}
	r := inputReader{object: dialect.Read(text)}
	if r.object == nil {
		return RunInput{}, inputError("", "an object")
	}
	in := RunInput{
		ThreadID: r.required("threadId"), RunID: r.required("runId"), ParentRunID: r.optional("parentRunId"), ProtocolVersion: r.optional("protocolVersion"),
		State: r.value("state"), ForwardedProps: r.value("forwardedProps"),
	}
	r.messages(&in)
	r.each("tools", func(at string, o *dialect.Object) {
		in.Tools = append(in.Tools, Tool{Name: r.text(at, o, "name"), Description: o.Or("description", ""), Parameters: r.checked(at+"/parameters", o.Value("parameters"))})
	})
	r.each("context", func(at string, o *dialect.Object) {
		in.Context = append(in.Context, Context{Description: r.text(at, o, "description"), Value: r.text(at, o, "value")})
	})
	r.each("resume", func(at string, o *dialect.Object) {
		a := Answer{InterruptID: r.text(at, o, "interruptId"), Payload: r.checked(at+"/payload", o.Value("payload"))}
		switch status, _ := o.Text("status"); status {
		case "resolved":
		case "cancelled":
			a.Cancelled = true
		default:
			r.fail(at+"/status", "resolved or cancelled")
		}
		in.Resume = append(in.Resume, a)
	})
	r.cursor(&in)
	if r.err != nil {
		return RunInput{}, r.err
	}
	return in, nil
}

func inputError(field, want string) error {
	return &chunk.FieldError{Type: "RunAgentInput", Field: field, Want: want, Got: "something else"}
}

// inputReader reads members until the first error.
type inputReader struct {
	object *dialect.Object
	err    error
}

func (r *inputReader) fail(field, want string) {
	if r.err == nil {
		r.err = inputError(field, want)
	}
}

// required returns an identifier.
func (r *inputReader) required(name string) string {
	s, ok := r.object.Text(name)
	if !ok || s == "" {
		r.fail(name, "a string that is not empty")
	}
	return r.identifier(name, s)
}

func (r *inputReader) identifier(at, s string) string {
	if strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7F }) {
		r.fail(at, "a string without control characters")
	}
	return s
}

func (r *inputReader) optional(name string) string {
	if r.object.Value(name) == nil {
		return ""
	}
	s, ok := r.object.Text(name)
	if !ok {
		r.fail(name, "a string")
	}
	return r.identifier(name, s)
}

// text returns a string that an object must have.
func (r *inputReader) text(at string, o *dialect.Object, name string) string {
	s, ok := o.Text(name)
	if !ok {
		r.fail(at+"/"+name, "a string")
	}
	return s
}

func (r *inputReader) value(name string) chunk.Value { return r.checked(name, r.object.Value(name)) }

// checked returns a value that fits into a chunk, on one line.
func (r *inputReader) checked(at string, v chunk.Value) chunk.Value {
	if v == nil || r.err != nil {
		return nil
	}
	checked, err := dialect.CheckValue(v)
	if err != nil {
		r.fail(at, "a value within the limits of a chunk")
	}
	return checked
}

// each passes the objects of a list.
func (r *inputReader) each(name string, do func(at string, o *dialect.Object)) {
	list := r.object.Value(name)
	if list == nil {
		return
	}
	if rawjson.Kind(list) != '[' {
		r.fail(name, "an array")
		return
	}
	n := 0
	for v := range rawjson.Elements(list) {
		at := name + "/" + strconv.Itoa(n)
		if n++; n > MaxInputItems {
			r.fail(name, "at most "+strconv.Itoa(MaxInputItems)+" elements")
		}
		if r.err != nil {
			return
		}
		if rawjson.Kind(v) != '{' {
			r.fail(at, "an object")
			return
		}
		do(at, dialect.Read(v))
	}
}

// cursor reads the position after which the client reads on.
func (r *inputReader) cursor(in *RunInput) {
	at, o := "lastEventId", r.object
	if o.Value(at) == nil {
		if o = o.Object("forwardedProps"); o.Value("lastEventId") == nil {
			return
		}
		at = "forwardedProps/lastEventId"
	}
	id, _ := o.Text("lastEventId")
	c, ok := chunk.ParseCursor(id)
	if !ok {
		r.fail(at, "the id of an event")
	}
	in.Cursor = c
}

// messages reads the end of the conversation.
func (r *inputReader) messages(in *RunInput) {
	list := r.object.Peek("messages")
	if rawjson.Kind(list) != '[' {
		r.fail("messages", "an array")
		return
	}
	var all []chunk.Value
	asked, last := 0, 0 // after the last message of the user that was answered, and after the last that is not of the user
	user := 0
	for v := range rawjson.Elements(list) {
		if rawjson.Kind(v) != '{' {
			r.fail("messages/"+strconv.Itoa(len(all)), "an object")
			return
		}
		all = append(all, v)
		switch dialect.TextAt(v, "role") {
		case "user":
			user = len(all)
		case "assistant", "reasoning", "tool":
			asked, last = user, len(all)
		case "developer", "system", "activity":
		default:
			r.fail("messages/"+strconv.Itoa(len(all)-1)+"/role", "a role of the protocol")
			return
		}
	}
	for i := asked; i < len(all) && r.err == nil; i++ {
		at, o := "messages/"+strconv.Itoa(i), dialect.Read(all[i])
		switch role, _ := o.Text("role"); {
		case role == "tool":
			in.Results = append(in.Results, r.result(at, o))
		case role == "user" && i >= last:
			in.Messages = append(in.Messages, r.message(at, o))
		}
		if len(in.Results) > MaxInputItems || len(in.Messages) > MaxInputItems {
			r.fail("messages", "at most "+strconv.Itoa(MaxInputItems)+" new ones")
		}
	}
	if r.err != nil || len(in.Messages) == 0 {
		return
	}
	// As the record has them.
	if (chunk.Chunk{AgentID: "-", Body: chunk.RunStarted{Input: in.Messages}}).Validate() != nil {
		r.fail("messages", "new messages within the limits of a chunk")
	}
}

// result reads a message with the result of a call.
func (r *inputReader) result(at string, o *dialect.Object) ToolResult {
	res := ToolResult{CallID: r.identifier(at+"/toolCallId", r.text(at, o, "toolCallId"))}
	failure, failed := o.Text("error")
	if !failed {
		failure, failed = o.Object("metadata").Text("error")
	}
	if failed {
		res.Error = &failure
		return res
	}
	content := o.Peek("content")
	if kind := rawjson.Kind(content); kind != '[' && kind != '"' {
		r.fail(at+"/content", "a string or an array")
		return res
	}
	res.Result = r.checked(at+"/content", resultOf(content))
	return res
}

// resultOf returns the result of a call from the content of its message. A text that is a JSON object or array is that value: AG-UI has no other results than
// texts, so agents and clients write JSON into them.
func resultOf(content chunk.Value) chunk.Value {
	s, ok := dialect.Text(content)
	if !ok {
		return content
	}
	inner := chunk.Value(rawjson.TrimSpace([]byte(s)))
	if rawjson.Kind(inner) == '{' || rawjson.Kind(inner) == '[' {
		if v, err := dialect.CheckValue(inner); err == nil {
			return v
		}
	}
	return content
}

// message reads a message of the user.
func (r *inputReader) message(at string, o *dialect.Object) chunk.InputMessage {
	var in chunk.InputMessage
	if id, ok := o.Text("id"); ok && id != "" {
		id = r.identifier(at+"/id", id)
		in.ClientMessageID = &id
	}
	if metadata := o.Peek("metadata"); rawjson.Kind(metadata) == '{' {
		metadata = r.checked(at+"/metadata", metadata)
		in.Metadata = &metadata
	}
	content := o.Peek("content")
	if s, ok := dialect.Text(content); ok {
		in.Content = s
		return in
	}
	if rawjson.Kind(content) != '[' {
		r.fail(at+"/content", "a string or an array")
		return in
	}
	n := 0
	for v := range rawjson.Elements(content) {
		r.part(at+"/content/"+strconv.Itoa(n), dialect.Read(v), &in)
		n++
	}
	return in
}

// part reads a part of a message: a text or a file. Files in the storage of a provider have no URL, and are rejected.
func (r *inputReader) part(at string, o *dialect.Object, in *chunk.InputMessage) {
	kind, _ := o.Text("type")
	var f chunk.InputFile
	switch source := o.Object("source"); kind {
	case "text":
		in.Content += r.text(at, o, "text")
		return
	case "image", "audio", "video", "document":
		f.Filename = o.Object("metadata").Maybe("filename")
		f.MediaType = source.Or("mimeType", defaultMediaType(kind))
		switch from, _ := source.Text("type"); from {
		case "data":
			f.URL = "data:" + f.MediaType + ";base64," + r.text(at+"/source", source, "value")
		case "url":
			f.URL = r.text(at+"/source", source, "value")
		default:
			r.fail(at+"/source/type", "data or url")
		}
	case "binary": // before version 1.0
		f.MediaType, f.Filename = o.Or("mimeType", defaultMediaType("")), o.Maybe("filename")
		if data, ok := o.Text("data"); ok {
			f.URL = "data:" + f.MediaType + ";base64," + data
		} else {
			f.URL = r.text(at, o, "url")
		}
	default:
		r.fail(at+"/type", "text, image, audio, video or document")
	}
	// The rules for files that agents create are those for files that others see.
	if r.err == nil && (chunk.Chunk{AgentID: "-", Body: chunk.File{URL: f.URL, MediaType: f.MediaType, Filename: f.Filename}}).Validate() != nil {
		r.fail(at, "a file whose URL is not a script")
	}
	in.Files = append(in.Files, f)
}

// defaultMediaType returns the media type of a file whose source does not have one.
func defaultMediaType(kind string) string {
	if kind == "image" || kind == "audio" || kind == "video" {
		return kind + "/*"
	}
	return "application/octet-stream"
}

// RunRequest is what AppendRunInput writes.
type RunRequest struct {
	ThreadID, RunID string
	ParentRunID     string         // "" for none
	History         []fold.Message // of the conversation, fold.Snapshot.Messages(0)
	State           chunk.Value    // nil for none
	Tools           []Tool
	Context         []Context
	ForwardedProps  chunk.Value // nil for none
	Resume          []Answer
}

// AppendRunInput appends a RunAgentInput: what is posted to an agent that speaks AG-UI. Calls that a Translator wrote for interrupts are not in the history: the
// agent does not know them, and gets their results as resume.
func AppendRunInput(dst []byte, r RunRequest) []byte {
	o := rawjson.Begin(dst)
	o.String("threadId", r.ThreadID)
	o.String("runId", r.RunID)
	o.String("protocolVersion", ProtocolVersion)
	o.Text("parentRunId", r.ParentRunID)
	// Servers before version 1.0 require all members.
	o.Raw("state", orEmpty(r.State))
	o.Name("messages")
	o.Dst = appendMessages(o.Dst, r.History, true)
	appendArray(&o, "tools", r.Tools, func(o *rawjson.Object, t *Tool) {
		o.String("name", t.Name)
		o.String("description", t.Description)
		o.Raw("parameters", t.Parameters)
	})
	appendArray(&o, "context", r.Context, func(o *rawjson.Object, c *Context) {
		o.String("description", c.Description)
		o.String("value", c.Value)
	})
	o.Raw("forwardedProps", orEmpty(r.ForwardedProps))
	if len(r.Resume) > 0 {
		appendArray(&o, "resume", r.Resume, func(o *rawjson.Object, a *Answer) {
			o.String("interruptId", a.InterruptID)
			if a.Cancelled {
				o.String("status", "cancelled")
				return
			}
			o.String("status", "resolved")
			if !a.Payload.IsNull() {
				o.Raw("payload", a.Payload)
			}
		})
	}
	return o.End()
}

func orEmpty(v chunk.Value) chunk.Value {
	if v.IsNull() {
		return chunk.Value(`{}`)
	}
	return v
}

func appendArray[T any](o *rawjson.Object, name string, list []T, element func(o *rawjson.Object, v *T)) {
	o.Name(name)
	o.Dst = append(o.Dst, '[')
	for i := range list {
		if i > 0 {
			o.Dst = append(o.Dst, ',')
		}
		e := rawjson.Begin(o.Dst)
		element(&e, &list[i])
		o.Dst = e.End()
	}
	o.Dst = append(o.Dst, ']')
}

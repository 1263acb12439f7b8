package fold

import (
	"bytes"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// Message is an entry of the history in the form that models use: a user input, or the output of one step of an answer. It is
// read-only. Its strings are WTF-8, as in package chunk.
type Message struct {
	Index    int // index in the session, from 0
	Shown    int // index of the message that users see it in
	Role     Role
	Hidden   bool        // users do not see it
	Replaced bool        // another message has replaced it, see ReplacesMember
	ClientID string      // the id that the client gave to it, "" for none
	Metadata chunk.Value // nil for none
	Parts    []Part
	Children []Child   // sub-agents that the step called
	First    chunk.Seq // of the record that opened it
}

// ID returns the id of the message. Browsers show all steps of an answer under the id of the first one, MessageID(m.Shown).
func (m Message) ID() string { return MessageID(m.Index) }

// Text returns the text parts, joined, with U+FFFD for what is not UTF-8.
func (m Message) Text() string {
	var b strings.Builder
	for i := range m.Parts {
		if m.Parts[i].Kind == PartText {
			b.WriteString(m.Parts[i].Text)
		}
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

// TextAndData returns the text and, on a line of its own, each data part as JSON: for models and agents whose messages have no data parts.
func (m Message) TextAndData() string {
	lines := make([]string, 0, 4)
	if text := m.Text(); text != "" {
		lines = append(lines, text)
	}
	for i := range m.Parts {
		if p := &m.Parts[i]; p.Kind == PartData {
			lines = append(lines, strings.ToValidUTF8(string(p.AppendJSON(nil)), "\uFFFD"))
		}
	}
	return strings.Join(lines, "\n")
}

// Calls returns the tool calls with their outcomes.
func (m Message) Calls() []ToolCall {
	var calls []ToolCall
	for i := range m.Parts {
		if c := m.Parts[i].Call; c != nil {
			calls = append(calls, *c)
		}
	}
	return calls
}

// PartKind is the kind of a part.
type PartKind string

// The kinds of parts. A part of another kind was stored by a newer version of the code.
const (
	PartText      PartKind = "text"
	PartReasoning PartKind = "reasoning"
	PartCall      PartKind = "call"
	PartFile      PartKind = "file"
	PartSource    PartKind = "source"
	PartData      PartKind = "data"
	PartStepStart PartKind = "step-start" // a boundary, without content
)

// Part is one part of a message.
type Part struct {
	Kind      PartKind
	Text      string    // of text and reasoning
	Streaming bool      // of text and reasoning: more may follow
	Call      *ToolCall // of a tool call
	File      *File     // of a file
	Source    *Source   // of a source
	Data      *Data     // of data

	// ProviderMetadata of text and reasoning is what a provider needs with them in a later request, an object of the AI SDK. Nil for none.
	ProviderMetadata chunk.Value

	raw chunk.Value // as it is stored, if that never changes
}

// File is a file in a message.
type File struct {
	URL       string // a data URL or a hosted one
	MediaType string
	Filename  string // "" if it has none
}

// Source is a source that the answer is based on: a page, which has a URL, or a document, which has a media type.
type Source struct {
	ID, URL, MediaType, Title, Filename string // "" for those that it does not have
}

// Data is a value of the application or of structured data.
type Data struct {
	Name  string  // of the custom event, "structured" for structured data
	ID    *string // nil for none: a later part of the turn with the same name and id replaces it
	Value chunk.Value
}

// ToolCall is a tool call with its outcome.
type ToolCall struct {
	ID               string
	Name             string
	State            CallState
	Input            chunk.Value // nil if unknown
	Output           chunk.Value // of CallDone
	Error            string      // of CallFailed and CallDenied
	Approval         *Approval   // nil if it never needed one
	ProviderExecuted bool        // a client must not run it

	// Static reports that the part of the call is tool-<name> in the AI SDK; otherwise it is dynamic-tool, which has the name in a member.
	Static bool

	// Extra are members of the part in the AI SDK for which the chunk schema has none: title, toolMetadata, callProviderMetadata, resultProviderMetadata.
	Extra []chunk.Member

	rawInput []byte // arguments so far, of CallStreaming; WTF-8
}

// OutcomeUnknown reports a call that a provider of models has run, and whose outcome is not in the log.
func (c *ToolCall) OutcomeUnknown() bool {
	return c.ProviderExecuted && c.State == CallOpen && !isSubagent(c.Name)
}

// ReplaceURL replaces the URL of a file.
func (p *Part) ReplaceURL(url string) {
	p.File.URL = url
	p.replace("url", rawjson.AppendQuoted(nil, url))
}

// ReplaceData replaces the value of data.
func (p *Part) ReplaceData(v chunk.Value) {
	p.Data.Value = v
	p.replace("data", v)
}

// replace replaces a member of the part as it is stored.
func (p *Part) replace(name string, by []byte) {
	o := rawjson.Begin(nil)
	for member, value := range rawjson.Members(p.raw) {
		if member.Is(name) {
			value = by
		}
		o.Raw(string(member.Bytes()), value)
	}
	p.raw = o.End()
}

// ReplaceInput replaces the input, if it is known, and removes the pieces of one that streams.
func (c *ToolCall) ReplaceInput(input chunk.Value) {
	if c.Input != nil {
		c.Input = input
	}
	c.rawInput = nil
}

// CallState is the state of a call.
type CallState string

// The states of a call.
const (
	CallStreaming        CallState = "input-streaming"    // its input is incomplete
	CallOpen             CallState = "input-available"    // without an outcome
	CallAwaitingApproval CallState = "approval-requested" // waits for a user's decision
	CallApproved         CallState = "approval-responded" // approved and not yet run
	CallDone             CallState = "output-available"
	CallFailed           CallState = "output-error"
	CallDenied           CallState = "output-denied" // a user has denied it
)

// Approval is the approval that a call needs.
type Approval struct {
	ID       string
	Approved *bool // nil if undecided
	Reason   *string
}

// Denial returns the error of a call that a user has denied.
func Denial(reason string) string {
	if reason == "" {
		return "call denied"
	}
	return "call denied: " + reason
}

// Messages returns the history for a model from message number from on: every step separately, including hidden messages and
// the output of an unfinished answer, without replaced messages. It omits finished messages that are not in memory.
func (s Snapshot) Messages(from int) []Message {
	var out []Message
	list := s.from(from)
	for i := range list {
		if m := &list[i]; !s.isReplaced(m.index) {
			out = append(out, s.typed(m))
		}
	}
	return out
}

// AllMessages returns all messages, including replaced ones. It omits finished messages that are not in memory.
func (s Snapshot) AllMessages() []Message { return s.typedAll(s.all()) }

func (s *Snapshot) typedAll(list []message) []Message {
	out := make([]Message, len(list))
	for i := range list {
		out[i] = s.typed(&list[i])
	}
	return out
}

func (s *Snapshot) typed(m *message) Message {
	out := Message{
		Index: m.index, Shown: m.shown, Role: m.role, Hidden: m.role == User && IsHidden(m.metadata), Replaced: s.isReplaced(m.index),
		ClientID: m.clientID, Metadata: m.metadata, Parts: make([]Part, len(m.parts)), Children: m.children, First: m.first,
	}
	for i := range m.parts {
		out.Parts[i] = m.parts[i].typed()
	}
	return out
}

func (p *part) typed() Part {
	switch p.kind {
	case textPart:
		return Part{Kind: PartText, Text: string(p.text), Streaming: p.open, ProviderMetadata: p.meta}
	case reasoningPart:
		return Part{Kind: PartReasoning, Text: string(p.text), Streaming: p.open, ProviderMetadata: p.meta}
	case toolPart:
		c := *p.tool
		if c.State == CallDenied {
			c.Error = Denial("")
			if c.Approval != nil && c.Approval.Reason != nil {
				c.Error = Denial(*c.Approval.Reason)
			}
		}
		return Part{Kind: PartCall, Call: &c}
	default:
		return typedRaw(p.raw)
	}
}

// isRaw reports whether a part is known to be a valid one that is stored as it is, without the cost of its members.
func isRaw(raw []byte) bool {
	if string(raw) == stepStart {
		return true
	}
	for _, kind := range []string{`{"type":"file",`, `{"type":"source-`, `{"type":"data-`} {
		if len(raw) < len(kind) || string(raw[:len(kind)]) != kind {
			continue
		}
		types, plain := 0, true
		err := rawjson.EachMember(raw, func(name rawjson.Text, _ []byte) bool {
			if name.Is("type") {
				types++
			}
			plain = plain && bytes.IndexByte(name, '\\') < 0
			return plain
		})
		return err == nil && plain && types == 1
	}
	return false
}

func typedRaw(raw chunk.Value) Part {
	p := Part{raw: raw}
	if string(raw) == stepStart {
		p.Kind = PartStepStart
		return p
	}
	var r reader
	m := r.members(raw)
	kind := r.str(m["type"])
	switch custom, isData := strings.CutPrefix(kind, "data-"); {
	case kind == "file":
		p.Kind, p.File = PartFile, &File{URL: r.str(m["url"]), MediaType: r.str(m["mediaType"]), Filename: r.str(m["filename"])}
	case kind == "source-url" || kind == "source-document":
		p.Kind = PartSource
		p.Source = &Source{ID: r.str(m["sourceId"]), URL: r.str(m["url"]), MediaType: r.str(m["mediaType"]), Title: r.str(m["title"]), Filename: r.str(m["filename"])}
	case isData:
		p.Kind, p.Data = PartData, &Data{Name: custom, ID: r.maybe(m["id"]), Value: m["data"]}
	}
	if r.err != nil {
		return Part{raw: raw}
	}
	return p
}

// AppendJSON appends the part as it is stored, which is the form of the AI SDK.
func (p *Part) AppendJSON(dst []byte) []byte {
	switch p.Kind {
	case PartText, PartReasoning:
		return appendText(dst, string(p.Kind), p.Text, p.Streaming, p.ProviderMetadata)
	case PartCall:
		return p.Call.AppendJSON(dst)
	default:
		return append(dst, p.raw...)
	}
}

// staticTool is the beginning of the type of a static part.
const staticTool = "tool-"

// AppendJSON appends the call as it is stored, which is the form of the AI SDK.
func (c *ToolCall) AppendJSON(dst []byte) []byte {
	o := rawjson.Begin(dst)
	if c.Static {
		o.String("type", staticTool+c.Name)
	} else {
		o.String("type", "dynamic-tool")
		o.String("toolName", c.Name)
	}
	o.String("toolCallId", c.ID)
	o.String("state", string(c.State))
	if c.State == CallStreaming {
		o.Bytes("rawInput", c.rawInput)
	}
	o.Raw("input", c.Input)
	if c.State == CallDone {
		o.Raw("output", c.Output)
	}
	if c.State == CallFailed {
		o.String("errorText", c.Error)
	}
	if c.Approval != nil {
		o.Name("approval")
		a := rawjson.Begin(o.Dst)
		a.String("id", c.Approval.ID)
		if c.Approval.Approved != nil {
			a.Bool("approved", *c.Approval.Approved)
		}
		a.Maybe("reason", c.Approval.Reason)
		o.Dst = a.End()
	}
	o.Flag("providerExecuted", c.ProviderExecuted)
	for _, m := range c.Extra {
		o.Raw(m.Name, m.Value)
	}
	return o.End()
}

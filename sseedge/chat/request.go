package chat

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"mime"
	"net/http"
	"os"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/sseedge"
	"github.com/tailrace/tailrace/sseedge/sse"
	"github.com/tailrace/tailrace/subjects"
)

// The bounds of a request.
const (
	maxDepth    = 64       // objects and arrays inside one another, in a body
	maxMessages = 10_000   // in a body
	maxTurn     = 64       // messages of a person that are sent at once
	maxParts    = 10_000   // in a message that is looked at
	maxMetadata = 64 << 10 // bytes of one message's metadata, CS-10
	maxID       = 256      // characters, CS-15
)

// Trigger is why the client asks, spec/aisdk.md section 7.
type Trigger string

// The triggers of the AI SDK.
const (
	Submit     Trigger = "submit-message"
	Regenerate Trigger = "regenerate-message"
)

// Request is what a client wants, once everything that is not of interest was
// left out: what Decide decides about.
type Request struct {
	Session   chunk.Session
	AgentType string // that the client named, "" for none

	// Post: the client sends something, and adds what it gets to what it has. A
	// GET only looks, CS-26.
	Post    bool
	Trigger Trigger

	// MessageID is the message that the client names: one that it edited, the
	// answer that it continues, or the one that it wants anew.
	MessageID string

	// Turn is the trailing run of a person's messages, oldest first, CS-7.
	Turn []Input

	// Answered is the message of the assistant that answers to calls may stand in:
	// the one that is named, or the last one before Turn. nil: there is none.
	Answered *Assistant

	// Cursor is the last event that the client has, of a GET; nil: it does not say.
	Cursor *chunk.Seq

	// Nonce names the request itself. It stands in for the id of a message that
	// has none.
	Nonce string

	// Asked is the run that this request has asked for in an earlier round, so that
	// it does not ask for another: the first may be over by now.
	Asked string

	did Path // the last step that was done for it, for the metrics
}

// Input is a message of a person.
type Input struct {
	ID      string // that the client gave it, "" for none
	Message chunk.InputMessage
}

// Assistant is what a client has of an answer.
type Assistant struct {
	ID      string
	Last    bool // it is the last message
	Steps   int  // step-start parts: how many steps of it the client has begun to show
	Answers []Candidate
}

// Candidate is an answer to a call in the message that holds the call, CS-17. It
// may be one that was given long ago.
type Candidate struct {
	Kind       inbox.Kind
	CallID     string // as the client knows it: of a sub-agent's call, with its agent
	ToolName   string
	ApprovalID string
	Approved   bool
	Reason     string
	Result     chunk.Value
	Error      *string
}

// body is what DefaultChatTransport posts. Members that are not here, which
// applications add, are passed over.
type body struct {
	ID        string            `json:"id"`
	Messages  *[]jsontext.Value `json:"messages"`
	Trigger   Trigger           `json:"trigger"`
	MessageID *string           `json:"messageId"`
	AgentType *string           `json:"agentType"`
	Metadata  jsontext.Value    `json:"metadata"`
}

type message struct {
	ID       string         `json:"id"`
	Role     string         `json:"role"`
	Metadata jsontext.Value `json:"metadata"`
	Parts    jsontext.Value `json:"parts"`
}

type part struct {
	Type string  `json:"type"`
	Text *string `json:"text"`

	URL       string  `json:"url"`
	MediaType string  `json:"mediaType"`
	Filename  *string `json:"filename"`

	ToolCallID       string         `json:"toolCallId"`
	ToolName         string         `json:"toolName"`
	State            string         `json:"state"`
	Output           jsontext.Value `json:"output"`
	ErrorText        *string        `json:"errorText"`
	ProviderExecuted bool           `json:"providerExecuted"`
	Approval         *struct {
		ID       string  `json:"id"`
		Approved *bool   `json:"approved"`
		Reason   *string `json:"reason"`
	} `json:"approval"`
}

// Half a surrogate pair is no reason to refuse: a browser writes one where a
// model's text was cut, and sends it back with every message from then on.
var reading = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// parsed is a Request with what the caller may want to say about it.
type parsed struct {
	Request

	id      string // of the chat, as the body has it
	dropped int    // messages whose metadata was too large, CS-10
}

// readPost reads the body of a POST.
func (s *Service) readPost(w http.ResponseWriter, r *http.Request) (p parsed, bad *Problem) {
	bad = s.readBody(w, r, func(text []byte) *Problem {
		p, bad = parsePost(text)
		return bad
	})
	return p, bad
}

// readBody gives parse a body of JSON, checked for size, depth and encoding. Until
// parse returns, the body counts among those that are being read.
func (s *Service) readBody(w http.ResponseWriter, r *http.Request, parse func(text []byte) *Problem) *Problem {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return unsupportedMedia
	}
	text, release, err := s.cfg.Bodies.Read(w, r, s.cfg.MaxBody)
	defer release()
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large:
		return bodyTooLarge
	case errors.Is(err, sseedge.ErrNoRoom):
		return noRoom
	case errors.Is(err, os.ErrDeadlineExceeded):
		return slowBody
	case err != nil:
		return unreadable
	case !utf8.Valid(text):
		return invalid("the body is no UTF-8")
	case tooDeep(text):
		return invalid("the body is nested too deeply")
	}
	return parse(text)
}

// tooDeep counts brackets outside of strings. It reads no further than it must,
// because what parses the text later would take the depth for its own.
func tooDeep(text []byte) bool {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			if depth++; depth > maxDepth {
				return true
			}
		case '}', ']':
			depth--
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		}
	}
	return false
}

func parsePost(text []byte) (parsed, *Problem) {
	var b body
	if err := json.Unmarshal(text, &b, reading); err != nil {
		return parsed{}, invalid("the body is not what a chat posts: want an object with messages")
	}
	if b.Messages == nil || len(*b.Messages) == 0 || len(*b.Messages) > maxMessages {
		return parsed{}, invalid("want messages, at least one and at most 10000")
	}
	req := Request{Post: true, Trigger: b.Trigger, Nonce: newNonce()}
	if req.Trigger == "" {
		req.Trigger = Submit
	}
	if req.Trigger != Submit && req.Trigger != Regenerate {
		return parsed{}, invalid("this trigger is unknown: want submit-message or regenerate-message")
	}
	if b.MessageID != nil {
		req.MessageID = *b.MessageID
	}
	if b.AgentType != nil {
		req.AgentType = *b.AgentType
	}
	if !idFits(req.MessageID) || !idFits(b.ID) {
		return parsed{}, badID
	}
	if req.AgentType != "" && subjects.CheckToken("agent type", req.AgentType) != nil {
		return parsed{}, invalid("this is no type of an agent")
	}
	list := make([]message, len(*b.Messages))
	for i, raw := range *b.Messages {
		if bad := list[i].read(raw); bad != nil {
			return parsed{}, bad
		}
	}
	p := parsed{Request: req, id: b.ID}
	bad := p.readMessages(list, b.Metadata)
	return p, bad
}

func (m *message) read(raw jsontext.Value) *Problem {
	if err := json.Unmarshal(raw, m, reading); err != nil || raw.Kind() != '{' {
		return invalid("a message is not what a chat posts: want an object with id, role and parts")
	}
	if m.Role != "user" && m.Role != "assistant" && m.Role != "system" {
		return invalid("a message has another role than user, assistant or system")
	}
	if !idFits(m.ID) {
		return badID
	}
	return nil
}

func idFits(id string) bool { return len(id) <= 4*maxID && utf8.RuneCountInString(id) <= maxID }

// readMessages finds the trailing run and the message that may hold answers. The
// rest is what the client believes; the log knows better.
func (p *parsed) readMessages(list []message, sessionMetadata jsontext.Value) *Problem {
	first := len(list)
	for first > 0 && list[first-1].Role == "user" {
		first--
	}
	if len(list)-first > maxTurn {
		return invalid("want at most 64 messages of a person at once")
	}
	for i := range list[first:] {
		in, bad := p.readInput(&list[first+i], sessionMetadata)
		if bad != nil {
			return bad
		}
		p.Turn = append(p.Turn, in)
	}
	at := lastAssistant(list[:first])
	if p.MessageID != "" && p.Trigger == Submit {
		for i := range list {
			if list[i].ID == p.MessageID && list[i].Role == "assistant" {
				at = i
			}
		}
	}
	if at < 0 || p.Trigger == Regenerate {
		return nil
	}
	a, bad := readAssistant(&list[at])
	a.Last = at == len(list)-1
	p.Answered = &a
	return bad
}

func lastAssistant(list []message) int {
	for i, m := range slices.Backward(list) {
		if m.Role == "assistant" {
			return i
		}
	}
	return -1
}

func (m *message) eachPart(see func(part) *Problem) *Problem {
	if len(m.Parts) == 0 {
		return nil
	}
	var raw []jsontext.Value
	if err := json.Unmarshal(m.Parts, &raw, reading); err != nil || len(raw) > maxParts {
		return invalid("a message has parts that are no list, or too many")
	}
	for _, r := range raw {
		var p part
		if err := json.Unmarshal(r, &p, reading); err != nil || r.Kind() != '{' {
			return invalid("a message has a part that is not what a chat posts")
		}
		if bad := see(p); bad != nil {
			return bad
		}
	}
	return nil
}

// readInput makes an input of a message of a person, CS-8: its text and its
// files. Other parts are the client's own.
func (p *parsed) readInput(m *message, sessionMetadata jsontext.Value) (Input, *Problem) {
	in := Input{ID: m.ID}
	if m.ID != "" {
		in.Message.ClientMessageID = &m.ID
	}
	said := false
	bad := m.eachPart(func(part part) *Problem {
		switch part.Type {
		case "text":
			if part.Text == nil {
				return invalid("a text part has no text")
			}
			if said {
				in.Message.Content += "\n"
			}
			in.Message.Content += *part.Text
			said = true
		case "file":
			if part.URL == "" || part.MediaType == "" {
				return invalid("a file part has no url or no mediaType")
			}
			in.Message.Files = append(in.Message.Files, chunk.InputFile{URL: part.URL, MediaType: part.MediaType, Filename: part.Filename})
		}
		return nil
	})
	if bad != nil {
		return Input{}, bad
	}
	metadata := m.Metadata
	if isNull(metadata) {
		metadata = sessionMetadata // CS-9
	}
	in.Message.Metadata, bad = p.readMetadata(metadata)
	return in, bad
}

// readMetadata keeps what fits into the budget, CS-10. What is too large is left
// out; the message itself goes on.
func (p *parsed) readMetadata(raw jsontext.Value) (*chunk.Value, *Problem) {
	if isNull(raw) {
		return nil, nil
	}
	if raw.Kind() != '{' {
		return nil, invalid("metadata is no object")
	}
	compact := raw.Clone()
	if err := compact.Compact(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, invalid("metadata cannot be read")
	}
	if len(compact) > maxMetadata {
		p.dropped++
		return nil, nil
	}
	value := chunk.Value(compact)
	return &value, nil
}

// readAssistant finds the answers in a message of the assistant, CS-17. Results
// of tools that our side ran are no answers, CS-20; an approval of one is.
func readAssistant(m *message) (Assistant, *Problem) {
	a := Assistant{ID: m.ID}
	bad := m.eachPart(func(p part) *Problem {
		if p.Type == "step-start" {
			a.Steps++
		}
		name, isTool := toolName(p)
		if !isTool {
			return nil
		}
		c := Candidate{CallID: p.ToolCallID, ToolName: name}
		switch {
		case p.State == "approval-responded" && p.Approval != nil && p.Approval.Approved != nil:
			c.Kind, c.ApprovalID, c.Approved = inbox.Approval, p.Approval.ID, *p.Approval.Approved
			if p.Approval.Reason != nil {
				c.Reason = *p.Approval.Reason
			}
		case p.State == "output-available" && !p.ProviderExecuted:
			c.Kind, c.Result = inbox.ClientResult, chunk.Value(bytes.Clone(p.Output))
		case p.State == "output-error" && !p.ProviderExecuted:
			text := ""
			if p.ErrorText != nil {
				text = *p.ErrorText
			}
			c.Kind, c.Error = inbox.ClientResult, &text
		default:
			return nil
		}
		if c.CallID == "" || !idFits(c.CallID) || !idFits(c.ApprovalID) || !idFits(c.ToolName) {
			return badID
		}
		a.Answers = append(a.Answers, c)
		return nil
	})
	return a, bad
}

func toolName(p part) (name string, isTool bool) {
	const static = "tool-"
	if p.Type == "dynamic-tool" {
		return p.ToolName, true
	}
	if len(p.Type) > len(static) && p.Type[:len(static)] == static {
		return p.Type[len(static):], true
	}
	return "", false
}

func isNull(v jsontext.Value) bool { return len(v) == 0 || v.Kind() == 'n' }

// readCursor is how far the client of a GET came, CS-1. What is no sequence was
// not said, CS-2: the headers are fixed when a page loads, and a page without a
// snapshot puts "undefined" there.
func readCursor(h http.Header) *chunk.Seq {
	for _, name := range []string{sse.HeaderResumeFrom, sse.HeaderResumeAt, sse.HeaderLastEventID} {
		if cursor, ok := sse.ParseCursor(h.Get(name)); ok {
			seq := chunk.Seq(cursor.Seq)
			return &seq
		}
	}
	return nil
}

func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

package conversation

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/subjects"
)

// The bounds of a request.
const (
	MaxDepth    = 64       // objects and arrays inside one another, in a body
	MaxMessages = 10_000   // in a body
	MaxTurn     = 64       // messages of a user that are sent at once
	maxParts    = 10_000   // in a message that is read
	MaxMetadata = 64 << 10 // bytes of one message's metadata, CS-10
	MaxID       = 256      // characters, CS-15
)

// Trigger is the reason of a request, spec/aisdk.md section 7.
type Trigger string

// The triggers of the AI SDK.
const (
	Submit     Trigger = "submit-message"
	Regenerate Trigger = "regenerate-message"
)

// Request is the part of a client's request that Decide needs.
type Request struct {
	Session   chunk.Session
	AgentType string // from the client, "" for none

	// Post: the client sends content, and adds the response to the message that it has. A GET only reads, CS-26.
	Post    bool
	Trigger Trigger

	// MessageID is the message that the client names: an edited one, the answer that it continues, or the one to regenerate.
	MessageID string

	// Turn has the last consecutive messages of the user, oldest first, CS-7.
	Turn []Input

	// Answered is the message of the assistant that may contain answers to calls: the named one, or the last one before Turn. nil: there is none.
	Answered *AssistantMessage

	// Cursor is the last event that the client has received, of a GET; nil if it has none.
	Cursor *chunk.Seq

	// Nonce identifies the request. It replaces the id of a message without one.
	Nonce string

	// RequestedRun is the run that an earlier round of this request has requested, so that it does not request another: the first may have ended.
	RequestedRun string

	// OnExecute is called before the run of a turn is requested, with the state before it. Its result is in the Stream of the plan if the run was requested,
	// and is dropped otherwise. May be nil.
	OnExecute func(ctx context.Context, v State) Ahead

	// LastPath is the last step that was carried out for the request.
	LastPath Path
}

// Ahead is work that was started while a command is requested.
type Ahead interface{ Drop() }

// Input is a message of a user.
type Input struct {
	ID      string // from the client, "" for none
	Message chunk.InputMessage
}

// AssistantMessage is the client's copy of an answer.
type AssistantMessage struct {
	ID      string
	Steps   int // number of step-start parts: the steps that the client has shown
	Answers []SubmittedAnswer
}

// decided returns the calls that have a decision and no outcome in the client's copy.
func (a *AssistantMessage) decided() []string {
	var ids []string
	for _, c := range a.Answers {
		if c.Kind == control.Approval {
			ids = append(ids, c.CallID)
		}
	}
	return ids
}

// SubmittedAnswer is an answer to a call in the message that contains the call, CS-17. It may be old.
type SubmittedAnswer struct {
	Kind       control.AnswerKind
	CallID     string // as the client has it: of a sub-agent's call, with its agent
	ToolName   string
	ApprovalID string
	Approved   bool
	Reason     string
	InputHash  string // of the input that the user was shown, "" if the client does not say it; see control.InputHash
	Result     chunk.Value
	Error      *string
}

// lenient has options for JSON from browsers and models: a request with a lone surrogate is not rejected.
var lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// body is the body that DefaultChatTransport posts. Other members, which applications add, are ignored.
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
	Input            jsontext.Value `json:"input"`
	Output           jsontext.Value `json:"output"`
	ErrorText        *string        `json:"errorText"`
	ProviderExecuted bool           `json:"providerExecuted"`
	Approval         *struct {
		ID       string  `json:"id"`
		Approved *bool   `json:"approved"`
		Reason   *string `json:"reason"`
	} `json:"approval"`
}

// parsed is a Request with details for the caller.
type parsed struct {
	Request

	id      string // of the chat, from the body
	dropped int    // messages whose metadata was too large, CS-10
}

// ParsePost parses the body of a POST of the AI SDK. id is that of the chat in the body, dropped the number of messages whose metadata was too large, CS-10.
func ParsePost(text []byte) (req Request, id string, dropped int, r *Refusal) {
	p, r := parsePost(text)
	return p.Request, p.id, p.dropped, r
}

func parsePost(text []byte) (parsed, *Refusal) {
	var b body
	if err := json.Unmarshal(text, &b, lenient); err != nil {
		return parsed{}, invalid("the body is not what a chat posts: want an object with messages")
	}
	if b.Messages == nil || len(*b.Messages) == 0 || len(*b.Messages) > MaxMessages {
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
		return parsed{}, refusal(ReasonBadID)
	}
	if req.AgentType != "" && subjects.CheckToken("agent type", req.AgentType) != nil {
		return parsed{}, invalid("this is not the type of an agent")
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

func (m *message) read(raw jsontext.Value) *Refusal {
	if err := json.Unmarshal(raw, m, lenient); err != nil || raw.Kind() != '{' {
		return invalid("a message is not what a chat posts: want an object with id, role and parts")
	}
	if m.Role != "user" && m.Role != "assistant" && m.Role != "system" {
		return invalid("a message has another role than user, assistant or system")
	}
	if !idFits(m.ID) {
		return refusal(ReasonBadID)
	}
	return nil
}

func idFits(id string) bool { return len(id) <= 4*MaxID && utf8.RuneCountInString(id) <= MaxID }

// readMessages finds the messages of the turn and the message that may contain answers. Other messages are ignored, because the log has them.
func (p *parsed) readMessages(list []message, sessionMetadata jsontext.Value) *Refusal {
	first := len(list)
	for first > 0 && list[first-1].Role == "user" {
		first--
	}
	if len(list)-first > MaxTurn {
		return invalid("want at most 64 messages of a user at once")
	}
	for i := range list[first:] {
		in, bad := p.readInput(&list[first+i], sessionMetadata)
		if bad != nil {
			return bad
		}
		if strings.TrimSpace(in.Message.Content) == "" && len(in.Message.Files) == 0 {
			return invalid("a message of a user has neither text nor files")
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

func (m *message) eachPart(see func(part) *Refusal) *Refusal {
	if len(m.Parts) == 0 {
		return nil
	}
	var raw []jsontext.Value
	if err := json.Unmarshal(m.Parts, &raw, lenient); err != nil || len(raw) > maxParts {
		return invalid("the parts of a message are not a list, or too many")
	}
	for _, r := range raw {
		var p part
		if err := json.Unmarshal(r, &p, lenient); err != nil || r.Kind() != '{' {
			return invalid("a message has a part that is not what a chat posts")
		}
		if bad := see(p); bad != nil {
			return bad
		}
	}
	return nil
}

// readInput converts a message of a user, CS-8: its text and its files. Other parts are ignored.
func (p *parsed) readInput(m *message, sessionMetadata jsontext.Value) (Input, *Refusal) {
	in := Input{ID: m.ID}
	if m.ID != "" {
		in.Message.ClientMessageID = &m.ID
	}
	hasText := false
	bad := m.eachPart(func(part part) *Refusal {
		switch part.Type {
		case "text":
			if part.Text == nil {
				return invalid("a text part has no text")
			}
			if hasText {
				in.Message.Content += "\n"
			}
			in.Message.Content += *part.Text
			hasText = true
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

// readMetadata returns the metadata that fits into the budget, CS-10. Larger metadata is dropped; the message is kept.
func (p *parsed) readMetadata(raw jsontext.Value) (*chunk.Value, *Refusal) {
	if isNull(raw) {
		return nil, nil
	}
	if raw.Kind() != '{' {
		return nil, invalid("metadata is not an object")
	}
	compact := raw.Clone()
	if err := compact.Compact(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, invalid("metadata cannot be read")
	}
	if len(compact) > MaxMetadata {
		p.dropped++
		return nil, nil
	}
	value := chunk.Value(compact)
	return &value, nil
}

// readAssistant finds the answers in a message of the assistant, CS-17. Results of server-side tools are not answers, CS-20; an approval of a server-side tool
// is one.
func readAssistant(m *message) (AssistantMessage, *Refusal) {
	a := AssistantMessage{ID: m.ID}
	bad := m.eachPart(func(p part) *Refusal {
		if p.Type == "step-start" {
			a.Steps++
		}
		name, isTool := toolName(p)
		if !isTool {
			return nil
		}
		c := SubmittedAnswer{CallID: p.ToolCallID, ToolName: name}
		switch {
		case p.State == "approval-responded" && p.Approval != nil && p.Approval.Approved != nil:
			c.Kind, c.ApprovalID, c.Approved = control.Approval, p.Approval.ID, *p.Approval.Approved
			if c.Approved && len(p.Input) > 0 {
				c.InputHash = ShownHash(chunk.Value(p.Input))
			}
			if p.Approval.Reason != nil {
				c.Reason = *p.Approval.Reason
			}
		case p.State == "output-available" && !p.ProviderExecuted:
			c.Kind, c.Result = control.ClientResult, chunk.Value(bytes.Clone(p.Output))
		case p.State == "output-error" && !p.ProviderExecuted:
			text := ""
			if p.ErrorText != nil {
				text = *p.ErrorText
			}
			c.Kind, c.Error = control.ClientResult, &text
		default:
			return nil
		}
		if c.CallID == "" || !idFits(c.CallID) || !idFits(c.ApprovalID) || !idFits(c.ToolName) {
			return refusal(ReasonBadID)
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

func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

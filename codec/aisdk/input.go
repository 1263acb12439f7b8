package aisdk

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/subjects"
)

// Limits of the body of a POST.
const (
	MaxInputMessages = 10_000              // in a body
	MaxInputTurn     = 64                  // messages of a user that are sent at once
	MaxInputMetadata = dialect.MaxMetadata // bytes of one message's metadata, CS-10
	MaxInputData     = 64 << 10            // bytes of the data parts of one message
	MaxInputParams   = 64 << 10            // bytes of the other members of a body
	maxInputParts    = 10_000              // in a message that is read
)

// lenient has options for JSON from browsers: a request with a lone surrogate is not rejected.
var lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

type chatBody struct {
	ID        string            `json:"id"`
	Messages  *[]jsontext.Value `json:"messages"`
	Trigger   string            `json:"trigger"`
	MessageID string            `json:"messageId"`
	Branch    string            `json:"branch"`
	AgentType string            `json:"agentType"`
	Metadata  jsontext.Value    `json:"metadata"`

	Others map[string]jsontext.Value `json:",embed"`
}

type chatMessage struct {
	ID       string         `json:"id"`
	Role     string         `json:"role"`
	Metadata jsontext.Value `json:"metadata"`
	Parts    jsontext.Value `json:"parts"`
}

type chatPart struct {
	Type string  `json:"type"`
	Text *string `json:"text"`

	URL       string  `json:"url"`
	MediaType string  `json:"mediaType"`
	Filename  *string `json:"filename"`

	ID   *string        `json:"id"`
	Data jsontext.Value `json:"data"`

	ToolCallID       string         `json:"toolCallId"`
	ToolName         string         `json:"toolName"`
	State            string         `json:"state"`
	Input            jsontext.Value `json:"input"`
	Output           jsontext.Value `json:"output"`
	ErrorText        string         `json:"errorText"`
	ProviderExecuted bool           `json:"providerExecuted"`
	Approval         *struct {
		ID       string `json:"id"`
		Approved *bool  `json:"approved"`
		Reason   string `json:"reason"`
	} `json:"approval"`
}

var errInputID = errors.New("an id is longer than 256 characters, or missing")

// ParseChatInput reads the body of a POST of DefaultChatTransport, or {"text": "Hello"}, which is one message without an id. The text of the error is for users. The
// length and the depth of the body are the caller's to limit.
//
// Params has the members that applications add with sendMessage(…, {body}): at most MaxInputParams bytes, without the member headers, with which an agent behind a URL
// would get headers that only a server may choose.
func ParseChatInput(text []byte) (dialect.Request, error) {
	var b chatBody
	if err := json.Unmarshal(text, &b, lenient); err != nil {
		return dialect.Request{}, errors.New("the body is not what a chat posts: want an object with messages")
	}
	if b.Messages == nil {
		b.Messages = takeText(b.Others)
	}
	if b.Messages == nil || len(*b.Messages) == 0 || len(*b.Messages) > MaxInputMessages {
		return dialect.Request{}, errors.New(`want messages, at least one and at most 10000, or one text: {"text": "Hello"}`)
	}
	in := dialect.Request{SessionID: b.ID, AgentType: b.AgentType, MessageID: b.MessageID, Branch: b.Branch, Regenerate: b.Trigger == "regenerate-message", Mode: takeMode(b.Others)}
	if b.Trigger != "" && b.Trigger != "submit-message" && !in.Regenerate {
		return in, errors.New("this trigger is unknown: want submit-message or regenerate-message")
	}
	if !dialect.FitsID(in.MessageID) || !dialect.FitsID(in.Branch) || !dialect.FitsID(in.SessionID) {
		return in, errInputID
	}
	var err error
	if in.Params, err = paramsOf(b.Others); err != nil {
		return in, err
	}
	if in.AgentType != "" && subjects.CheckToken("agent type", in.AgentType) != nil {
		return in, errors.New("this is not the type of an agent")
	}
	list := make([]chatMessage, len(*b.Messages))
	for i, raw := range *b.Messages {
		if err := list[i].read(raw); err != nil {
			return in, err
		}
	}
	err = readMessages(&in, list, b.Metadata)
	return in, err
}

// takeText removes the text of a body without messages, and returns it as the message of a user, nil if there is none. In a body with messages it is a parameter.
func takeText(members map[string]jsontext.Value) *[]jsontext.Value {
	text := members["text"]
	if text.Kind() != '"' {
		return nil
	}
	delete(members, "text")
	message := `{"role":"user","parts":[{"type":"text","text":` + string(text) + `}]}`
	return &[]jsontext.Value{jsontext.Value(message)}
}

// takeMode removes the mode of a message. The member has another meaning for some applications, so any other value of it is a parameter.
func takeMode(members map[string]jsontext.Value) dialect.Mode {
	mode := dialect.Mode(strings.Trim(string(members["mode"]), `"`))
	switch mode {
	case dialect.ModeQueue, dialect.ModeSteer, dialect.ModeInterrupt:
		delete(members, "mode")
		return mode
	}
	return dialect.ModeReject
}

func paramsOf(members map[string]jsontext.Value) (chunk.Value, error) {
	delete(members, "headers")
	if len(members) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(members, lenient, json.Deterministic(true))
	if err != nil {
		return nil, errors.New("the members beside messages cannot be read")
	}
	if len(text) > MaxInputParams {
		return nil, errors.New("want at most 64 KiB of members beside messages")
	}
	return chunk.Value(text), nil
}

func (m *chatMessage) read(raw jsontext.Value) error {
	if err := json.Unmarshal(raw, m, lenient); err != nil || raw.Kind() != '{' {
		return errors.New("a message is not what a chat posts: want an object with id, role and parts")
	}
	if m.Role != "user" && m.Role != "assistant" && m.Role != "system" {
		return errors.New("a message has another role than user, assistant or system")
	}
	if !dialect.FitsID(m.ID) {
		return errInputID
	}
	return nil
}

// readMessages finds the new messages and the message that may contain answers. Other messages are ignored, because the log has them.
func readMessages(in *dialect.Request, list []chatMessage, sessionMetadata jsontext.Value) error {
	first := len(list)
	for first > 0 && list[first-1].Role == "user" {
		first--
	}
	if len(list)-first > MaxInputTurn {
		return errors.New("want at most 64 messages of a user at once")
	}
	for i := range list[first:] {
		m, err := list[first+i].readUser(in, sessionMetadata)
		if err != nil {
			return err
		}
		if strings.TrimSpace(m.Content) == "" && len(m.Files) == 0 && len(m.Data) == 0 {
			return errors.New("a message of a user has neither text nor files nor data")
		}
		in.Messages = append(in.Messages, m)
	}
	at := lastAssistant(list[:first])
	if in.MessageID != "" && !in.Regenerate {
		for i := range list {
			if list[i].ID == in.MessageID && list[i].Role == "assistant" {
				at = i
			}
		}
	}
	if at < 0 || in.Regenerate {
		return nil
	}
	var err error
	in.Answered, err = list[at].answers()
	return err
}

func lastAssistant(list []chatMessage) int {
	for i, m := range slices.Backward(list) {
		if m.Role == "assistant" {
			return i
		}
	}
	return -1
}

func (m *chatMessage) eachPart(see func(chatPart) error) error {
	if len(m.Parts) == 0 {
		return nil
	}
	var raw []jsontext.Value
	if err := json.Unmarshal(m.Parts, &raw, lenient); err != nil || len(raw) > maxInputParts {
		return errors.New("the parts of a message are not a list, or too many")
	}
	for _, r := range raw {
		var p chatPart
		if err := json.Unmarshal(r, &p, lenient); err != nil || r.Kind() != '{' {
			return errors.New("a message has a part that is not what a chat posts")
		}
		if err := see(p); err != nil {
			return err
		}
	}
	return nil
}

// readUser converts a message of a user, CS-8: its text, its files and its data parts. Other parts are ignored.
func (m *chatMessage) readUser(in *dialect.Request, sessionMetadata jsontext.Value) (out chunk.InputMessage, err error) {
	if m.ID != "" {
		out.ClientMessageID = &m.ID
	}
	hasText, size := false, 0
	err = m.eachPart(func(part chatPart) error {
		switch part.Type {
		case "text":
			if part.Text == nil {
				return errors.New("a text part has no text")
			}
			if hasText {
				out.Content += "\n"
			}
			out.Content += *part.Text
			hasText = true
		case "file":
			if part.URL == "" || part.MediaType == "" {
				return errors.New("a file part has no url or no mediaType")
			}
			out.Files = append(out.Files, chunk.InputFile{URL: part.URL, MediaType: part.MediaType, Filename: part.Filename})
		default:
			if name, ok := strings.CutPrefix(part.Type, "data-"); ok {
				size += len(part.Data) + len(name)
				data, err := readData(name, part)
				out.Data = append(out.Data, data)
				return err
			}
		}
		return nil
	})
	if err != nil {
		return chunk.InputMessage{}, err
	}
	if size > MaxInputData {
		return chunk.InputMessage{}, errors.New("want at most 64 KiB of data parts in a message")
	}
	metadata := m.Metadata
	if isNull(metadata) {
		metadata = sessionMetadata // CS-9
	}
	err = readMetadata(in, &out, metadata)
	return out, err
}

func readData(name string, part chatPart) (chunk.InputData, error) {
	if name == "" || !dialect.FitsID(name) || part.ID != nil && !dialect.FitsID(*part.ID) {
		return chunk.InputData{}, errInputID
	}
	if part.Data == nil {
		return chunk.InputData{}, errors.New("a data part has no data")
	}
	value := part.Data.Clone()
	err := value.Compact(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)) // as a page has it that was loaded from a snapshot
	if err == nil {
		_, err = dialect.CheckValue(value)
	}
	if err != nil {
		return chunk.InputData{}, errors.New("the data of a part cannot be stored")
	}
	return chunk.InputData{Name: name, ID: part.ID, Data: chunk.Value(value)}, nil
}

// readMetadata sets the metadata if it fits into the budget, CS-10. Larger metadata is dropped; the message is kept.
func readMetadata(in *dialect.Request, m *chunk.InputMessage, raw jsontext.Value) error {
	if isNull(raw) {
		return nil
	}
	if raw.Kind() != '{' {
		return errors.New("metadata is not an object")
	}
	value := chunk.Value(rawjson.AppendCompact(nil, raw))
	if len(value) > MaxInputMetadata {
		in.DroppedMetadata++
		return nil
	}
	m.Metadata = &value
	return nil
}

// answers finds the answers in a message of the assistant, CS-17. Results of server-side tools are not answers, CS-20; an approval of a server-side tool is one.
func (m *chatMessage) answers() (*dialect.Answered, error) {
	of := &dialect.Answered{ID: m.ID}
	err := m.eachPart(func(p chatPart) error {
		if p.Type == "step-start" {
			of.Steps++
		}
		name, isTool := p.toolName()
		if !isTool {
			return nil
		}
		a := control.Answer{CallID: p.ToolCallID, ToolName: name, Kind: control.ClientResult}
		switch {
		case p.State == "approval-responded" && p.Approval != nil && p.Approval.Approved != nil:
			a.Kind, a.ApprovalID, a.Approved, a.Reason = control.Approval, p.Approval.ID, *p.Approval.Approved, p.Approval.Reason
			a.InputHash = control.ShownHash(chunk.Value(p.Input))
		case p.State == "output-available" && !p.ProviderExecuted:
			a.Result = chunk.Value(bytes.Clone(p.Output))
		case p.State == "output-error" && !p.ProviderExecuted:
			a.Error, a.ErrorCode = p.ErrorText, control.CodeToolFailed
		default:
			return nil
		}
		if a.CallID == "" || !dialect.FitsID(a.CallID) || !dialect.FitsID(a.ApprovalID) || !dialect.FitsID(a.ToolName) {
			return errInputID
		}
		of.Answers = append(of.Answers, a)
		return nil
	})
	return of, err
}

func (p *chatPart) toolName() (name string, isTool bool) {
	if p.Type == "dynamic-tool" {
		return p.ToolName, true
	}
	name, isTool = strings.CutPrefix(p.Type, "tool-")
	return name, isTool && name != ""
}

func isNull(v jsontext.Value) bool { return len(v) == 0 || v.Kind() == 'n' }

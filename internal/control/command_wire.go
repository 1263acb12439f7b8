package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/subjects"
)

// commandVersion is the version of the body. A body of a higher version is left to a worker that supports it.
const commandVersion = 1

// commandBody is a command as JSON, the data of its message. The same names are in the CloudEvents attributes around it (type command.<kind>).
type commandBody struct {
	Version   int             `json:"version"`
	Kind      CommandKind     `json:"kind"`
	Tenant    string          `json:"tenant"`
	Root      string          `json:"root"`
	Session   string          `json:"session"`
	AgentType string          `json:"agentType"`
	RunID     string          `json:"runId"`
	Issued    int64           `json:"issued"` // Unix milliseconds
	Input     json.RawMessage `json:"input"`
	Params    json.RawMessage `json:"params"`

	By       *bodyPrincipal `json:"by,omitempty"`
	Resumes  string         `json:"resumes,omitempty"`
	Mode     string         `json:"mode,omitempty"`
	Replaces string         `json:"replaces,omitempty"`
	Parent   *bodyParent    `json:"parent,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Deadline int64          `json:"deadline,omitempty"` // Unix milliseconds
}

type bodyParent struct {
	Session   string `json:"session"`
	AgentType string `json:"agentType"`
	RunID     string `json:"runId"`
	CallID    string `json:"callId"`
	ToolName  string `json:"toolName"`
}

type bodyPrincipal struct {
	Subject string  `json:"subject"`
	Issuer  *string `json:"issuer,omitempty"`
	TokenID string  `json:"tokenId,omitempty"`
}

func (c Command) toBody(input, params json.RawMessage) commandBody {
	b := commandBody{
		Version: commandVersion, Kind: c.Kind,
		Tenant: c.Session.Tenant, Root: c.Session.Root, Session: c.Session.ID,
		AgentType: c.AgentType, RunID: c.RunID,
		Issued: c.Issued.UnixMilli(), Input: input, Params: params,
	}
	switch c.Kind {
	case Execute:
		b.Replaces, b.Parent, b.By, b.Mode = c.Replaces, (*bodyParent)(c.Parent), byOf(c.By), c.Mode
	case Resume:
		b.Resumes, b.Mode, b.By = c.Resumes, c.Mode, byOf(c.By)
	case Abort:
		b.Reason, b.By = c.Reason, byOf(c.By)
	case Expire:
		b.Deadline = c.Deadline.UnixMilli()
	}
	return b
}

func byOf(p *chunk.Principal) *bodyPrincipal {
	if p == nil {
		return nil
	}
	return &bodyPrincipal{p.Subject, p.Issuer, p.TokenID}
}

func (b *bodyPrincipal) principal() *chunk.Principal {
	if b == nil {
		return nil
	}
	return &chunk.Principal{Subject: b.Subject, Issuer: b.Issuer, TokenID: b.TokenID}
}

func (b commandBody) command() Command {
	c := Command{
		Kind:      b.Kind,
		Session:   chunk.Session{Tenant: b.Tenant, Root: b.Root, ID: b.Session},
		AgentType: b.AgentType,
		RunID:     b.RunID,
		Params:    chunk.Value(b.Params),
		Issued:    time.UnixMilli(b.Issued),
	}
	switch c.Kind {
	case Execute:
		c.Replaces, c.Parent, c.By, c.Mode = b.Replaces, (*Parent)(b.Parent), b.By.principal(), b.Mode
	case Resume:
		c.Resumes, c.Mode, c.By = b.Resumes, b.Mode, b.By.principal()
	case Abort:
		c.Reason, c.By = b.Reason, b.By.principal()
	case Expire:
		c.Deadline = time.UnixMilli(b.Deadline)
	}
	return c
}

// Encode returns a valid command as JSON.
func (c Command) Encode() ([]byte, error) {
	input, err := encodeInput(c)
	if err != nil {
		return nil, err
	}
	params := json.RawMessage(c.Params)
	if len(params) == 0 {
		params = json.RawMessage("null")
	}
	data, err := json.Marshal(c.toBody(input, params))
	if err != nil {
		return nil, fmt.Errorf("params: %w: %w", chunk.ErrInvalid, err)
	}
	return data, nil
}

// Header returns the CloudEvents attributes of the message of c, without the traceparent.
func (c Command) Header() map[string][]string {
	return map[string][]string{
		"ce-specversion":     {"1.0"},
		"ce-id":              {c.EventID()},
		"ce-source":          {c.Session.String()},
		"ce-type":            {"command." + string(c.Kind)},
		"ce-time":            {c.Issued.UTC().Format(TimeLayout)},
		"ce-datacontenttype": {"application/json"},
	}
}

// TimeLayout is the format of times in headers.
const TimeLayout = "2006-01-02T15:04:05.000Z07:00"

// RootOf returns the root of the session of an encoded command, false if data is not one. Subjects do not contain it.
func RootOf(data []byte) (root string, ok bool) {
	var b commandBody
	if err := json.Unmarshal(data, &b); err != nil {
		return "", false
	}
	return b.Root, true
}

// DecodeCommand reads a message of the queue. The error is ErrUnsupported if a newer build may read it, otherwise ErrMalformed. The body must have the names in
// the subject: permission to publish depends on the subject, and another body would act on a session that its sender must not access.
func DecodeCommand(l subjects.Layout, subject string, data []byte) (Command, error) {
	tenant, agentType, session, err := names.Layout(l).ParseCommand(subject)
	if err != nil {
		return Command{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	c, err := DecodeBody(data, tenant, agentType, session)
	if err == nil && c.Kind == Expire {
		return Command{}, fmt.Errorf("%w: kind %q comes on another subject", ErrMalformed, Expire)
	}
	return c, err
}

// DecodeDeadline reads a message of the stream of deadlines. Its errors are those of DecodeCommand.
func DecodeDeadline(l subjects.Layout, subject string, data []byte) (Command, error) {
	due, err := names.Layout(l).ParseDue(subject)
	if err != nil {
		return Command{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	c, err := DecodeBody(data, due.Tenant, due.AgentType, due.Session)
	switch {
	case err != nil:
		return Command{}, err
	case c.Kind != Expire:
		return Command{}, fmt.Errorf("%w: kind is %q, want %q", ErrMalformed, c.Kind, Expire)
	case c.RunID != due.RunID || !c.Deadline.Equal(due.At):
		return Command{}, fmt.Errorf("%w: body is for run %q at %d, subject for %q at %d", ErrMalformed, c.RunID, c.Deadline.UnixMilli(), due.RunID, due.At.UnixMilli())
	}
	return c, nil
}

// DecodeBody decodes a command that must be for an agent type and session.
func DecodeBody(data []byte, tenant, agentType, session string) (Command, error) {
	var b commandBody
	if err := json.Unmarshal(data, &b); err != nil {
		return Command{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if b.Version > commandVersion {
		return Command{}, fmt.Errorf("version %d, want %d: %w", b.Version, commandVersion, ErrUnsupported)
	}
	if b.Version < 1 {
		return Command{}, fmt.Errorf("%w: version is %d, want %d", ErrMalformed, b.Version, commandVersion)
	}
	if b.Tenant != tenant || b.AgentType != agentType || b.Session != session {
		return Command{}, fmt.Errorf("%w: body is for %.80q, subject for %q", ErrMalformed, b.Tenant+"."+b.AgentType+"."+b.Session, tenant+"."+agentType+"."+session)
	}
	c := b.command()
	err := c.Validate()
	if errors.Is(err, ErrUnsupported) {
		return Command{}, err
	}
	if err != nil {
		return Command{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if c.Input, err = decodeInput(c, b.Input); err != nil {
		return Command{}, fmt.Errorf("%w: input: %w", ErrMalformed, err)
	}
	return c, nil
}

// encodeInput lets package chunk encode the messages, as members of the run_started record that they will become. So a command cannot carry what the record could
// not, and surrogate halves survive, which encoding/json replaces.
func encodeInput(c Command) (json.RawMessage, error) {
	record, err := chunk.Chunk{
		AgentID: c.Session.ID, AgentType: c.AgentType, Timestamp: c.Issued.UnixMilli(),
		Body: chunk.RunStarted{RunID: c.RunID, Epoch: 1, Mode: string(c.Kind), Input: c.Input},
	}.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	var members struct {
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(record, &members); err != nil {
		return nil, err
	}
	return members.Input, nil
}

func decodeInput(c Command, input json.RawMessage) ([]chunk.InputMessage, error) {
	if len(input) == 0 || string(input) == "null" {
		return nil, nil
	}
	record, err := json.Marshal(map[string]any{
		"type": chunk.TypeRunStarted, "agentId": c.Session.ID, "agentType": c.AgentType, "timestamp": c.Issued.UnixMilli(),
		"runId": c.RunID, "epoch": 1, "mode": c.Kind, "input": input,
	})
	if err != nil {
		return nil, err
	}
	decoded, err := chunk.Decode(record)
	if err != nil {
		return nil, err
	}
	started, ok := decoded.Body.(chunk.RunStarted)
	if !ok {
		return nil, fmt.Errorf("decoded as %T", decoded.Body)
	}
	return started.Input, nil
}

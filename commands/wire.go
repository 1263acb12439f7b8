package commands

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

const (
	// version is the newest shape of the body. A body of a higher version is
	// left to a worker that knows it.
	version = 2

	// plainVersion is that of a body that the first workers understand. Whatever
	// can be said with it is, so that while workers are replaced by newer ones
	// either can do what the newer edges ask for.
	plainVersion = 1
)

// body is a command as JSON, the data of its message. The same names stand in
// the CloudEvents attributes around it (type command.<kind>).
type body struct {
	Version   int             `json:"version"`
	Kind      Kind            `json:"kind"`
	Tenant    string          `json:"tenant"`
	Root      string          `json:"root"`
	Session   string          `json:"session"`
	AgentType string          `json:"agentType"`
	RunID     string          `json:"runId"`
	Issued    int64           `json:"issued"` // Unix milliseconds
	Input     json.RawMessage `json:"input"`
	Params    json.RawMessage `json:"params"`

	// Since version 2.
	Resumes  string      `json:"resumes,omitempty"`
	Mode     string      `json:"mode,omitempty"`
	Replaces string      `json:"replaces,omitempty"`
	Parent   *bodyParent `json:"parent,omitempty"`
	Reason   string      `json:"reason,omitempty"`
	Deadline int64       `json:"deadline,omitempty"` // Unix milliseconds
}

type bodyParent struct {
	Session   string `json:"session"`
	AgentType string `json:"agentType"`
	RunID     string `json:"runId"`
	CallID    string `json:"callId"`
	ToolName  string `json:"toolName"`
}

// bodyVersion is the oldest version that can say c.
func (c Command) bodyVersion() int {
	if c.Kind == Execute && c.Replaces == "" && c.Parent == nil {
		return plainVersion
	}
	return version
}

func (c Command) body(input, params json.RawMessage) body {
	b := body{
		Version: c.bodyVersion(), Kind: c.Kind,
		Tenant: c.Session.Tenant, Root: c.Session.Root, Session: c.Session.ID,
		AgentType: c.AgentType, RunID: c.RunID,
		Issued: c.Issued.UnixMilli(), Input: input, Params: params,
	}
	switch c.Kind {
	case Execute:
		b.Replaces, b.Parent = c.Replaces, (*bodyParent)(c.Parent)
	case Resume:
		b.Resumes, b.Mode = c.Resumes, c.Mode
	case Abort:
		b.Reason = c.Reason
	case Expire:
		b.Deadline = c.Deadline.UnixMilli()
	}
	return b
}

func (b body) command() Command {
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
		c.Replaces, c.Parent = b.Replaces, (*Parent)(b.Parent)
	case Resume:
		c.Resumes, c.Mode = b.Resumes, b.Mode
	case Abort:
		c.Reason = b.Reason
	case Expire:
		c.Deadline = time.UnixMilli(b.Deadline)
	}
	return c
}

// encode turns a valid command into its message.
func encode(l subjects.Layout, c Command) (*nats.Msg, error) {
	subject, err := l.Command(c.Session.Tenant, c.AgentType, c.Session.ID)
	if err != nil {
		return nil, err
	}
	return encodeTo(subject, c)
}

func encodeTo(subject string, c Command) (*nats.Msg, error) {
	input, err := encodeInput(c)
	if err != nil {
		return nil, err
	}
	params := json.RawMessage(c.Params)
	if len(params) == 0 {
		params = json.RawMessage("null")
	}
	data, err := json.Marshal(c.body(input, params))
	if err != nil {
		return nil, fmt.Errorf("params: %w: %w", chunk.ErrInvalid, err)
	}
	return &nats.Msg{Subject: subject, Data: data, Header: nats.Header{
		"ce-specversion":     {"1.0"},
		"ce-id":              {c.eventID()},
		"ce-source":          {c.Session.String()},
		"ce-type":            {"command." + string(c.Kind)},
		"ce-time":            {c.Issued.UTC().Format(timeLayout)},
		"ce-datacontenttype": {"application/json"},
		"Nats-Msg-Id":        {c.id()},
	}}, nil
}

const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// decode reads a message of the queue. The error is ErrUnsupported for what a
// newer build may read, otherwise ErrMalformed. The body must name what the
// subject names: permission to publish is given by subject, and a body that
// says otherwise would act in a session that its sender may not touch.
func decode(l subjects.Layout, subject string, data []byte) (Command, error) {
	tenant, agentType, session, err := l.ParseCommand(subject)
	if err != nil {
		return Command{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	c, err := decodeBody(data, tenant, agentType, session)
	if err == nil && c.Kind == Expire {
		return Command{}, fmt.Errorf("%w: kind %q comes on another subject", ErrMalformed, Expire)
	}
	return c, err
}

// decodeDue reads a message of the stream of deadlines, as decode does.
func decodeDue(l subjects.Layout, subject string, data []byte) (Command, error) {
	due, err := l.ParseDue(subject)
	if err != nil {
		return Command{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	c, err := decodeBody(data, due.Tenant, due.AgentType, due.Session)
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

func decodeBody(data []byte, tenant, agentType, session string) (Command, error) {
	var b body
	if err := json.Unmarshal(data, &b); err != nil {
		return Command{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if b.Version > version {
		return Command{}, fmt.Errorf("version %d, want at most %d: %w", b.Version, version, ErrUnsupported)
	}
	if b.Version < 1 {
		return Command{}, fmt.Errorf("%w: version is %d, want 1 to %d", ErrMalformed, b.Version, version)
	}
	if b.Tenant != tenant || b.AgentType != agentType || b.Session != session {
		return Command{}, fmt.Errorf("%w: body is for %.80q, subject for %q", ErrMalformed, b.Tenant+"."+b.AgentType+"."+b.Session, tenant+"."+agentType+"."+session)
	}
	c := b.command()
	err := c.validate()
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

// encodeInput has package chunk write the messages, as members of the
// run_started record that they will become. So a command cannot carry what the
// record could not, and surrogate halves survive, which encoding/json replaces.
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

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

// version is the shape of the body. A body of a higher version is left to a
// worker that knows it.
const version = 1

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
}

// encode turns a valid command into its message.
func encode(l subjects.Layout, c Command) (*nats.Msg, error) {
	subject, err := l.Command(c.Session.Tenant, c.AgentType, c.Session.ID)
	if err != nil {
		return nil, err
	}
	input, err := encodeInput(c)
	if err != nil {
		return nil, err
	}
	params := json.RawMessage(c.Params)
	if len(params) == 0 {
		params = json.RawMessage("null")
	}
	data, err := json.Marshal(body{
		Version: version, Kind: c.Kind,
		Tenant: c.Session.Tenant, Root: c.Session.Root, Session: c.Session.ID,
		AgentType: c.AgentType, RunID: c.RunID,
		Issued: c.Issued.UnixMilli(), Input: input, Params: params,
	})
	if err != nil {
		return nil, fmt.Errorf("params: %w: %w", chunk.ErrInvalid, err)
	}
	return &nats.Msg{Subject: subject, Data: data, Header: nats.Header{
		"ce-specversion":     {"1.0"},
		"ce-id":              {c.eventID()},
		"ce-source":          {c.Session.String()},
		"ce-type":            {"command." + string(c.Kind)},
		"ce-time":            {c.Issued.UTC().Format("2006-01-02T15:04:05.000Z07:00")},
		"ce-datacontenttype": {"application/json"},
		"Nats-Msg-Id":        {c.id()},
	}}, nil
}

// decode reads a message of the queue. The error is ErrUnsupported for what a
// newer build may read, otherwise ErrMalformed. The body must name what the
// subject names: permission to publish is given by subject, and a body that
// says otherwise would act in a session that its sender may not touch.
func decode(l subjects.Layout, subject string, data []byte) (Command, error) {
	tenant, agentType, session, err := l.ParseCommand(subject)
	if err != nil {
		return Command{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	var b body
	if err := json.Unmarshal(data, &b); err != nil {
		return Command{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if b.Version > version {
		return Command{}, fmt.Errorf("version %d, want at most %d: %w", b.Version, version, ErrUnsupported)
	}
	if b.Version < 1 {
		return Command{}, fmt.Errorf("%w: version is %d, want %d", ErrMalformed, b.Version, version)
	}
	if b.Tenant != tenant || b.AgentType != agentType || b.Session != session {
		return Command{}, fmt.Errorf("%w: body is for %.80q, subject for %q", ErrMalformed, b.Tenant+"."+b.AgentType+"."+b.Session, tenant+"."+agentType+"."+session)
	}
	c := Command{
		Kind:      b.Kind,
		Session:   chunk.Session{Tenant: b.Tenant, Root: b.Root, ID: b.Session},
		AgentType: b.AgentType,
		RunID:     b.RunID,
		Params:    chunk.Value(b.Params),
		Issued:    time.UnixMilli(b.Issued),
	}
	if err := c.validate(); err != nil {
		if errors.Is(err, ErrUnsupported) {
			return Command{}, err
		}
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

package commands

import (
	"errors"
	"fmt"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

// Kind says what a command asks for.
type Kind string

// Execute starts a run that answers Input. It is the only kind so far; resume,
// interrupt and abort will stand beside it.
const Execute Kind = "execute"

// Command asks a worker for one thing.
type Command struct {
	Kind      Kind
	Session   chunk.Session
	AgentType string // name of the agent's definition; passes subjects.CheckToken
	RunID     string // names the run, and the command's identity; passes subjects.CheckToken
	Input     []chunk.InputMessage
	Params    chunk.Value // any JSON the agent understands; the zero Value is null
	Issued    time.Time   // when it was asked for, to the millisecond; Publish fills it in
}

var (
	// ErrMalformed reports a command that no worker of any version can read.
	// Serve takes such a command off the queue and logs the reason.
	ErrMalformed = errors.New("malformed command")

	// ErrUnsupported reports a command of a version or kind that this build
	// does not know. Serve leaves it to a newer worker.
	ErrUnsupported = errors.New("command is not supported by this build")
)

// validate names the field that is wrong.
func (c Command) validate() error {
	if c.Kind != Execute {
		return fmt.Errorf("kind %q: want %q: %w", c.Kind, Execute, ErrUnsupported)
	}
	if err := subjects.CheckSession(c.Session); err != nil {
		return err
	}
	if err := subjects.CheckToken("agent type", c.AgentType); err != nil {
		return err
	}
	return subjects.CheckToken("run", c.RunID)
}

// eventID is unique within the session: one run is executed once, and may later
// be interrupted once.
func (c Command) eventID() string { return string(c.Kind) + "/" + c.RunID }

// id is unique in the stream, whose duplicate window compares it. Tokens hold
// no slash, so no two commands share one.
func (c Command) id() string {
	return c.Session.Tenant + "/" + c.Session.ID + "/" + c.eventID()
}

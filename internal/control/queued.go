package control

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
)

// Queued is a message of a user that waits until the run of its session ends, as the command that will then be requested.
//
// Its state decides a race of its start with its withdrawal. A message is taken before its command is requested, and started after it. So the process that
// takes it may crash: the next one finds it taken, and requests the same command again.
type Queued struct {
	Command Command // an Execute with ModeQueued; without Input, Params and By when the message does not wait any more
	First   bool    // it starts before those that are not
	Steers  bool    // the run may end between two steps for it
	State   QueuedState
}

// QueuedState is the state of a Queued.
type QueuedState string

// The states.
const (
	QueuedWaiting   QueuedState = "waiting"
	QueuedTaken     QueuedState = "taken" // its command is being requested
	QueuedStarted   QueuedState = "started"
	QueuedWithdrawn QueuedState = "withdrawn"
)

// ModeQueued is the mode of the command of a message that has waited in the inbox. A worker starts it only if the inbox has the message.
const ModeQueued = "queued"

// ErrNotQueued reports a message that does not wait any more.
var ErrNotQueued = errors.New("message does not wait")

// The bounds of the messages that wait in a session.
const (
	MaxQueued      = 16
	MaxQueuedBytes = 1 << 20 // of their texts, files, metadata and parameters
	MaxWithdrawn   = 64      // that the inbox still knows, so that they are not sent again
)

// ErrQueueFull reports a message that has no place among those that wait.
var ErrQueueFull = errors.New("too many messages wait")

// CheckRoom returns ErrQueueFull if a message has no place among the stored ones.
func (q Queued) CheckRoom(stored []Queued) error {
	n, bytes, withdrawn := 1, q.size(), 0
	for _, other := range stored {
		if other.Open() {
			n, bytes = n+1, bytes+other.size()
		} else if other.State == QueuedWithdrawn {
			withdrawn++
		}
	}
	if n > MaxQueued || bytes > MaxQueuedBytes || withdrawn >= MaxWithdrawn {
		return ErrQueueFull
	}
	return nil
}

func (q Queued) size() int {
	n := len(q.Command.Params)
	for _, m := range q.Command.Input {
		n += len(m.Content)
		for _, f := range m.Files {
			n += len(f.URL)
		}
		if m.Metadata != nil {
			n += len(*m.Metadata)
		}
	}
	return n
}

// Open reports whether the message is to be started.
func (q Queued) Open() bool { return q.State == QueuedWaiting || q.State == QueuedTaken }

// To returns the message in another state, or ErrNotQueued if it cannot get there.
func (q Queued) To(state QueuedState) (Queued, error) {
	if !q.Open() || q.State == QueuedTaken && state == QueuedWithdrawn {
		return q, ErrNotQueued
	}
	if q.State = state; !q.Open() {
		q.Command.Input, q.Command.Params, q.Command.By = nil, nil, nil
	}
	return q, nil
}

type queuedValue struct {
	Version int             `json:"version"`
	State   QueuedState     `json:"state"`
	First   bool            `json:"first,omitempty"`
	Steers  bool            `json:"steers,omitempty"`
	Command json.RawMessage `json:"command"`
}

// Encode returns a message as the value of its key.
func (q Queued) Encode() ([]byte, error) {
	if err := q.Command.Validate(); err != nil {
		return nil, err
	}
	command, err := q.Command.Encode()
	if err != nil {
		return nil, err
	}
	return marshal(queuedValue{Version: inboxVersion, State: q.State, First: q.First, Steers: q.Steers, Command: command})
}

// DecodeQueued reads the value of a key. The command is of the session and the run that the key names.
func DecodeQueued(s chunk.Session, key string, data []byte) (Queued, error) {
	var v queuedValue
	if err := unmarshal(data, &v, &v.Version); err != nil {
		return Queued{}, err
	}
	var named struct {
		AgentType string `json:"agentType"`
	}
	if err := json.Unmarshal(v.Command, &named); err != nil {
		return Queued{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	c, err := DecodeBody(v.Command, s.Tenant, named.AgentType, s.ID)
	if err != nil {
		return Queued{}, err
	}
	if want, err := names.InboxQueuedKey(s, c.RunID); err != nil || want != key || c.Session != s || c.Kind != Execute || c.Mode != ModeQueued {
		return Queued{}, fmt.Errorf("%w: command %s does not belong under %s", ErrMalformed, c.ID(), key)
	}
	return Queued{Command: c, First: v.First, Steers: v.Steers, State: v.State}, nil
}

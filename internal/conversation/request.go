package conversation

import (
	"context"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
)

// MaxDepth limits the objects and arrays inside one another in a body.
const MaxDepth = 64

// Trigger is the reason of a request, docs/protocol/aisdk.md#aisdk-7.
type Trigger string

// The triggers of the AI SDK.
const (
	Submit     Trigger = "submit-message"
	Regenerate Trigger = "regenerate-message"
)

// Mode says what a new message does while an answer is in flight.
type Mode string

// The modes.
const (
	ModeReject    Mode = ""          // the message is refused
	ModeQueue     Mode = "queue"     // it waits until the run ends
	ModeSteer     Mode = "steer"     // it is read between two steps of the run, if the agent does that, and otherwise waits until the run ends
	ModeInterrupt Mode = "interrupt" // it stops the run at the next step, and is the next one to be answered
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

	// Params are for the agent that answers Turn, an object; nil for none.
	Params chunk.Value

	// Answered is the message of the assistant that may contain answers to calls: the named one, or the last one before Turn. nil: there is none.
	Answered *AssistantMessage

	// Mode says what a new message does while an answer is in flight.
	Mode Mode

	// Cursor is the last event that the client has received, of a GET; nil if it has none.
	Cursor *chunk.Seq

	// Nonce identifies the request. It replaces the id of a message without one.
	Nonce string

	// RequestedRun is the run that an earlier round of this request has requested, so that it does not request another: the first may have ended.
	RequestedRun string

	// OnExecute is called before the run of a turn is requested, with the state before it. Its result is in the Stream of the plan if the run was requested,
	// and is dropped otherwise. May be nil.
	OnExecute func(ctx context.Context, state State) Ahead

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

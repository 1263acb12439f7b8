package dialect

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
)

// MaxMetadata limits the metadata of one message in bytes, CS-10. Larger metadata is dropped; the message is kept.
const MaxMetadata = 64 << 10

// Mode says what a new message does while an answer is in flight.
type Mode string

// The modes.
const (
	ModeReject    Mode = ""          // the message is refused
	ModeQueue     Mode = "queue"     // it waits until the run ends
	ModeSteer     Mode = "steer"     // it is read between two steps of the run, if the agent does that, and otherwise waits until the run ends
	ModeInterrupt Mode = "interrupt" // it stops the run at the next step, and is the next one to be answered
)

// Request is what a client asks of a chat, in every dialect: the parsers of bodies return it, and package conversation decides on it.
type Request struct {
	SessionID string // "" if the body does not have it
	AgentType string // "" for none

	// Regenerate asks for another answer. Otherwise the client sends messages or answers.
	Regenerate bool

	// MessageID is the message that the client names: an edited one, the answer that it continues, or the one to regenerate. "" for none.
	MessageID string

	// Branch is a message of the log. What the client sends follows the turn of that message and not the latest one. "" for none.
	Branch string

	// Messages are the last consecutive ones of the user, oldest first, CS-7. The log has the others. Their ids are client message ids.
	Messages []chunk.InputMessage

	// DroppedMetadata is the number of messages whose metadata was over MaxMetadata, CS-10.
	DroppedMetadata int

	// Answered is the message of the assistant that may contain answers to calls: the named one, or the last one before Messages. nil: there is none.
	Answered *Answered

	Params chunk.Value // for the agent that answers Messages, an object; nil for none
	Mode   Mode
	Nonce  string // identifies the request; it replaces the id of a message without one

	// LastEvent is the event after which a client without messages and new answers reads on, nil for none.
	LastEvent *chunk.Cursor
}

// Answered is the client's copy of an answer.
type Answered struct {
	ID    string
	Steps int // number of steps that the client has shown

	// Answers have no Session and no RunID. The CallID is the client's: of a sub-agent's call with its agent. The InputHash is that of the input that the user was shown, ""
	// if the client does not say it. They may be old, CS-17.
	Answers []control.Answer

	// Latest says that the client does not name the message: it is the latest one. Answers to calls that do not wait are ignored then, and approvals have no CallID.
	Latest bool
}

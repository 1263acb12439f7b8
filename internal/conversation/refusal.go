package conversation

import (
	"github.com/tailrace/tailrace/internal/control"
)

// Reason is why a request is refused. Each surface maps it to its own status, code and sentence.
type Reason string

// The reasons.
const (
	ReasonInvalid       Reason = "invalid"        // Text says what is wrong with the request
	ReasonUnstorable    Reason = "unstorable"     // nested too deeply, or a part is too long
	ReasonTooLarge      Reason = "too-large"      // for a record of the log
	ReasonBadID         Reason = "bad-id"         // longer than 256 characters, or missing
	ReasonNothingAsked  Reason = "nothing-asked"  // a POST without a message and without an answer
	ReasonNoMessage     Reason = "no-message"     // to regenerate
	ReasonUnknownAgent  Reason = "unknown-agent"  // not one of Config.AgentTypes
	ReasonOtherAgent    Reason = "other-agent"    // the session has another agent type
	ReasonNoSession     Reason = "no-session"     // neither the log nor the queue knows it
	ReasonOver          Reason = "over"           // the session is complete
	ReasonRunning       Reason = "running"        // a run is in progress or requested
	ReasonDelegating    Reason = "delegating"     // the run waits for sub-agents
	ReasonAwaiting      Reason = "awaiting"       // the run waits for answers
	ReasonChanged       Reason = "changed"        // the conversation has continued since the client loaded it
	ReasonLost          Reason = "lost"           // the log does not hold the records any more
	ReasonUnknownCall   Reason = "unknown-call"   // no run waits for this answer
	ReasonStillRunning  Reason = "still-running"  // the call is not waiting yet
	ReasonWrongKind     Reason = "wrong-kind"     // the call waits for another kind of answer
	ReasonWrongApproval Reason = "wrong-approval" // the call waits for another approval
	ReasonAnswered      Reason = "answered"       // First is the answer that counts
	ReasonExpired       Reason = "expired"        // First is the answer that counts: the deadline passed
	ReasonContended     Reason = "contended"      // other requests changed the session in every round
	ReasonUnavailable   Reason = "unavailable"    // the log, the queue or the inbox cannot be reached
)

// Refusal is why a request is not carried out. It has no HTTP status.
type Refusal struct {
	Reason Reason
	Text   string          // of ReasonInvalid, for users
	First  *control.Answer // of ReasonAnswered and ReasonExpired
}

func invalid(text string) *Refusal { return &Refusal{Reason: ReasonInvalid, Text: text} }

func refusal(reason Reason) *Refusal { return &Refusal{Reason: reason} }

func refuseWith(reason Reason) Plan { return refuse(refusal(reason)) }

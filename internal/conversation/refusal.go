package conversation

import (
	"github.com/tailrace/tailrace/internal/control"
)

// Reason is the reason of a Refusal. Each surface maps it to its own status, code and sentence.
type Reason string

// The reasons.
const (
	ReasonInvalid       Reason = "invalid"        // Text has the reason
	ReasonUnstorable    Reason = "unstorable"     // nested too deeply, or a part is too long
	ReasonTooLarge      Reason = "too-large"      // for a record of the log
	ReasonBadID         Reason = "bad-id"         // longer than 256 characters, or missing
	ReasonNothingAsked  Reason = "nothing-asked"  // a POST without a message and without an answer
	ReasonNoMessage     Reason = "no-message"     // to regenerate
	ReasonUnknownAgent  Reason = "unknown-agent"  // not one of Config.AgentTypes
	ReasonOtherAgent    Reason = "other-agent"    // the session has another agent type
	ReasonNoSession     Reason = "no-session"     // neither the log nor the queue knows it, or the caller must not
	ReasonForbidden     Reason = "forbidden"      // the caller does not have the right
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
	ReasonWrongInput    Reason = "wrong-input"    // the call has another input than the one that was shown
	ReasonAnswered      Reason = "answered"       // First is the accepted answer
	ReasonExpired       Reason = "expired"        // First is the accepted answer: the deadline passed
	ReasonContended     Reason = "contended"      // other requests changed the session in every round
	ReasonQueueFull     Reason = "queue-full"     // as many messages wait as may
	ReasonNotQueued     Reason = "not-queued"     // the message was withdrawn, or its answer has begun
	ReasonTooManyRuns   Reason = "too-many-runs"  // the tenant has as many runs as it may have
	ReasonFull          Reason = "full"           // the session has reached its limit of bytes
	ReasonNoStorage     Reason = "no-storage"     // the server cannot store messages
	ReasonUnavailable   Reason = "unavailable"    // the log, the queue or the inbox is unavailable
)

// Refusal is a request that is not carried out, with the reason. It has no HTTP status.
type Refusal struct {
	Reason Reason
	Text   string          // of ReasonInvalid, for users
	First  *control.Answer // of ReasonAnswered and ReasonExpired
}

func invalid(text string) *Refusal { return &Refusal{Reason: ReasonInvalid, Text: text} }

func refusal(reason Reason) *Refusal { return &Refusal{Reason: reason} }

func refuseWith(reason Reason) Plan { return refuse(refusal(reason)) }

package conversation

import (
	"context"
	"errors"
	"strings"

	"github.com/tailrace/tailrace/chunk"
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
	ReasonExists        Reason = "session-exists" // the session of a fork has other records
	ReasonNoTurn        Reason = "no-turn"        // there is no turn to continue at the point of a fork
	ReasonNotQueued     Reason = "not-queued"     // the message was withdrawn, or its answer has begun
	ReasonTooManyRuns   Reason = "too-many-runs"  // the tenant has as many runs as it may have
	ReasonFull          Reason = "full"           // the session has reached its limit of bytes
	ReasonNoStorage     Reason = "no-storage"     // the server cannot store messages
	ReasonNotPermitted  Reason = "not-permitted"  // the process lacks a permission on the server
	ReasonUnavailable   Reason = "unavailable"    // the log, the queue or the inbox is unavailable
)

// Refusal is a request that is not carried out, with the reason. It has no HTTP status.
type Refusal struct {
	Reason Reason
	Text   string          // of ReasonInvalid and of a fork, for users
	First  *control.Answer // of ReasonAnswered and ReasonExpired
}

// String returns the reason and the text.
func (r *Refusal) String() string { return strings.TrimSuffix(string(r.Reason)+": "+r.Text, ": ") }

func invalid(text string) *Refusal { return &Refusal{Reason: ReasonInvalid, Text: text} }

func refusal(reason Reason) *Refusal { return &Refusal{Reason: reason} }

func refuseWith(reason Reason) Plan { return refuse(refusal(reason)) }

// Failed logs an error and returns a refusal without its text.
func (s *Service) Failed(ctx context.Context, session chunk.Session, op string, err error) *Refusal {
	switch {
	case errors.Is(err, chunk.ErrTooLarge):
		return refusal(ReasonTooLarge)
	case errors.Is(err, chunk.ErrInvalid):
		s.cfg.Log.DebugContext(ctx, "request rejected by a port", "op", op, "session", session.String(), "error", err)
		return refusal(ReasonUnstorable)
	case errors.Is(err, chunk.ErrTruncated):
		return refusal(ReasonLost)
	case errors.Is(err, control.ErrTooManyRuns):
		s.cfg.Log.DebugContext(ctx, "run refused", "op", op, "session", session.String(), "error", err)
		return refusal(ReasonTooManyRuns)
	}
	if errors.Is(err, context.Canceled) { // the client has disconnected
		s.cfg.Log.DebugContext(ctx, "request canceled", "op", op, "session", session.String(), "error", err)
		return refusal(ReasonUnavailable)
	}
	s.cfg.Log.WarnContext(ctx, "request failed", "op", op, "session", session.String(), "error", err)
	if errors.Is(err, chunk.ErrNoStorage) {
		return refusal(ReasonNoStorage)
	}
	if errors.Is(err, chunk.ErrNotPermitted) {
		return refusal(ReasonNotPermitted)
	}
	return refusal(ReasonUnavailable)
}

// Outcome is the accepted answer, as JSON for a client whose answer came later.
type Outcome struct {
	Kind       control.AnswerKind `json:"kind"`
	ToolCallID string             `json:"toolCallId"`
	ApprovalID string             `json:"approvalId,omitempty"`
	Approved   *bool              `json:"approved,omitempty"`
	Reason     string             `json:"reason,omitempty"`
	Result     chunk.Value        `json:"result,omitempty"`
	Error      string             `json:"error,omitempty"`
	ErrorCode  string             `json:"errorCode,omitempty"`
	At         int64              `json:"at,omitempty"` // Unix milliseconds
}

// NewOutcome returns the Outcome of an answer.
func NewOutcome(first control.Answer) *Outcome {
	o := &Outcome{
		Kind: first.Kind, ToolCallID: first.CallID, ApprovalID: first.ApprovalID, Reason: first.Reason,
		Result: first.Result, Error: first.Error, ErrorCode: first.ErrorCode,
	}
	if !first.At.IsZero() {
		o.At = first.At.UnixMilli()
	}
	if first.Kind == control.Approval && !first.Failed() {
		o.Approved = &first.Approved
	}
	return o
}

// alreadyAnswered returns the refusal of an answer to a call that has one.
func alreadyAnswered(first control.Answer) *Refusal {
	if first.ErrorCode == control.CodeDeadline {
		return &Refusal{Reason: ReasonExpired, First: &first}
	}
	return &Refusal{Reason: ReasonAnswered, First: &first}
}

package tailrace

import (
	"cmp"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/projector/fold"
)

// Answer is an answer to a call for which a run waits: an approval, or the result of a tool that a browser runs.
type Answer struct {
	CallID string

	// ApprovalID, Approved and Reason are of an answer to an approval request.
	ApprovalID string
	Approved   bool
	Reason     string

	// ShownInput, if not empty, is the input of the call that the user was shown. The approval is refused with ReasonWrongInput if the call has another one.
	ShownInput chunk.Value

	// Result is that of a client tool, Error why there is none. One of them is set; the zero Result is null.
	Result chunk.Value
	Error  *string
}

// submitted returns the answer as the inbox has it.
func (a Answer) submitted() control.Answer {
	c := control.Answer{Kind: control.ClientResult, CallID: a.CallID, ApprovalID: a.ApprovalID, Approved: a.Approved, Reason: a.Reason, Result: a.Result}
	if a.Error != nil {
		c.Error, c.ErrorCode = *a.Error, control.CodeToolFailed
	}
	if a.ApprovalID != "" {
		c.Kind, c.InputHash = control.Approval, control.ShownHash(a.ShownInput)
	}
	return c
}

// StopKind is how a run is stopped.
type StopKind string

// The kinds of stops.
const (
	Interrupt = StopKind(control.StopInterrupt) // at the next step; Resume continues the run
	Abort     = StopKind(control.StopAbort)     // the run fails
)

// Status is the state of a session.
type Status struct {
	RunID        string // of the latest run
	Phase        Phase
	Output       chunk.Value   // of PhaseCompleted: the structured output, or the last text of the answer as JSON
	Failure      *fold.Failure // of PhaseFailed, nil if the log does not have it
	OpenCalls    []string      // of PhaseClient: the ids of the calls that wait for an Answer
	StreamStatus fold.Status
	Sequence     chunk.Seq
}

// Phase is the state of the latest run of a session.
type Phase string

// The phases.
const (
	PhaseRunning     = Phase(conversation.PhaseRunning) // or requested
	PhaseCompleted   = Phase(conversation.PhaseCompleted)
	PhaseFailed      = Phase(conversation.PhaseFailed)
	PhaseInterrupted = Phase(conversation.PhaseInterrupted) // Resume continues it
	PhaseClient      = Phase(conversation.PhaseClient)      // it waits for answers
	PhaseChildren    = Phase(conversation.PhaseChildren)    // it waits for sub-agents
)

// Reason is why a request was refused.
type Reason string

// The reasons of an Error.
const (
	ReasonInvalid       = Reason(conversation.ReasonInvalid)       // Text says what is wrong with the request
	ReasonUnstorable    = Reason(conversation.ReasonUnstorable)    // nested too deeply, or a part is too long
	ReasonTooLarge      = Reason(conversation.ReasonTooLarge)      // for a record of the log
	ReasonUnknownAgent  = Reason(conversation.ReasonUnknownAgent)  // not one of Config.AgentTypes
	ReasonOtherAgent    = Reason(conversation.ReasonOtherAgent)    // the session has another agent type
	ReasonNoSession     = Reason(conversation.ReasonNoSession)     // neither the log nor the queue knows it
	ReasonOver          = Reason(conversation.ReasonOver)          // the session is complete
	ReasonRunning       = Reason(conversation.ReasonRunning)       // a run is in progress or requested
	ReasonAwaiting      = Reason(conversation.ReasonAwaiting)      // the run waits for answers
	ReasonLost          = Reason(conversation.ReasonLost)          // the log does not hold the records any more
	ReasonUnknownCall   = Reason(conversation.ReasonUnknownCall)   // no run waits for this answer
	ReasonStillRunning  = Reason(conversation.ReasonStillRunning)  // the call is not waiting yet
	ReasonWrongKind     = Reason(conversation.ReasonWrongKind)     // the call waits for another kind of answer
	ReasonWrongApproval = Reason(conversation.ReasonWrongApproval) // the call waits for another approval
	ReasonWrongInput    = Reason(conversation.ReasonWrongInput)    // the call has another input than ShownInput
	ReasonAnswered      = Reason(conversation.ReasonAnswered)      // First is the answer that counts
	ReasonExpired       = Reason(conversation.ReasonExpired)       // First is the answer that counts: the deadline passed
	ReasonContended     = Reason(conversation.ReasonContended)     // other requests changed the session in every round; repeat the call
	ReasonFull          = Reason(conversation.ReasonFull)          // the session has reached its limit of bytes; use another one
	ReasonNoStorage     = Reason(conversation.ReasonNoStorage)     // the server cannot store messages: a limit is reached or its disk is full
	ReasonNotPermitted  = Reason(conversation.ReasonNotPermitted)  // the NATS user lacks a permission, which the log names
	ReasonUnavailable   = Reason(conversation.ReasonUnavailable)   // the log, the queue or the inbox cannot be reached; repeat the call
)

// Error is a refusal of Start, Resume, Answer, Stop or Status.
type Error struct {
	Session chunk.Session
	Reason  Reason
	Text    string  // "" or what is wrong with the request
	First   *Answer // of ReasonAnswered and ReasonExpired: the answer that counts
}

// Error returns the session, the reason and the text.
func (e *Error) Error() string {
	refusal := conversation.Refusal{Reason: conversation.Reason(e.Reason), Text: e.Text}
	return fmt.Sprintf("session %s: %s", e.Session, &refusal)
}

// Is reports the error of package chunk that e means: ErrUnknownSession, ErrInvalid or ErrTooLarge.
func (e *Error) Is(target error) bool {
	switch e.Reason {
	case ReasonNoSession:
		return target == chunk.ErrUnknownSession
	case ReasonInvalid, ReasonUnstorable:
		return target == chunk.ErrInvalid
	case ReasonTooLarge:
		return target == chunk.ErrTooLarge
	}
	return false
}

// errorOf returns the *Error of a refusal, nil for none.
func errorOf(session chunk.Session, r *conversation.Refusal) error {
	if r == nil {
		return nil
	}
	e := &Error{Session: session, Reason: Reason(r.Reason), Text: r.Text}
	if a := r.First; a != nil {
		e.First = &Answer{CallID: a.CallID, ApprovalID: a.ApprovalID, Approved: a.Approved, Reason: a.Reason, Result: a.Result}
		if a.Failed() {
			e.First.Error = new(cmp.Or(a.Error, a.ErrorCode))
		}
	}
	return e
}

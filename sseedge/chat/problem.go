package chat

import (
	"net/http"

	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// The codes of spec/helix.md section 12.1, beside those of httpkit. They are part of the wire and do not change.
const (
	codeNotFound    = "STREAM_NOT_FOUND"
	codeFailed      = "STREAM_FAILED"
	codeExecution   = "EXECUTION_ERROR"
	codeCreation    = "STREAM_CREATION_ERROR"
	codeConfig      = "CONFIGURATION_ERROR"
	codeAnswered    = "ALREADY_ANSWERED"
	codeUnknownCall = "CALL_NOT_FOUND"
	codeExpiredCall = "CALL_EXPIRED"
)

// Problem is a refusal. ALREADY_ANSWERED and CALL_EXPIRED have the answer that counts as the member first.
type Problem = httpkit.Problem

func invalid(text string) *Problem { return httpkit.Invalid(text) }

func newProblem(status int, text, code string) *Problem {
	return httpkit.NewProblem(status, code, text, "")
}

// problemOf returns the problem of a refusal, nil for none.
func problemOf(r *conversation.Refusal) *Problem {
	if r == nil {
		return nil
	}
	switch r.Reason {
	case conversation.ReasonInvalid:
		return invalid(r.Text)
	case conversation.ReasonAnswered, conversation.ReasonExpired:
		p := *problems[r.Reason]
		p.More = map[string]any{"first": conversation.NewOutcome(*r.First)}
		return &p
	}
	if p, ok := problems[r.Reason]; ok {
		return p
	}
	return httpkit.Internal
}

// problems are those of the refusals of package conversation.
var problems = map[conversation.Reason]*Problem{
	conversation.ReasonUnstorable:    invalid("what was sent cannot be stored: it is nested too deeply, or a part of it is too long"),
	conversation.ReasonTooLarge:      inputTooLarge,
	conversation.ReasonBadID:         badID,
	conversation.ReasonNothingAsked:  invalid("there is nothing to answer"),
	conversation.ReasonNoMessage:     noMessage,
	conversation.ReasonUnknownAgent:  unknownAgent,
	conversation.ReasonOtherAgent:    otherAgent,
	conversation.ReasonNoSession:     noChat,
	conversation.ReasonRunning:       running,
	conversation.ReasonDelegating:    delegating,
	conversation.ReasonChanged:       changed,
	conversation.ReasonLost:          streamLost,
	conversation.ReasonUnknownCall:   unknownCall,
	conversation.ReasonStillRunning:  stillRunning,
	conversation.ReasonWrongKind:     wrongKind,
	conversation.ReasonWrongApproval: wrongID,
	conversation.ReasonAnswered:      newProblem(http.StatusConflict, "this question was answered already", codeAnswered),
	conversation.ReasonExpired:       newProblem(http.StatusGone, "the time for this answer is over", codeExpiredCall),
	conversation.ReasonContended:     contended,
	conversation.ReasonUnavailable:   unavailable,
}

var (
	badID         = invalid("an id is longer than 256 characters, or missing")
	badSession    = invalid("this is no id of a chat: want 1 to 64 letters, digits, - or _")
	inputTooLarge = newProblem(http.StatusRequestEntityTooLarge, "the message is too large", httpkit.CodeTooLarge)

	noChat       = newProblem(http.StatusNotFound, "there is no such chat", codeNotFound)
	otherAgent   = invalid("this chat is with another agent")
	unknownAgent = invalid("there is no such agent")
	running      = newProblem(http.StatusConflict, "an answer is already running; wait for it or stop it", codeExecution)
	delegating   = newProblem(http.StatusConflict, "the answer waits for other agents; wait for it or stop it", codeExecution)
	changed      = newProblem(http.StatusConflict, "the conversation has gone on; load it again", codeExecution)
	noMessage    = invalid("no message to regenerate")
	streamLost   = newProblem(http.StatusGone, "the answer cannot be shown any more; load the conversation again", codeFailed)
	notStreaming = newProblem(http.StatusInternalServerError, "the answer has begun but cannot be shown at present; reconnect", codeCreation)
	unavailable  = newProblem(http.StatusServiceUnavailable, "the chat cannot be reached at present; try again", httpkit.CodeUnavailable)
	contended    = newProblem(http.StatusServiceUnavailable, "others are changing this chat at the same time; try again", httpkit.CodeUnavailable)
	draining     = newProblem(http.StatusServiceUnavailable, "this server is being stopped; try again", httpkit.CodeDraining)

	stillRunning = newProblem(http.StatusConflict, "the answer is still running; wait until it asks", codeExecution)
	unknownCall  = newProblem(http.StatusNotFound, "nothing waits for this answer", codeUnknownCall)
	wrongKind    = invalid("this call waits for another kind of answer")
	wrongID      = invalid("this is not the approval that is waited for")
)

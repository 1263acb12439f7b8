package chat

import (
	"net/http"

	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// The codes of docs/protocol/chat.md#helix-12.1, in addition to those of httpkit. They are part of the wire and do not change.
const (
	codeNotFound    = "STREAM_NOT_FOUND"
	codeBadCursor   = "BAD_CURSOR"
	codeFailed      = "STREAM_FAILED"
	codeExecution   = "EXECUTION_ERROR"
	codeCreation    = "STREAM_CREATION_ERROR"
	codeConfig      = "CONFIGURATION_ERROR"
	codeAnswered    = "ALREADY_ANSWERED"
	codeUnknownCall = "CALL_NOT_FOUND"
	codeExpiredCall = "CALL_EXPIRED"
	codeWrongInput  = "INPUT_MISMATCH"
	codeQueueFull   = "QUEUE_FULL"
	codeNotQueued   = "NOT_QUEUED"
)

// problemOf returns the problem of a refusal, nil for none.
func problemOf(r *conversation.Refusal) *httpkit.Problem {
	if r == nil {
		return nil
	}
	switch r.Reason {
	case conversation.ReasonInvalid:
		return httpkit.Invalid(r.Text)
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

// invalid returns the problem of a body that cannot be parsed, nil without an error.
func invalid(err error) *httpkit.Problem {
	if err == nil {
		return nil
	}
	return httpkit.Invalid(err.Error())
}

// problems has the problems for the refusals of package conversation.
var problems = map[conversation.Reason]*httpkit.Problem{
	conversation.ReasonUnstorable:    httpkit.Invalid("what was sent cannot be stored: it is nested too deeply, or a part of it is too long"),
	conversation.ReasonTooLarge:      inputTooLarge,
	conversation.ReasonBadID:         badID,
	conversation.ReasonNothingAsked:  httpkit.Invalid("there is nothing to answer"),
	conversation.ReasonNoMessage:     noMessage,
	conversation.ReasonUnknownAgent:  unknownAgent,
	conversation.ReasonOtherAgent:    otherAgent,
	conversation.ReasonNoSession:     noChat,
	conversation.ReasonForbidden:     httpkit.Forbidden,
	conversation.ReasonRunning:       running,
	conversation.ReasonDelegating:    delegating,
	conversation.ReasonChanged:       changed,
	conversation.ReasonLost:          streamLost,
	conversation.ReasonUnknownCall:   unknownCall,
	conversation.ReasonStillRunning:  stillRunning,
	conversation.ReasonWrongKind:     wrongKind,
	conversation.ReasonWrongApproval: wrongID,
	conversation.ReasonWrongInput:    httpkit.NewProblem(http.StatusConflict, codeWrongInput, "the call has another input than the one that was shown", ""),
	conversation.ReasonAnswered:      httpkit.NewProblem(http.StatusConflict, codeAnswered, "this question was answered already", ""),
	conversation.ReasonExpired:       httpkit.NewProblem(http.StatusGone, codeExpiredCall, "the time for this answer is over", ""),
	conversation.ReasonContended:     contended,
	conversation.ReasonQueueFull:     queueFull,
	conversation.ReasonNotQueued:     notQueued,
	conversation.ReasonTooManyRuns:   httpkit.TenantRuns,
	conversation.ReasonFull:          httpkit.SessionFull,
	conversation.ReasonNoStorage:     httpkit.NoStorage,
	conversation.ReasonNotPermitted:  httpkit.EdgePermission,
	conversation.ReasonUnavailable:   unavailable,
}

var (
	badID         = httpkit.Invalid("an id is longer than 256 characters, or missing")
	badSession    = httpkit.Invalid("this is not the id of a chat: want 1 to 64 characters of a URI")
	badCursor     = httpkit.NewProblem(http.StatusBadRequest, codeBadCursor, "the cursor cannot be read", "")
	inputTooLarge = httpkit.NewProblem(http.StatusRequestEntityTooLarge, httpkit.CodeTooLarge, "the message is too large, or what has to be read of its chat", "")

	noChat       = httpkit.NewProblem(http.StatusNotFound, codeNotFound, "there is no such chat", "")
	otherAgent   = httpkit.Invalid("this chat is with another agent")
	unknownAgent = httpkit.Invalid("there is no such agent")
	running      = httpkit.NewProblem(http.StatusConflict, codeExecution, "an answer is already running; wait for it or stop it", "")
	delegating   = httpkit.NewProblem(http.StatusConflict, codeExecution, "the answer waits for other agents; wait for it or stop it", "")
	queueFull    = httpkit.NewProblem(http.StatusConflict, codeQueueFull, "16 messages, or 1 MiB of them, wait already; wait, or withdraw one", "")
	notQueued    = httpkit.NewProblem(http.StatusConflict, codeNotQueued, "the message does not wait: it was withdrawn, or its answer has begun", "")
	changed      = httpkit.NewProblem(http.StatusConflict, codeExecution, "the conversation has changed; load it again", "")
	noMessage    = httpkit.Invalid("no such message to regenerate or to follow")
	streamLost   = httpkit.NewProblem(http.StatusGone, codeFailed, "the answer cannot be shown any more; load the conversation again", "")
	notStreaming = httpkit.NewProblem(http.StatusInternalServerError, codeCreation, "the answer has begun but cannot be shown at present; reconnect", "")
	unavailable  = httpkit.NewProblem(http.StatusServiceUnavailable, httpkit.CodeUnavailable, "the chat cannot be reached at present; try again", "")
	contended    = httpkit.NewProblem(http.StatusServiceUnavailable, httpkit.CodeUnavailable, "others are changing this chat at the same time; try again", "")
	draining     = httpkit.NewProblem(http.StatusServiceUnavailable, httpkit.CodeDraining, "this server is being stopped; try again", "")

	stillRunning = httpkit.NewProblem(http.StatusConflict, codeExecution, "the answer is still running; wait until it asks", "")
	unknownCall  = httpkit.NewProblem(http.StatusNotFound, codeUnknownCall, "nothing waits for this answer", "")
	wrongKind    = httpkit.Invalid("this call waits for another kind of answer")
	wrongID      = httpkit.Invalid("this is not the approval that is waited for")
)

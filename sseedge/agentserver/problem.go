package agentserver

import (
	"net/http"

	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// The codes of spec/helix.md, AS-1, beside those of httpkit. They are part of the wire and do not change.
const (
	codeCompleted = "ALREADY_COMPLETED"
	codeExecution = "EXECUTION_ERROR"
	codeFailed    = "STREAM_FAILED"
)

type problem = httpkit.Problem

func invalid(text string) *problem { return httpkit.Invalid(text) }

func newProblem(status int, text, code string) *problem {
	return httpkit.NewProblem(status, code, text, "")
}

var (
	badSession   = invalid("sessionId: want 1 to 64 letters, digits, - or _")
	badAgentType = invalid("agentType: want 1 to 64 letters, digits, - or _")
	badMessage   = invalid("message: want a text, or a list of 1 to 64 messages with content")

	noSession    = newProblem(http.StatusNotFound, "there is no such session", httpkit.CodeNotFound)
	unknownAgent = newProblem(http.StatusNotFound, "there is no such agent", httpkit.CodeNotFound)
	otherAgent   = invalid("this session is with another agent")
	completed    = newProblem(http.StatusConflict, "the session is over", codeCompleted)
	running      = newProblem(http.StatusConflict, "a run is at work; wait for it or stop it", codeExecution)
	awaiting     = newProblem(http.StatusConflict, "the run waits for answers; submit them", codeExecution)
	streamLost   = newProblem(http.StatusGone, "the answer cannot be shown any more; load the conversation again", codeFailed)
	unavailable  = newProblem(http.StatusServiceUnavailable, "the session cannot be reached at present; try again", httpkit.CodeUnavailable)
	notStarted   = newProblem(http.StatusServiceUnavailable, "no worker has begun with the run yet; try again", httpkit.CodeUnavailable)
	contended    = newProblem(http.StatusServiceUnavailable, "others are changing this session at the same time; try again", httpkit.CodeUnavailable)
	draining     = newProblem(http.StatusServiceUnavailable, "this server is being stopped; try again", httpkit.CodeDraining)
)

// problemOf returns the problem of a refusal, nil for none.
func problemOf(r *conversation.Refusal) *problem {
	if r == nil {
		return nil
	}
	if r.Reason == conversation.ReasonInvalid {
		return invalid(r.Text)
	}
	if p, ok := problems[r.Reason]; ok {
		return p
	}
	return httpkit.Internal
}

// problems are those of the refusals of package conversation. ReasonAnswered and ReasonExpired are no problems here, see submit.
var problems = map[conversation.Reason]*problem{
	conversation.ReasonUnstorable:    invalid("what was sent cannot be stored: it is nested too deeply, or a part of it is too long"),
	conversation.ReasonTooLarge:      httpkit.BodyTooLarge,
	conversation.ReasonBadID:         invalid("an id is longer than 256 characters, or missing"),
	conversation.ReasonUnknownAgent:  unknownAgent,
	conversation.ReasonOtherAgent:    otherAgent,
	conversation.ReasonNoSession:     noSession,
	conversation.ReasonOver:          completed,
	conversation.ReasonRunning:       running,
	conversation.ReasonAwaiting:      awaiting,
	conversation.ReasonUnknownCall:   newProblem(http.StatusNotFound, "nothing waits for this answer", httpkit.CodeNotFound),
	conversation.ReasonStillRunning:  newProblem(http.StatusConflict, "the answer is still running; wait until it asks", codeExecution),
	conversation.ReasonWrongKind:     invalid("this call waits for another kind of answer"),
	conversation.ReasonWrongApproval: invalid("this is not the approval that is waited for"),
	conversation.ReasonContended:     contended,
	conversation.ReasonLost:          unavailable,
	conversation.ReasonUnavailable:   unavailable,
}

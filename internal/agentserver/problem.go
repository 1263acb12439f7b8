package agentserver

import (
	"net/http"

	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// The codes of AS-1, in addition to those of httpkit. They are part of the wire and do not change.
const (
	codeCompleted = "ALREADY_COMPLETED"
	codeExecution = "EXECUTION_ERROR"
	codeFailed    = "STREAM_FAILED"
)

var (
	badSession   = httpkit.Invalid("sessionId: want 1 to 64 characters of a URI")
	badAgentType = httpkit.Invalid("agentType: want 1 to 64 letters, digits, - or _")
	badMessage   = httpkit.Invalid("message: want a text, or a list of 1 to 64 messages with content")

	noSession    = httpkit.NewProblem(http.StatusNotFound, httpkit.CodeNotFound, "there is no such session", "")
	unknownAgent = httpkit.NewProblem(http.StatusNotFound, httpkit.CodeNotFound, "there is no such agent", "")
	otherAgent   = httpkit.Invalid("this session is with another agent")
	completed    = httpkit.NewProblem(http.StatusConflict, codeCompleted, "the session is over", "")
	running      = httpkit.NewProblem(http.StatusConflict, codeExecution, "a run is at work; wait for it or stop it", "")
	awaiting     = httpkit.NewProblem(http.StatusConflict, codeExecution, "the run waits for answers; submit them", "")
	streamLost   = httpkit.NewProblem(http.StatusGone, codeFailed, "the answer cannot be shown any more; load the conversation again", "")
	unavailable  = httpkit.NewProblem(http.StatusServiceUnavailable, httpkit.CodeUnavailable, "the session cannot be reached at present; try again", "")
	notStarted   = httpkit.NewProblem(http.StatusServiceUnavailable, httpkit.CodeUnavailable, "no worker has begun with the run yet; try again", "")
	contended    = httpkit.NewProblem(http.StatusServiceUnavailable, httpkit.CodeUnavailable, "others are changing this session at the same time; try again", "")
	draining     = httpkit.NewProblem(http.StatusServiceUnavailable, httpkit.CodeDraining, "this server is being stopped; try again", "")
)

// problemOf returns the problem of a refusal, nil for none.
func problemOf(r *conversation.Refusal) *httpkit.Problem {
	if r == nil {
		return nil
	}
	if r.Reason == conversation.ReasonInvalid {
		return httpkit.Invalid(r.Text)
	}
	if p, ok := problems[r.Reason]; ok {
		return p
	}
	return httpkit.Internal
}

// problems has the problems for the refusals of package conversation, except ReasonAnswered and ReasonExpired, which are not problems, see submit.
var problems = map[conversation.Reason]*httpkit.Problem{
	conversation.ReasonUnstorable:    httpkit.Invalid("what was sent cannot be stored: it is nested too deeply, or a part of it is too long"),
	conversation.ReasonTooLarge:      httpkit.BodyTooLarge,
	conversation.ReasonBadID:         httpkit.Invalid("an id is longer than 256 characters, or missing"),
	conversation.ReasonUnknownAgent:  unknownAgent,
	conversation.ReasonOtherAgent:    otherAgent,
	conversation.ReasonNoSession:     noSession,
	conversation.ReasonForbidden:     httpkit.Forbidden,
	conversation.ReasonOver:          completed,
	conversation.ReasonRunning:       running,
	conversation.ReasonAwaiting:      awaiting,
	conversation.ReasonUnknownCall:   httpkit.NewProblem(http.StatusNotFound, httpkit.CodeNotFound, "nothing waits for this answer", ""),
	conversation.ReasonStillRunning:  httpkit.NewProblem(http.StatusConflict, codeExecution, "the answer is still running; wait until it asks", ""),
	conversation.ReasonWrongKind:     httpkit.Invalid("this call waits for another kind of answer"),
	conversation.ReasonWrongApproval: httpkit.Invalid("this is not the approval that is waited for"),
	conversation.ReasonWrongInput:    httpkit.Invalid("the call has another input than the one that was shown"),
	conversation.ReasonContended:     contended,
	conversation.ReasonLost:          unavailable,
	conversation.ReasonTooManyRuns:   httpkit.TenantRuns,
	conversation.ReasonFull:          httpkit.SessionFull,
	conversation.ReasonNoStorage:     httpkit.NoStorage,
	conversation.ReasonNotPermitted:  httpkit.EdgePermission,
	conversation.ReasonUnavailable:   unavailable,
}

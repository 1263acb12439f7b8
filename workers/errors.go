package workers

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// What Step returns when the run cannot go on here. Return it from the agent.
var (
	// ErrSuspended reports a run that waits for people or sub-agents. The agent
	// is called again when they have answered.
	ErrSuspended = errors.New("the run waits for answers")

	// ErrInterrupted reports a run that somebody stopped softly: what it has
	// said stays, and it may be resumed.
	ErrInterrupted = errors.New("the run was interrupted")

	// ErrAborted reports a run that somebody stopped for good.
	ErrAborted = errors.New("the run was aborted")

	// ErrStopping reports a worker that is told to stop. Another one goes on
	// with the run from its last committed step.
	ErrStopping = errors.New("the worker stops")

	// ErrFinal reports a Step after one that was marked Final.
	ErrFinal = errors.New("the last step is committed")
)

// The codes of errors that the SDK itself reports.
const (
	CodeInternal    = "framework_internal_error"
	CodeStepLimit   = "framework_step_limit_exceeded"
	CodeToolFailed  = "tool_execution_failed"
	CodeInvalidTool = "validation_error"
	CodeAborted     = "aborted"
	CodeDenied      = "client_tool_denied"
	CodeAbandoned   = "client_tool_abandoned"
	CodeDeadline    = "client_tool_deadline_exceeded"
)

// Error is an error that people may be told of. Everything in it but Cause is
// stored in the log and shown.
type Error struct {
	Message   string // one sentence
	Code      string // such as "provider_rate_limited"; defaults to CodeInternal
	Category  string // defaults to what is before the first underscore of Code
	Retryable bool   // trying again may help
	Cause     error  // for the worker's log; nil for none
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s (%s): %v", e.Message, e.Code, e.Cause)
	}
	return fmt.Sprintf("%s (%s)", e.Message, e.Code)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// detail is what the log says of err: all of an Error, and of any other only
// that there was one, because nobody has looked whether its text is fit for
// people.
func detail(err error, fallback string) chunk.ErrorDetail {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Message: fallback}
	}
	code := e.Code
	if code == "" {
		code = CodeInternal
	}
	category := e.Category
	if category == "" {
		category, _, _ = strings.Cut(code, "_")
	}
	return chunk.ErrorDetail{
		Message: strings.ToValidUTF8(e.Message, "\uFFFD"), Code: &code, Category: &category, Retryable: &e.Retryable,
	}
}

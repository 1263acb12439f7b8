package workers

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/producers"
)

// Errors of Step that end the run in this worker. Return them from the agent.
var (
	// ErrSuspended reports that the run waits for users or sub-agents. The agent is called again after the
	// last answer.
	ErrSuspended = errors.New("run suspended")

	// ErrInterrupted reports that a user interrupted the run. It keeps its output and may be resumed.
	ErrInterrupted = errors.New("run interrupted")

	// ErrAborted reports that a user aborted the run.
	ErrAborted = errors.New("run aborted")

	// ErrStopping reports that the worker shuts down. Another worker continues the run after its last
	// committed step.
	ErrStopping = errors.New("worker shutting down")

	// ErrFinal reports a Step after one with MarkFinal.
	ErrFinal = errors.New("final step already committed")
)

// Error codes that the SDK stores.
const (
	CodeInternal  = "framework_internal_error"
	CodeStepLimit = "framework_step_limit_exceeded"

	// CodeSessionLimit fails a run whose chunk was over a limit of producers.Config.
	CodeSessionLimit = control.CodeSessionLimit

	// CodeTokenBudget fails a run of a tenant that has used the tokens of Config.TokensPerDay.
	CodeTokenBudget = "framework_token_budget_exceeded"

	CodeToolFailed  = "tool_execution_failed"
	CodeInvalidTool = "validation_error"
	CodeAborted     = "aborted"
	CodeDenied      = "client_tool_denied"
	CodeAbandoned   = control.CodeAbandoned

	// CodeInputMismatch is the outcome of a call whose approval was given for another input, so it counts as not given: the model may call again.
	CodeInputMismatch = "approval_input_mismatch"
	CodeDeadline      = control.CodeDeadline
)

// Error is an error that is shown to users. All fields except Cause are stored in the log.
type Error struct {
	Message   string // one sentence
	Code      string // such as "provider_rate_limited"; defaults to CodeInternal
	Category  string // defaults to what is before the first underscore of Code
	Retryable bool   // a later run may succeed
	Cause     error  // logged, not stored; may be nil
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s (%s): %v", e.Message, e.Code, e.Cause)
	}
	return fmt.Sprintf("%s (%s)", e.Message, e.Code)
}

// Unwrap returns Cause.
func (e *Error) Unwrap() error { return e.Cause }

// detail returns the part of err that is stored: all of an Error, and only fallback for any other error,
// because its text may contain internal details.
func detail(err error, fallback string) chunk.ErrorDetail {
	e, ok := errors.AsType[*Error](err)
	switch {
	case errors.Is(err, producers.ErrSessionLimit):
		e = &Error{Message: "the session has reached its limit", Code: CodeSessionLimit}
	case !ok:
		e = &Error{Message: fallback}
	}
	code := cmp.Or(e.Code, CodeInternal)
	category := e.Category
	if category == "" {
		category, _, _ = strings.Cut(code, "_")
	}
	code, category = validText(code), validText(category)
	return chunk.ErrorDetail{Message: validText(e.Message), Code: &code, Category: &category, Retryable: &e.Retryable}
}

// validText returns s as a record can hold it.
func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// isRejected reports whether err is that of a record that no worker can store. Its run fails at once: redelivered, the
// command would fail in the same way in every worker, after the model and the tools were called again.
func isRejected(err error) bool {
	return errors.Is(err, chunk.ErrInvalid) || errors.Is(err, chunk.ErrTooLarge) || errors.Is(err, producers.ErrSessionLimit) || errors.Is(err, chunk.ErrUnknownValue)
}

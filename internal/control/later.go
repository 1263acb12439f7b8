package control

import (
	"context"
	"errors"
	"time"
)

// RetryAfter wraps err for a Handler that knows the time of the next attempt: the command is redelivered after d, however often it has failed.
func RetryAfter(d time.Duration, err error) error { return &laterError{delay: d, cause: err} }

type laterError struct {
	delay time.Duration
	cause error
}

func (e *laterError) Error() string { return e.cause.Error() }
func (e *laterError) Unwrap() error { return e.cause }

// RetryDelay returns the delay of an error of RetryAfter, false for any other.
func RetryDelay(err error) (time.Duration, bool) {
	later, ok := errors.AsType[*laterError](err)
	if !ok {
		return 0, false
	}
	return later.delay, true
}

// AfterAck is a success of a Handler with work that needs the command to be gone: while a command is on the queue, another one of the session is rejected or
// taken for the same one. Serve calls Func when the queue has confirmed the acknowledgement, or when the confirmation is overdue; then the command may
// still be there. A process that crashes in between does not call it. An error of Func is logged.
type AfterAck struct { //nolint:errname // it says what nil says
	Func func(ctx context.Context) error
}

// Error implements error; the result is not an error.
func (AfterAck) Error() string { return "done" }

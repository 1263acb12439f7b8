package control

import (
	"context"
	"errors"
	"time"
)

// RetryAfter is err, for a Handler that knows when it makes sense to try again: the
// command comes back after d, however often it has failed.
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

// AfterAck is nil, for a Handler that has something left to do when its command is
// gone: while a command is there another one of the session is refused, or taken
// for the same. Serve calls Func once the queue has confirmed it, and only then;
// a process that dies in between does not. An error of Func is logged.
type AfterAck struct { //nolint:errname // it says what nil says
	Func func(ctx context.Context) error
}

// Error says that there is none.
func (AfterAck) Error() string { return "done" }

package commands

import (
	"context"
	"errors"
	"time"
)

// Later is err, for a Handler that knows when it makes sense to try again: the
// command comes back after d, however often it has failed.
func Later(d time.Duration, err error) error { return &laterError{delay: d, cause: err} }

type laterError struct {
	delay time.Duration
	cause error
}

func (e *laterError) Error() string { return e.cause.Error() }
func (e *laterError) Unwrap() error { return e.cause }

// rest is how long a command rests whose handler failed with err in the n-th
// delivery.
func (c Config) rest(err error, n uint64) time.Duration {
	if later, ok := errors.AsType[*laterError](err); ok {
		return later.delay
	}
	delay := c.RetryDelay
	for ; n > 1 && delay < maxRetryDelay; n-- {
		delay *= 2
	}
	return min(delay, maxRetryDelay)
}

// Done is nil, for a Handler that has something left to do when its command is
// gone: while a command is there another one of the session is refused, or taken
// for the same. Serve calls After once the queue has confirmed it, and only then;
// a process that dies in between does not. An error of After is logged.
type Done struct { //nolint:errname // it says what nil says
	After func(ctx context.Context) error
}

// Error says that there is none.
func (Done) Error() string { return "done" }

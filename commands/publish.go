package commands

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
)

const (
	attemptLimit = 2 * time.Second // one try of a publish
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = time.Second
)

// Publish puts c on the queue. Nil means that it is stored. Repeating it, after
// an error or by a second click, changes nothing: the server knows the command
// by tenant, session, run and kind, and the worker finds the run in the log
// when the server has forgotten.
//
// Errors wrap chunk.ErrInvalid (a field is wrong) or chunk.ErrTooLarge, with
// nothing sent; chunk.ErrNotStored; or chunk.ErrUnknownOutcome, when the server
// did not answer within Patience or the context.
func (q *Queue) Publish(ctx context.Context, c Command) error {
	if c.Issued.IsZero() {
		c.Issued = time.Now()
	}
	if err := c.validate(); err != nil {
		return fmt.Errorf("command: %w", err)
	}
	msg, err := encode(q.cfg.Layout, c)
	if err != nil {
		return fmt.Errorf("command: %w", err)
	}
	if err := q.store(ctx, msg); err != nil {
		return fmt.Errorf("publish command %s: %w", c.id(), err)
	}
	return nil
}

// store tries until there is a verdict. A try without an answer may have been
// stored; the message id makes the next one harmless.
func (q *Queue) store(ctx context.Context, msg *nats.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, q.cfg.Patience)
	defer cancel()
	outcome := chunk.ErrNotStored
	for backoff := firstBackoff; ; backoff = min(2*backoff, lastBackoff) {
		err := q.attempt(ctx, msg)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, nats.ErrMaxPayload), refusal(err).ErrorCode == tooLargeForStream:
			return fmt.Errorf("%w: %d bytes of JSON", chunk.ErrTooLarge, len(msg.Data))
		case verdict(err):
			return fmt.Errorf("%w: %w", outcome, err)
		case !errors.Is(err, jetstream.ErrNoStreamResponse) && !errors.Is(err, nats.ErrConnectionClosed):
			outcome = chunk.ErrUnknownOutcome // it may be on its way, in a buffer or stored
		}
		if errors.Is(err, nats.ErrConnectionClosed) || !pause(ctx, backoff) {
			return fmt.Errorf("%w: %w", outcome, err)
		}
	}
}

func (q *Queue) attempt(ctx context.Context, msg *nats.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	_, err := q.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0), jetstream.WithExpectStream(q.cfg.Layout.CommandStream()))
	return err
}

// tooLargeForStream is the server's code for a message over the stream's limit.
const tooLargeForStream jetstream.ErrorCode = 10054

// refusal is what the server answered instead of storing, zero if it did not answer.
func refusal(err error) jetstream.APIError {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return *api
	}
	return jetstream.APIError{}
}

// verdict reports a refusal that will be the same the next time, in contrast to
// a moment of weakness (5xx: no leader, no room).
func verdict(err error) bool {
	code := refusal(err).Code
	return code > 0 && code < http.StatusInternalServerError
}

// pause waits for d and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

package jsclient

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/wait"
)

// JetStream returns the JetStream that New was called with.
func (c *Client) JetStream() jetstream.JetStream { return c.js }

// APISubject returns the subject of a call of the API, with the prefix.
func (c *Client) APISubject(call string) string { return c.prefix + call }

// ReadBackoff is the Backoff of requests of readers, which must resume within a second after an outage.
var ReadBackoff = wait.Backoff{First: 20 * time.Millisecond, Max: 500 * time.Millisecond}

// Reading returns the Policy of a reader with a retry budget, 0 for one that lasts as long as the context.
func (c *Client) Reading(budget time.Duration) Policy {
	return Policy{For: budget, Backoff: ReadBackoff, Conn: c.nc}
}

// Attempt calls ask once, with the timeout of one attempt. While the connection is down it returns an error instead, see Policy.Conn.
func (c *Client) Attempt(ctx context.Context, ask func(context.Context) error) error {
	_, err := once(ctx, c.Reading(0), func(ctx context.Context) (struct{}, error) { return struct{}{}, ask(ctx) })
	return err
}

// requestsTimeout bounds Requests.
const requestsTimeout = 10 * minAttemptTimeout

// Requests is Attempt for an ask that makes several requests, each by Request and so with a timeout of its own: a slow server may need longer for all of
// them than the timeout of one attempt, and would never see the last one.
func (c *Client) Requests(ctx context.Context, ask func(context.Context) error) error {
	if err := connected(c.nc); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestsTimeout)
	defer cancel()
	return ask(ctx)
}

// Request calls ask for one request, with the timeout of one attempt, unless ctx has ended. A request that has begun does not end with ctx: the server
// could carry out a cancelled request later, after other ones.
func Request[T any](ctx context.Context, ask func(context.Context) (T, error)) (v T, err error) {
	if err := ctx.Err(); err != nil {
		return v, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), minAttemptTimeout)
	defer cancel()
	return ask(ctx)
}

// Asked calls ask for a request of package jetstream whose subject begins with a call of the API, and returns a missing permission as its error, see denial.
func Asked[T any](c *Client, call string, ask func() (T, error)) (T, error) {
	before := c.nc.LastError()
	v, err := ask()
	if err != nil {
		err = denial(c.nc, c.prefix+call, before, err)
	}
	return v, err
}

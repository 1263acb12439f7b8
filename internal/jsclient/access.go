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

package jsclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/internal/wait"
)

// Policy says how long and how often Retry asks. The zero Policy retries until the context ends.
type Policy struct {
	For time.Duration // retry budget; 0: until the context ends

	// Backoff shapes the delays between attempts. Defaults to DefaultBackoff, 50 ms to 1 s.
	Backoff wait.Backoff

	Final func(error) bool // whether a repeated request would return the same error; default: the function Final

	// Conn, if not nil, is the connection of the requests: while it is disconnected, Retry waits and does not ask. Otherwise a request waits in the
	// buffer of the client, and the server carries it out after the reconnect, when its response is not awaited any more.
	Conn *nats.Conn
}

const minAttemptTimeout = 2 * time.Second

// DefaultBackoff is the Backoff of a Policy without one.
var DefaultBackoff = wait.Backoff{First: 50 * time.Millisecond, Max: time.Second}

// Retry calls ask until it succeeds, fails with a final error, or the budget of the policy or ctx ends. Each attempt has a timeout of its own, because a
// request or its response can be lost.
func Retry[T any](ctx context.Context, p Policy, ask func(context.Context) (T, error)) (T, error) {
	trying, cancel := ctx, func() {}
	if p.For > 0 {
		trying, cancel = context.WithTimeout(ctx, p.For)
	}
	defer cancel()
	p.Backoff = cmp.Or(p.Backoff, DefaultBackoff)
	if p.Final == nil {
		p.Final = Final
	}
	for n, last := 1, error(nil); ; n++ {
		v, err := once(trying, p, ask)
		if err != nil && trying.Err() != nil && last != nil {
			err = last // that an attempt had no time left says less
		}
		last = err
		switch {
		case err == nil || p.Final(err):
			return v, err
		case wait.Sleep(trying, p.Backoff.Delay(n)) == nil:
		case ctx.Err() != nil:
			return v, fmt.Errorf("%w: %w", ctx.Err(), err)
		default:
			return v, fmt.Errorf("retry budget of %s exhausted: %w", p.For, err)
		}
	}
}

// once makes one attempt.
func once[T any](ctx context.Context, p Policy, ask func(context.Context) (T, error)) (v T, err error) {
	if err := connected(p.Conn); err != nil {
		return v, err
	}
	// Short, because a request may be lost, but a fifth of a long budget, for a server that takes seconds.
	ctx, cancel := context.WithTimeout(ctx, max(minAttemptTimeout, p.For/5))
	defer cancel()
	return ask(ctx)
}

// connected returns why requests cannot be sent. A nil connection is not checked.
func connected(nc *nats.Conn) error {
	switch {
	case nc == nil || nc.IsConnected():
		return nil
	case nc.IsClosed():
		return nats.ErrConnectionClosed
	}
	return nats.ErrDisconnected
}

// LastRetry is Last with retries.
func (c *Client) LastRetry(ctx context.Context, budget time.Duration, stream, subject string) (Message, error) {
	return Retry(ctx, Policy{For: budget}, func(ctx context.Context) (Message, error) { return c.Last(ctx, stream, subject) })
}

// Each yields the messages of a filter in the order of the stream, which the leader returns one by one, with the budget of NextRetry for each, and at most one
// error, last.
func (c *Client) Each(ctx context.Context, budget time.Duration, stream, filter string) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for from := uint64(1); ; {
			m, err := c.NextRetry(ctx, budget, stream, filter, from)
			if errors.Is(err, ErrNotFound) || !yield(m, err) || err != nil {
				return
			}
			from = m.Seq + 1
		}
	}
}

// NextRetry is Next with retries.
func (c *Client) NextRetry(ctx context.Context, budget time.Duration, stream, filter string, from uint64) (Message, error) {
	return Retry(ctx, Policy{For: budget}, func(ctx context.Context) (Message, error) { return c.Next(ctx, stream, filter, from) })
}

// PurgeRetry is Purge with retries. The result does not include messages that an attempt without a response has purged.
func (c *Client) PurgeRetry(ctx context.Context, budget time.Duration, stream, filter string, below uint64) (uint64, error) {
	return Retry(ctx, Policy{For: budget}, func(ctx context.Context) (uint64, error) { return c.Purge(ctx, stream, filter, below) })
}

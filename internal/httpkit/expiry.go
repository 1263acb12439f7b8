package httpkit

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tailrace/tailrace/auth"
)

// ErrExpired ends a stream when the credential of its client expires. The client reconnects with its cursor and a fresh credential.
var ErrExpired = errors.New("credential expires")

// maxJitter bounds how long before the expiry a stream ends. Clients that got their credentials at the same time must not reconnect at the same time.
const maxJitter = 30 * time.Second

// Expiry is when a stream ends because the credential of its client expires. The zero Expiry is never.
//
// It has no timer: the loop of the stream, which wakes up for heartbeats, wakes up for it.
type Expiry struct{ at time.Time }

// NewExpiry returns the expiry of a stream: that of the Grant, less a random part of up to an eighth of the remaining time and of maxJitter.
func NewExpiry(ctx context.Context) Expiry {
	g, ok := auth.FromContext(ctx)
	if !ok || g.ExpiresAt.IsZero() {
		return Expiry{}
	}
	jitter := min(max(0, time.Until(g.ExpiresAt)/8), maxJitter)
	return Expiry{g.ExpiresAt.Add(-rand.N(jitter + 1))}
}

// Reached reports whether the stream has to end at a time.
func (e Expiry) Reached(now time.Time) bool { return !e.at.IsZero() && !now.Before(e.at) }

// Wait returns how long a stream sleeps that would sleep for d: at most until its expiry, and more than 0.
func (e Expiry) Wait(d time.Duration) time.Duration {
	if !e.at.IsZero() {
		d = min(d, time.Until(e.at))
	}
	return max(d, time.Nanosecond)
}

package httpkit

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/tailrace/tailrace/internal/authn"
)

// ErrExpired ends a stream when the credential of its client expires. The client reconnects with its cursor and a fresh credential.
var ErrExpired = errors.New("credential expires")

// ErrTooOld ends a stream that has reached its largest age. The client reconnects with its cursor, and a balancer may choose another edge.
var ErrTooOld = errors.New("largest age reached")

// maxJitter bounds how long before the expiry a stream ends. Clients that got their credentials at the same time must not reconnect at the same time.
const maxJitter = 30 * time.Second

// Expiry is when a stream ends because the credential of its client expires, or because it is too old. The zero Expiry is never.
//
// It has no timer: the loop of the stream, which wakes up for heartbeats, wakes up for it.
type Expiry struct {
	at    time.Time
	isAge bool
}

// NewExpiry returns the expiry of a stream that begins now: that of the Grant, less a random part of up to an eighth of the remaining time and of maxJitter;
// or its largest age, less a random part of up to an eighth, if that is earlier. An age of 0 is unlimited.
func NewExpiry(ctx context.Context, age time.Duration) (e Expiry) {
	now := time.Now()
	if g, ok := authn.FromContext(ctx); ok && !g.ExpiresAt.IsZero() {
		jitter := min(max(0, g.ExpiresAt.Sub(now)/8), maxJitter)
		e.at = g.ExpiresAt.Add(-rand.N(jitter + 1))
	}
	if age > 0 {
		if end := now.Add(age - rand.N(age/8+1)); e.at.IsZero() || end.Before(e.at) {
			e = Expiry{end, true}
		}
	}
	return e
}

// Err returns why a stream ends then.
func (e Expiry) Err() error {
	if e.isAge {
		return ErrTooOld
	}
	return ErrExpired
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

// DropCredential removes the credential from the headers of a request whose response becomes a stream. net/http keeps the headers while the response is open,
// and a token has up to 8 KiB.
func DropCredential(r *http.Request) {
	for _, name := range []string{"Authorization", "Cookie"} {
		clear(r.Header[name]) // the values of all headers are parts of one slice, which stays
		delete(r.Header, name)
	}
}

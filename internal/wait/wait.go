// Package wait pauses until a time has passed or a context ends, and computes the delays between the attempts of a retry.
package wait

import (
	"context"
	"math/rand/v2"
	"time"
)

// Sleep blocks for d, or until ctx ends. It returns the error of ctx if ctx ended first, or had ended before.
func Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Signal sends a signal to a channel with a buffer of one, unless one is pending that was not received yet.
func Signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// Backoff computes delays that double from First to Max.
type Backoff struct {
	First, Max time.Duration

	// Jitter replaces each delay d by a random one between d/2 and d, so that processes that failed together do not retry together.
	Jitter bool
}

// Delay returns the delay after n failed attempts, for n of 1 and more.
func (b Backoff) Delay(n int) time.Duration {
	d := b.First
	for ; n > 1 && d < b.Max; n-- {
		d *= 2
	}
	d = min(d, b.Max)
	if b.Jitter && d > 1 {
		d = d/2 + rand.N(d/2)
	}
	return d
}

package demo

import (
	"context"
	"time"
)

// Pace blocks for d, or until ctx ends, and then returns its error. It may be called concurrently.
type Pace func(ctx context.Context, d time.Duration) error

// ScaledPace returns a Pace that multiplies every pause by factor: 1 is the pace of a model, 2 is half as
// fast, 0 does not wait.
func ScaledPace(factor float64) Pace {
	return func(ctx context.Context, d time.Duration) error {
		d = time.Duration(factor * float64(d))
		if d <= 0 {
			return ctx.Err()
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
}

package demo

import (
	"context"
	"time"
)

// Pace waits for d, or until ctx ends, whose error it then returns. It may be
// called from many goroutines.
type Pace func(ctx context.Context, d time.Duration) error

// Tempo is a Pace that multiplies every pause: 1 is the pace of a model, 2 is
// half as fast, 0 does not wait at all.
func Tempo(factor float64) Pace {
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

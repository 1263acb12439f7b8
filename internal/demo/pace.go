package demo

import (
	"context"
	"time"

	"github.com/tailrace/tailrace/internal/wait"
)

// Pace blocks for d, or until ctx ends, and then returns its error. It may be called concurrently.
type Pace func(ctx context.Context, d time.Duration) error

// ScaledPace returns a Pace that multiplies every pause by factor: 1 is the pace of a model, 2 is half as
// fast, 0 does not wait.
func ScaledPace(factor float64) Pace {
	return func(ctx context.Context, d time.Duration) error {
		return wait.Sleep(ctx, time.Duration(factor*float64(d)))
	}
}

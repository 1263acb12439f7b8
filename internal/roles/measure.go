package roles

import (
	"context"
	"log/slog"
	"time"
)

// measureRetry is the delay after an error of Measure.
const measureRetry = time.Second

// Measure calls what in each interval until ctx ends, and sooner after an error. The second of consecutive errors is logged.
func Measure(ctx context.Context, log *slog.Logger, interval time.Duration, failure string, what func(context.Context) error) {
	next := time.NewTimer(0)
	defer next.Stop()
	for failures := 0; ; {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		err := what(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			failures = 0
			next.Reset(interval)
			continue
		}
		if failures++; failures == 2 {
			log.Warn(failure, "error", err)
		}
		next.Reset(measureRetry)
	}
}

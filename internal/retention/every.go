package retention

import (
	"context"
	"log/slog"
	"time"

	"github.com/tailrace/tailrace/internal/wait"
)

// sweepBackoff shapes the delays after sweeps that failed: the streams may be about to be created, and a sweep reads much.
var sweepBackoff = wait.Backoff{First: 10 * time.Second, Max: time.Minute}

// Every runs sweep once in each interval of l until ctx ends, in one of the processes that share l, and returns the error of ctx. It logs a sweep that fails
// to log, which may be nil, and retries it after 10 seconds, later after a minute. Meanwhile another process may run it.
func Every(ctx context.Context, l *Lease, sweep func(context.Context) error, log *slog.Logger) error {
	log = orSilence(log)
	for failures := 0; ; {
		err := l.Do(ctx, sweep)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			failures = 0
		default:
			failures++
			log.Warn("sweep failed", slog.String("lease", l.cfg.Name), slog.Any("error", err))
		}
		if err := wait.Sleep(ctx, sweepDelay(l.cfg.Interval, failures)); err != nil {
			return err
		}
	}
}

// sweepDelay returns the delay after a number of failures in a row.
func sweepDelay(interval time.Duration, failures int) time.Duration {
	if failures == 0 {
		return interval
	}
	return min(interval, sweepBackoff.Delay(failures))
}

package retention

import (
	"cmp"
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
	log = cmp.Or(log, slog.New(slog.DiscardHandler)).With(slog.String("lease", l.cfg.Name))
	return every(ctx, l.cfg.Interval, func(ctx context.Context) error { return l.Do(ctx, sweep) }, log)
}

func every(ctx context.Context, interval time.Duration, sweep func(context.Context) error, log *slog.Logger) error {
	for failures := 0; ; {
		delay := interval
		err := sweep(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			failures++
			delay = min(interval, sweepBackoff.Delay(failures))
			log.Warn("sweep failed", slog.Any("error", err))
		default:
			failures = 0
		}
		if err := wait.Sleep(ctx, delay); err != nil {
			return err
		}
	}
}

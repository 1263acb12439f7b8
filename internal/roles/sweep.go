package roles

import (
	"context"
	"log/slog"
	"time"

	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/metrics"
	"github.com/tailrace/tailrace/internal/retention"
	"github.com/tailrace/tailrace/workers"
)

// sweepSnapshots completes interrupted deletions and removes snapshots that have not been saved for their maximum age, until ctx ends. Because it scans every head, it runs once per hour, or more
// often for a short age.
func (p *Process) sweepSnapshots(ctx context.Context, store *jssnapshots.Store) error {
	eraser, err := p.newEraser(store, metrics.RegisterExpired(p.Metrics).Inc)
	if err != nil {
		return err
	}
	return p.every(ctx, "sweep", store, 24, func(ctx context.Context) error {
		n, err := eraser.Sweep(ctx)
		if n > 0 {
			p.Log.Info("old sessions removed", slog.Int("sessions", n))
		}
		return err
	})
}

// newEraser returns what deletes sessions. expired is called for each session that a sweep removes, may be nil.
func (p *Process) newEraser(store *jssnapshots.Store, expired func()) (*retention.Eraser, error) {
	reaper, err := p.Reaper()
	if err != nil {
		return nil, err
	}
	return retention.NewEraser(p.JS, store, retention.EraserConfig{
		Layout: p.Layout, ChildDeleted: reaper.ContinueParent, Expired: expired, Log: p.Log,
	})
}

// every runs a sweep of what expires once in each interval, in one of several projectors: an hour, or a part of its maximum age if that is shorter.
func (p *Process) every(ctx context.Context, name string, of interface {
	MaxAge(ctx context.Context) (time.Duration, error)
}, part time.Duration, sweep func(context.Context) error,
) error {
	interval := time.Hour
	if err := Wait(ctx, func(ctx context.Context) error {
		maxAge, err := of.MaxAge(ctx)
		if maxAge > 0 {
			interval = min(interval, max(time.Minute, maxAge/part))
		}
		return err
	}, p.OnUnavailable); err != nil {
		return err
	}
	lease, err := retention.NewLease(p.JS, retention.LeaseConfig{Layout: p.Layout, Name: name, Interval: interval})
	if err != nil {
		return err
	}
	return retention.Every(ctx, lease, sweep, p.Log)
}

// newReaper returns what ends the runs without a worker. It is called once, because its metric is that of the process.
func (p *Process) newReaper() (*workers.Reaper, error) {
	return workers.NewReaper(p.JS, workers.ReaperConfig{Layout: p.Layout, RunTimeout: p.RunTimeout, Observe: metrics.RegisterRuns(p.Metrics), Log: p.Log})
}

// sweepRuns ends the runs without a worker until ctx ends. Because it scans every head, it runs once per hour, or more often if commands expire soon.
func (p *Process) sweepRuns(ctx context.Context, store *jssnapshots.Store) error {
	reaper, err := p.Reaper()
	if err != nil {
		return err
	}
	queue, err := jscontrol.NewQueue(p.JS, jscontrol.QueueConfig{Layout: p.Layout, Log: p.Log})
	if err != nil {
		return err
	}
	return p.every(ctx, "runs", queue, 12, func(ctx context.Context) error { return reaper.Sweep(ctx, store) })
}

// countInterval is the interval of the counts of pending approvals.
const countInterval = 15 * time.Second

// countApprovals counts the calls that wait for an approval until ctx ends. Each projector counts those of all partitions: a count of the own partitions alone would be wrong while a share moves.
func (p *Process) countApprovals(ctx context.Context, store *jssnapshots.Store) {
	pending, approvals := metrics.RegisterApprovals(p.Metrics), store.NewApprovals()
	Measure(ctx, p.Log, countInterval, "pending approvals not counted", func(ctx context.Context) error {
		n, err := approvals.Count(ctx)
		if err == nil {
			pending.Set(float64(n))
		}
		return err
	})
}

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

package roles

import (
	"context"
	"log/slog"
	"time"

	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/metrics"
	"github.com/tailrace/tailrace/internal/retention"
)

// sweepSnapshots completes interrupted deletions and removes snapshots that
// have not been saved for their maximum age, until ctx ends. Because it scans every
// head, it runs once per hour, or more often for a short age.
func (p *Process) sweepSnapshots(ctx context.Context, store *jssnapshots.Store) error {
	interval, err := p.sweepInterval(ctx, store, 24)
	if err != nil {
		return err
	}
	eraser, err := p.newEraser(store, metrics.RegisterExpired(p.Metrics).Inc)
	if err != nil {
		return err
	}
	return p.every(ctx, "sweep", interval, func(ctx context.Context) error {
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

// sweepInterval returns the interval of sweeps of what expires: an hour, or a part of its maximum age if that is shorter.
func (p *Process) sweepInterval(ctx context.Context, of interface {
	MaxAge(ctx context.Context) (time.Duration, error)
}, part time.Duration,
) (interval time.Duration, err error) {
	interval = time.Hour
	err = Wait(ctx, func(ctx context.Context) error {
		maxAge, err := of.MaxAge(ctx)
		if maxAge > 0 {
			interval = min(interval, max(time.Minute, maxAge/part))
		}
		return err
	}, p.OnUnavailable)
	return interval, err
}

// every runs a sweep once in each interval, in one of several projectors.
func (p *Process) every(ctx context.Context, name string, interval time.Duration, sweep func(context.Context) error) error {
	lease, err := retention.NewLease(p.JS, retention.LeaseConfig{Layout: p.Layout, Name: name, Interval: interval})
	if err != nil {
		return err
	}
	return retention.Every(ctx, lease, sweep, p.Log)
}

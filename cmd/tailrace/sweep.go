package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/metrics"
	"github.com/tailrace/tailrace/internal/retention"
)

// defaultSnapshotTTL is the default of SnapshotTTL.
const defaultSnapshotTTL = 90 * 24 * time.Hour

// snapshotTTL returns the retention of snapshots, 0 for unlimited. The default is longer where the log is kept longer.
func (c config) snapshotTTL() time.Duration {
	if c.SnapshotTTL == defaultSnapshotTTL {
		return max(c.SnapshotTTL, c.MaxAge)
	}
	return c.SnapshotTTL
}

// sweepSnapshots completes interrupted deletions and removes snapshots that
// were not saved for SnapshotTTL, until ctx ends. Because it scans every head,
// it runs once per hour, or more often for a short TTL.
func (b *app) sweepSnapshots(ctx context.Context, store *jssnapshots.Store) error {
	interval := time.Hour
	ttl := b.cfg.snapshotTTL()
	if ttl > 0 {
		interval = min(interval, max(time.Minute, ttl/24))
	}
	expired, err := metrics.NewExpired(b.metrics)
	if err != nil {
		return err
	}
	eraser, err := retention.NewEraser(b.js, store, retention.EraserConfig{Layout: b.cfg.layout(), TTL: ttl, Expired: expired.Expired, Log: b.log})
	if err != nil {
		return err
	}
	return b.every(ctx, "sweep", interval, func(ctx context.Context) error {
		n, err := eraser.Sweep(ctx, time.Now())
		if n > 0 {
			b.log.Info("old sessions removed", slog.Int("sessions", n))
		}
		return err
	})
}

// every runs a sweep once in each interval, in one of several projectors.
func (b *app) every(ctx context.Context, name string, interval time.Duration, sweep func(context.Context) error) error {
	lease, err := retention.NewLease(b.js, retention.LeaseConfig{Layout: b.cfg.layout(), Name: name, Interval: interval})
	if err != nil {
		return err
	}
	return retention.Every(ctx, lease, sweep, b.log)
}

package main

import (
	"context"
	"time"

	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/retention"
)

// sweep completes interrupted deletions and removes snapshots that were not
// saved for SnapshotTTL, until ctx ends. Because it scans every head, it runs
// once per hour, or more often for a short TTL, and in one of several
// projectors.
func (b *app) sweep(ctx context.Context, store *jssnapshots.Store) error {
	every := time.Hour
	if b.cfg.SnapshotTTL > 0 {
		every = min(every, max(time.Minute, b.cfg.SnapshotTTL/24))
	}
	l, err := retention.NewLease(b.js, b.cfg.layout(), "sweep", every)
	if err != nil {
		return err
	}
	eraser, err := retention.NewEraser(b.js, store, retention.EraserConfig{Layout: b.cfg.layout(), TTL: b.cfg.SnapshotTTL, Lease: l.RunIfFree, Log: b.log})
	if err != nil {
		return err
	}
	return eraser.Run(ctx, every)
}

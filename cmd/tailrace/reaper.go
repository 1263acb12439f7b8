package main

import (
	"cmp"
	"context"

	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/metrics"
	"github.com/tailrace/tailrace/workers"
)

// newReaper returns what ends the runs without a worker. It is called once, because its metric is that of the process.
func (b *app) newReaper() (*workers.Reaper, error) {
	return workers.NewReaper(b.js, workers.ReaperConfig{
		Layout: b.cfg.layout(), RunTimeout: cmp.Or(b.cfg.RunTimeout, workers.Off), Observe: metrics.RegisterRuns(b.metrics), Log: b.log,
	})
}

// sweepRuns ends the runs without a worker until ctx ends. Because it scans every head, it runs once per hour, or more
// often if commands expire soon.
func (b *app) sweepRuns(ctx context.Context, store *jssnapshots.Store) error {
	reaper, err := b.reaper()
	if err != nil {
		return err
	}
	queue, err := jscontrol.NewQueue(b.js, jscontrol.QueueConfig{Layout: b.cfg.layout(), Log: b.log})
	if err != nil {
		return err
	}
	interval, err := b.sweepInterval(ctx, queue, 12)
	if err != nil {
		return err
	}
	return b.every(ctx, "runs", interval, func(ctx context.Context) error { return reaper.Sweep(ctx, store) })
}

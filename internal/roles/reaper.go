package roles

import (
	"context"

	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/metrics"
	"github.com/tailrace/tailrace/workers"
)

// newReaper returns what ends the runs without a worker. It is called once, because its metric is that of the process.
func (p *Process) newReaper() (*workers.Reaper, error) {
	return workers.NewReaper(p.JS, workers.ReaperConfig{Layout: p.Layout, RunTimeout: p.RunTimeout, Observe: metrics.RegisterRuns(p.Metrics), Log: p.Log})
}

// sweepRuns ends the runs without a worker until ctx ends. Because it scans every head, it runs once per hour, or more
// often if commands expire soon.
func (p *Process) sweepRuns(ctx context.Context, store *jssnapshots.Store) error {
	reaper, err := p.Reaper()
	if err != nil {
		return err
	}
	queue, err := jscontrol.NewQueue(p.JS, jscontrol.QueueConfig{Layout: p.Layout, Log: p.Log})
	if err != nil {
		return err
	}
	interval, err := p.sweepInterval(ctx, queue, 12)
	if err != nil {
		return err
	}
	return p.every(ctx, "runs", interval, func(ctx context.Context) error { return reaper.Sweep(ctx, store) })
}

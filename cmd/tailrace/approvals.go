package main

import (
	"context"
	"time"

	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/metrics"
)

// countInterval is the interval of the counts of pending approvals.
const countInterval = 15 * time.Second

// countApprovals counts the calls that wait for an approval until ctx ends. Each projector counts those of all partitions: a count of the own partitions alone would
// be wrong while a share moves.
func (b *app) countApprovals(ctx context.Context, store *jssnapshots.Store) error {
	metric, err := metrics.NewApprovals(b.metrics)
	if err != nil {
		return err
	}
	approvals := store.NewApprovals()
	b.measure(ctx, countInterval, "pending approvals not counted", func(ctx context.Context) error {
		n, err := approvals.Count(ctx)
		if err == nil {
			metric.Counted(n)
		}
		return err
	})
	return nil
}

// measureRetry is the delay after an error of measure.
const measureRetry = time.Second

// measure calls what in each interval until ctx ends, and sooner after an error. The second of consecutive errors is logged.
func (b *app) measure(ctx context.Context, interval time.Duration, failure string, what func(context.Context) error) {
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
			b.log.Warn(failure, "error", err)
		}
		next.Reset(measureRetry)
	}
}

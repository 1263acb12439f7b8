package roles

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

package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// Approvals is the number of calls that wait for an approval, as a process has counted it.
type Approvals struct {
	pending prometheus.Gauge
}

// NewApprovals registers the metric of a process with reg.
func NewApprovals(reg prometheus.Registerer) (*Approvals, error) {
	a := &Approvals{pending: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "tailrace_pending_approvals",
		Help: "Tool calls of all sessions that wait for an approval, as of the saved snapshots. All projectors report the same; NaN until the first count.",
	})}
	a.pending.Set(math.NaN())
	return a, register(reg, a.pending)
}

// Counted sets the number.
func (a *Approvals) Counted(n int) { a.pending.Set(float64(n)) }

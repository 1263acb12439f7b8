package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// RegisterApprovals registers the number of calls that wait for an approval, as a process has counted it, with reg.
func RegisterApprovals(reg prometheus.Registerer) prometheus.Gauge {
	pending := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "tailrace_pending_approvals",
		Help: "Tool calls of all sessions that wait for an approval, as of the saved snapshots. All projectors report the same; NaN until the first count.",
	})
	pending.Set(math.NaN())
	reg.MustRegister(pending)
	return pending
}

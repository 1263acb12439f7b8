package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/workers"
)

// Runs counts the runs that a workers.Reaper has ended.
type Runs struct {
	ended *prometheus.CounterVec
}

// NewRuns registers the metric of a process with reg.
func NewRuns(reg prometheus.Registerer) (*Runs, error) {
	r := &Runs{ended: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tailrace_runs_ended_without_worker_total",
		Help: "Runs ended without a worker, by reason: stopped (by a user, before a worker has started it), owner (active without a command and without records) or expired (not started before its command expires).",
	}, []string{"reason"})}
	for _, reason := range workers.Reasons() {
		r.ended.WithLabelValues(string(reason)) // a counter that exists from the start shows its first increment
	}
	return r, register(reg, r.ended)
}

// Ended counts a run by its reason. It is for workers.ReaperConfig.Observe.
func (r *Runs) Ended(reason workers.Reason) { r.ended.WithLabelValues(string(reason)).Inc() }

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/workers"
)

// RegisterRuns registers the number of runs that a workers.Reaper has ended with reg. ended counts one, for workers.ReaperConfig.Observe.
func RegisterRuns(reg prometheus.Registerer) (ended func(workers.Reason)) {
	runs := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tailrace_runs_ended_without_worker_total",
		Help: "Runs ended without a worker, by reason: stopped (by a user, before a worker has started it), owner (active without a command and without records) or expired (not started before its command expires).",
	}, []string{"reason"})
	for _, reason := range workers.Reasons() {
		runs.WithLabelValues(string(reason)) // a counter that exists from the start shows its first increment
	}
	reg.MustRegister(runs)
	return func(reason workers.Reason) { runs.WithLabelValues(string(reason)).Inc() }
}

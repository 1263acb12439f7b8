package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/workers"
)

// Workers implements workers.Observer.
type Workers struct {
	running *prometheus.GaugeVec
	ended   *prometheus.CounterVec
	waited  *prometheus.HistogramVec
	took    *prometheus.HistogramVec
}

var _ workers.Observer = (*Workers)(nil)

// NewWorkers registers the metrics of the commands that a process handles with reg. agentTypes are those that it serves: their series exist from the start.
func NewWorkers(reg prometheus.Registerer, agentTypes ...string) *Workers {
	const agent = "agent_type"
	seconds := []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}
	w := &Workers{
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tailrace_worker_commands_in_progress", Help: "Commands that this process handles, by agent type.",
		}, []string{agent}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tailrace_worker_commands_total",
			Help: "Commands that this process has handled, by agent type and result: done, failed (repeated after a delay), fenced (another worker has taken the run over) or returned (the process shuts down).",
		}, []string{agent, "result"}),
		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tailrace_worker_command_wait_seconds", Help: "Time from the request of a command to its start in a worker, also at each repetition.", Buckets: seconds,
		}, []string{agent}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tailrace_worker_command_seconds", Help: "Duration of the commands that this process has handled.", Buckets: seconds,
		}, []string{agent}),
	}
	for _, agentType := range agentTypes {
		w.running.WithLabelValues(agentType)
		w.waited.WithLabelValues(agentType)
		w.took.WithLabelValues(agentType)
		for _, result := range []workers.CommandResult{workers.CommandDone, workers.CommandFailed, workers.CommandFenced, workers.CommandReturned} {
			w.ended.WithLabelValues(agentType, string(result))
		}
	}
	reg.MustRegister(w.running, w.ended, w.waited, w.took)
	return w
}

// CommandStarted counts a command in progress.
func (w *Workers) CommandStarted(agentType string, waited time.Duration) {
	w.running.WithLabelValues(agentType).Inc()
	w.waited.WithLabelValues(agentType).Observe(waited.Seconds())
}

// CommandEnded counts the result of a command.
func (w *Workers) CommandEnded(agentType string, result workers.CommandResult, took time.Duration) {
	w.running.WithLabelValues(agentType).Dec()
	w.ended.WithLabelValues(agentType, string(result)).Inc()
	w.took.WithLabelValues(agentType).Observe(took.Seconds())
}

// RegisterRuns registers the number of runs that a workers.Reaper has ended with reg. ended counts one, for workers.ReaperConfig.Observe.
func RegisterRuns(reg prometheus.Registerer) (ended func(workers.Reason)) {
	runs := httpkit.Counters("runs_ended_without_worker_total", "reason",
		"Runs ended without a worker, by reason: stopped (by a user, before a worker has started it), owner (active without a command and without records) or expired (not started before its command expires).", []workers.Reason{workers.ReasonStopped, workers.ReasonNoOwner, workers.ReasonExpired})
	reg.MustRegister(runs)
	return func(reason workers.Reason) { runs.WithLabelValues(string(reason)).Inc() }
}

// RegisterUsage registers the metric of used tokens with reg. unstored returns the number of those that are not stored yet.
func RegisterUsage(reg prometheus.Registerer, unstored func() int64) {
	reg.MustRegister(httpkit.Gauge("usage_unstored_tokens", "Used tokens that are not stored yet, so that other workers do not count them towards the budget of their tenant.",
		func() float64 { return float64(unstored()) }))
}

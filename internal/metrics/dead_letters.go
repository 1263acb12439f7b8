package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/internal/retention"
)

// DeadLetters implements retention.DeadLetterObserver.
type DeadLetters struct {
	added *prometheus.CounterVec
}

var _ retention.DeadLetterObserver = (*DeadLetters)(nil)

// NewDeadLetters registers the metric of the dead letters of a process with reg.
func NewDeadLetters(reg prometheus.Registerer) *DeadLetters {
	d := &DeadLetters{added: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tailrace_projector_dead_letters_total",
		Help: "Messages stored as dead letters, by reason: record (cannot be folded), envelope (not a record) or subject (not a subject of a session).",
	}, []string{"reason"})}
	for _, reason := range retention.Reasons() {
		d.added.WithLabelValues(string(reason)) // a counter that exists from the start shows its first increment
	}
	reg.MustRegister(d.added)
	return d
}

// Added counts an entry by its reason.
func (d *DeadLetters) Added(reason retention.Reason) { d.added.WithLabelValues(string(reason)).Inc() }

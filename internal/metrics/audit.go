package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Audit counts the events of the audit log of a process.
type Audit struct {
	stored, lost prometheus.Counter
}

// NewAudit registers the metrics of a process with reg. queued returns the number of events that are not stored yet.
func NewAudit(reg prometheus.Registerer, queued func() int) (*Audit, error) {
	events := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tailrace_audit_events_total",
		Help: "Events of the audit log, by result: stored, or lost (the queue was full, or the process ended before the store responded; logged with their ids).",
	}, []string{"result"})
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tailrace_audit_queued_events", Help: "Events of the audit log that are not stored yet.",
	}, func() float64 { return float64(queued()) })
	return &Audit{stored: events.WithLabelValues("stored"), lost: events.WithLabelValues("lost")}, register(reg, events, waiting)
}

// Stored counts an event that was stored.
func (a *Audit) Stored() { a.stored.Inc() }

// Lost counts an event that was not.
func (a *Audit) Lost() { a.lost.Inc() }

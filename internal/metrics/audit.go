package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// RegisterAudit registers the numbers of events of the audit log of a process, stored and lost ones, with reg. queued returns the number of those that are not
// stored yet.
func RegisterAudit(reg prometheus.Registerer, queued func() int) (stored, lost prometheus.Counter) {
	events := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tailrace_audit_events_total",
		Help: "Events of the audit log, by result: stored, or lost (the queue was full, or the process ended before the store responded; logged with their ids).",
	}, []string{"result"})
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tailrace_audit_queued_events", Help: "Events of the audit log that are not stored yet.",
	}, func() float64 { return float64(queued()) })
	reg.MustRegister(events, waiting)
	return events.WithLabelValues("stored"), events.WithLabelValues("lost")
}

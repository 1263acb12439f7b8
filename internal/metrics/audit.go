package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/internal/httpkit"
)

// RegisterAudit registers the numbers of events of the audit log of a process, stored and lost ones, with reg. queued returns the number of those that are not
// stored yet.
func RegisterAudit(reg prometheus.Registerer, queued func() int) (stored, lost prometheus.Counter) {
	events := httpkit.Counters("audit_events_total", "result",
		"Events of the audit log, by result: stored, or lost (the queue was full, or the process ended before the store responded; logged with their ids).", []string{"stored", "lost"})
	reg.MustRegister(events, httpkit.Gauge("audit_queued_events", "Events of the audit log that are not stored yet.", func() float64 { return float64(queued()) }))
	return events.WithLabelValues("stored"), events.WithLabelValues("lost")
}

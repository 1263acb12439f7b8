package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// RegisterExpired registers the number of sessions that a retention.Eraser has removed because of the retention of snapshots with reg.
func RegisterExpired(reg prometheus.Registerer) prometheus.Counter {
	sessions := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tailrace_sessions_expired_total",
		Help: "Sessions removed because they had no record for longer than the maximum age of snapshots.",
	})
	reg.MustRegister(sessions)
	return sessions
}

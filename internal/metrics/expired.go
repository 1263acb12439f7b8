package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Expired counts the sessions that a retention.Eraser has removed because of the retention of snapshots.
type Expired struct {
	sessions prometheus.Counter
}

// NewExpired registers the metric of a process with reg.
func NewExpired(reg prometheus.Registerer) (*Expired, error) {
	e := &Expired{sessions: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tailrace_sessions_expired_total",
		Help: "Sessions removed because they had no record for longer than the maximum age of snapshots.",
	})}
	return e, register(reg, e.sessions)
}

// Expired counts a session. It is for retention.EraserConfig.Expired.
func (e *Expired) Expired() { e.sessions.Inc() }

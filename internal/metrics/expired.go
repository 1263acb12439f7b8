package metrics

import (
	"fmt"

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
	if err := reg.Register(e.sessions); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return e, nil
}

// Expired counts a session. It is for retention.EraserConfig.Expired.
func (e *Expired) Expired() { e.sessions.Inc() }

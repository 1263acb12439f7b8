package projector

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// Metrics is what the Runners of a process count together. No label is a
// session, and none is what a stranger wrote. A nil *Metrics counts nothing.
type Metrics struct {
	applied   map[chunk.Type]prometheus.Counter
	other     prometheus.Counter
	conflicts prometheus.Counter
	bytes     prometheus.Histogram
	write     prometheus.Histogram
}

// otherTypes is the label of the types that this build does not know.
const otherTypes = "other"

// NewMetrics registers them.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	applied := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tailrace_projector_applied_total",
		Help: "Records that changed a snapshot, by type, " + otherTypes + " for types that this build does not know. A session that is folded anew counts again.",
	}, []string{"type"})
	m := &Metrics{
		applied: make(map[chunk.Type]prometheus.Counter),
		other:   applied.WithLabelValues(otherTypes),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tailrace_snapshot_cas_conflicts_total", Help: "Saves that were refused because somebody else had saved the session.",
		}),
		bytes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tailrace_snapshot_bytes", Help: "Memory of a snapshot when it was saved, about: its head and the messages that were new.",
			Buckets: prometheus.ExponentialBuckets(1024, 4, 8),
		}),
		write: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tailrace_snapshot_write_seconds", Help: "Time of one save, its messages and its head.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
	}
	for _, t := range chunk.Types() {
		m.applied[t] = applied.WithLabelValues(string(t))
	}
	for _, c := range []prometheus.Collector{applied, m.conflicts, m.bytes, m.write} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return m, nil
}

func (m *Metrics) appliedOne(t chunk.Type) {
	if m == nil {
		return
	}
	if c := m.applied[t]; c != nil {
		c.Inc()
		return
	}
	m.other.Inc()
}

func (m *Metrics) saved(s fold.Snapshot, took time.Duration) {
	if m != nil {
		m.bytes.Observe(float64(s.Weight()))
		m.write.Observe(took.Seconds())
	}
}

func (m *Metrics) conflict() {
	if m != nil {
		m.conflicts.Inc()
	}
}

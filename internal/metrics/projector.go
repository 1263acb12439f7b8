// Package metrics implements the observers of engines and adapters with Prometheus collectors.
//
// No label value is a session ID or text that a client wrote, so the number of series is bounded.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector"
)

// Projector implements projector.Observer. All Runners of a process share one.
type Projector struct {
	applied   map[chunk.Type]prometheus.Counter
	other     prometheus.Counter
	conflicts prometheus.Counter
	bytes     prometheus.Histogram
	write     prometheus.Histogram
}

var _ projector.Observer = (*Projector)(nil)

// otherTypes is the label value of the types that this build does not know.
const otherTypes = "other"

// NewProjector registers the metrics of the Runners of a process with reg.
func NewProjector(reg prometheus.Registerer) *Projector {
	applied := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tailrace_projector_applied_total",
		Help: "Records applied to a snapshot, by type, " + otherTypes + " for types unknown to this build. Refolding a session counts its records again.",
	}, []string{"type"})
	p := &Projector{
		applied: make(map[chunk.Type]prometheus.Counter),
		other:   applied.WithLabelValues(otherTypes),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tailrace_snapshot_cas_conflicts_total", Help: "Snapshot saves rejected by compare-and-set.",
		}),
		bytes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tailrace_snapshot_bytes", Help: "Approximate memory of a snapshot when it was saved: the head and the new messages.",
			Buckets: prometheus.ExponentialBuckets(1024, 4, 8),
		}),
		write: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tailrace_snapshot_write_seconds", Help: "Duration of one snapshot save, messages and head.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
	}
	for _, t := range chunk.Types() {
		p.applied[t] = applied.WithLabelValues(string(t))
	}
	reg.MustRegister(applied, p.conflicts, p.bytes, p.write)
	return p
}

// Applied counts a record by its type.
func (p *Projector) Applied(t chunk.Type) {
	if c := p.applied[t]; c != nil {
		c.Inc()
		return
	}
	p.other.Inc()
}

// Saved records the size and the duration of a save.
func (p *Projector) Saved(memory int, took time.Duration) {
	p.bytes.Observe(float64(memory))
	p.write.Observe(took.Seconds())
}

// Conflict counts a save that was rejected by compare-and-set.
func (p *Projector) Conflict() { p.conflicts.Inc() }

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/internal/shares"
	"github.com/tailrace/tailrace/projector"
)

// Shares implements shares.Observer for a projector.
type Shares struct {
	partitions, replicas prometheus.Gauge
}

var _ shares.Observer = (*Shares)(nil)

// NewShares registers the metrics of the share of a projector with reg.
func NewShares(reg prometheus.Registerer) *Shares {
	s := &Shares{
		partitions: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tailrace_projector_partitions", Help: "Partitions of the log that this projector folds. The sum over all projectors is the number of partitions.",
		}),
		replicas: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tailrace_projector_replicas", Help: "Projectors that share the partitions, as far as this one knows; 0 while it has not had a lease.",
		}),
	}
	reg.MustRegister(s.partitions, s.replicas)
	return s
}

// RegisterBudget registers the metric of the memory of the Runners of a projector with reg.
func RegisterBudget(reg prometheus.Registerer, budget *projector.Budget) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tailrace_projector_memory_bytes", Help: "Approximate memory of the sessions of all partitions of this projector, and of records that wait for them.",
	}, func() float64 {
		_, memory := budget.Used()
		return float64(memory)
	}))
}

// Shared sets the share of this projector.
func (s *Shares) Shared(partitions, members int) {
	s.partitions.Set(float64(partitions))
	s.replicas.Set(float64(members))
}

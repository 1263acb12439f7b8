package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// RegisterUsage registers the metric of used tokens with reg. unstored returns the number of those that are not stored yet.
func RegisterUsage(reg prometheus.Registerer, unstored func() int64) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tailrace_usage_unstored_tokens",
		Help: "Used tokens that are not stored yet, so that other workers do not count them towards the budget of their tenant.",
	}, func() float64 { return float64(unstored()) }))
}

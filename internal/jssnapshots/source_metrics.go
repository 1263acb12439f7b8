package jssnapshots

import (
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/internal/jsreader"
)

// SourceMetrics are shared by the Sources of a process. A nil *SourceMetrics counts nothing.
type SourceMetrics struct {
	messages    *prometheus.GaugeVec
	seconds     *prometheus.GaugeVec
	redelivered prometheus.Counter
}

// NewSourceMetrics registers the metrics.
func NewSourceMetrics(reg prometheus.Registerer) (*SourceMetrics, error) {
	m := &SourceMetrics{
		messages: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tailrace_projector_lag_messages",
			Help: "Records that are not in a saved snapshot yet, by partition. All replicas report the same: take the maximum.",
		}, []string{"partition"}),
		seconds: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tailrace_projector_lag_seconds",
			Help: "Age of the oldest of these, 0 if there is none.",
		}, []string{"partition"}),
		redelivered: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tailrace_projector_redelivered_total", Help: "Deliveries that were not the first of their record.",
		}),
	}
	for _, c := range []prometheus.Collector{m.messages, m.seconds, m.redelivered} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return m, nil
}

func (m *SourceMetrics) delivered(e *jsreader.Entry) {
	if m != nil && e.Deliveries > 1 {
		m.redelivered.Inc()
	}
}

func (m *SourceMetrics) lag(partition int, messages uint64, age time.Duration) {
	label := strconv.Itoa(partition)
	m.messages.WithLabelValues(label).Set(float64(messages))
	m.seconds.WithLabelValues(label).Set(age.Seconds())
}

// forget removes the lag of a partition that is not watched any more.
func (m *SourceMetrics) forget(partition int) {
	if m != nil {
		m.messages.DeleteLabelValues(strconv.Itoa(partition))
		m.seconds.DeleteLabelValues(strconv.Itoa(partition))
	}
}

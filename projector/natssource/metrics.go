package natssource

import (
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics is what the Sources of a process tell together. A nil *Metrics is told
// nothing.
type Metrics struct {
	messages    *prometheus.GaugeVec
	seconds     *prometheus.GaugeVec
	redelivered prometheus.Counter
}

// NewMetrics registers them.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		messages: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tailrace_projector_lag_messages",
			Help: "Records that are not in a saved snapshot yet, by partition. All replicas tell the same: take the maximum.",
		}, []string{"partition"}),
		seconds: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tailrace_projector_lag_seconds",
			Help: "Age of the oldest of these, 0 when there is none.",
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

func (m *Metrics) delivered(meta *jetstream.MsgMetadata) {
	if m != nil && meta.NumDelivered > 1 {
		m.redelivered.Inc()
	}
}

func (m *Metrics) lag(partition int, messages uint64, age time.Duration) {
	label := strconv.Itoa(partition)
	m.messages.WithLabelValues(label).Set(float64(messages))
	m.seconds.WithLabelValues(label).Set(age.Seconds())
}

// forget takes back what was said of a partition that is not watched any more.
func (m *Metrics) forget(partition int) {
	if m != nil {
		m.messages.DeleteLabelValues(strconv.Itoa(partition))
		m.seconds.DeleteLabelValues(strconv.Itoa(partition))
	}
}

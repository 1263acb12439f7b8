package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/internal/jssnapshots"
)

// Source implements jssnapshots.SourceObserver. All Sources of a process share one.
type Source struct {
	messages    *prometheus.GaugeVec
	seconds     *prometheus.GaugeVec
	redelivered prometheus.Counter
}

var _ jssnapshots.SourceObserver = (*Source)(nil)

// NewSource registers the metrics of the Sources of a process with reg.
func NewSource(reg prometheus.Registerer) *Source {
	m := &Source{
		messages: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tailrace_projector_lag_messages",
			Help: "Records that are not in a saved snapshot yet, by partition. While a partition moves, two replicas may report it: take the maximum.",
		}, []string{"partition"}),
		seconds: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tailrace_projector_lag_seconds",
			Help: "Age of the oldest of these, 0 if there is none.",
		}, []string{"partition"}),
		redelivered: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tailrace_projector_redelivered_total", Help: "Deliveries that were not the first of their record.",
		}),
	}
	reg.MustRegister(m.messages, m.seconds, m.redelivered)
	return m
}

// Redelivered counts a delivery that was not the first of its record.
func (m *Source) Redelivered() { m.redelivered.Inc() }

// Lag sets the lag of a partition.
func (m *Source) Lag(partition int, records uint64, oldest time.Duration) {
	label := strconv.Itoa(partition)
	m.messages.WithLabelValues(label).Set(float64(records))
	m.seconds.WithLabelValues(label).Set(oldest.Seconds())
}

// LagUnknown removes the lag of a partition.
func (m *Source) LagUnknown(partition int) {
	m.messages.DeleteLabelValues(strconv.Itoa(partition))
	m.seconds.DeleteLabelValues(strconv.Itoa(partition))
}

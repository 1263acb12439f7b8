package export

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count what an Export delivers. The zero Metrics counts nothing.
type Metrics struct {
	lagMessages, lagSeconds *prometheus.GaugeVec
	rows, failures, dead    prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "tailrace_sink_" + name, Help: help}, []string{"partition"})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "tailrace_sink_" + name, Help: help})
	}
	m := &Metrics{
		lagMessages: gauge("lag_messages", "Messages of the partition whose rows are not delivered."),
		lagSeconds:  gauge("lag_seconds", "Age of the oldest record that was read and whose rows are not delivered, otherwise 0."),
		rows:        counter("delivered_rows_total", "Rows that the receiver has accepted."),
		failures:    counter("failed_deliveries_total", "Deliveries that failed, each attempt."),
		dead:        counter("dead_letters_total", "Rows that are not tried again."),
	}
	for _, c := range []prometheus.Collector{m.lagMessages, m.lagSeconds, m.rows, m.failures, m.dead} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) delivered(rows int) {
	if m.rows != nil {
		m.rows.Add(float64(rows))
	}
}

func (m *Metrics) failed() {
	if m.failures != nil {
		m.failures.Inc()
	}
}

func (m *Metrics) deadLetters(rows int) {
	if m.dead != nil {
		m.dead.Add(float64(rows))
	}
}

const lagInterval = 5 * time.Second

// observeLag measures how far the deliveries are behind the log, until ctx ends.
func (x *Export) observeLag(ctx context.Context, parts []*partition) {
	if x.cfg.Metrics.lagMessages == nil {
		return
	}
	tick := time.NewTicker(lagInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		lags, err := x.firehose.Lag(ctx)
		if err != nil {
			continue // the firehose reports it
		}
		for i, lag := range lags {
			label := strconv.Itoa(lag.Partition)
			x.cfg.Metrics.lagMessages.WithLabelValues(label).Set(float64(lag.Waiting + lag.Unacked))
			x.cfg.Metrics.lagSeconds.WithLabelValues(label).Set(parts[i].age().Seconds())
		}
	}
}

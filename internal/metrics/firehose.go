package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/consumers"
)

// Firehose is the lag of a durable firehose, as a process has measured it.
type Firehose struct {
	lag *prometheus.GaugeVec
}

// NewFirehose registers the metrics of a durable firehose of reader with reg.
func NewFirehose(reg prometheus.Registerer, reader *consumers.Reader) (*Firehose, error) {
	f := &Firehose{lag: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "tailrace_firehose_lag_messages", Help: "Messages of a partition that the durable consumer has not acknowledged, whether this process reads them or another one.",
	}, []string{"partition"})}
	return f, register(reg, f.lag, prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "tailrace_firehose_gaps_total", Help: "Ranges of records that retention had removed or a server had lost before the firehose read them.",
	}, func() float64 { return float64(reader.Stats().Gaps) }))
}

// Measured sets the lag by partition.
func (f *Firehose) Measured(lags []consumers.PartitionLag) {
	for _, l := range lags {
		f.lag.WithLabelValues(strconv.Itoa(l.Partition)).Set(float64(l.Waiting + l.Unacked))
	}
}

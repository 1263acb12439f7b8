package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/consumers"
)

// RegisterFirehose registers the metrics of a durable firehose of reader with reg. measured sets the lag by partition, as a process has measured it.
func RegisterFirehose(reg prometheus.Registerer, reader *consumers.Reader) (measured func([]consumers.PartitionLag)) {
	lag := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "tailrace_firehose_lag_messages", Help: "Messages of a partition that the durable consumer has not acknowledged, whether this process reads them or another one.",
	}, []string{"partition"})
	reg.MustRegister(lag, prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "tailrace_firehose_gaps_total", Help: "Ranges of records that retention had removed or a server had lost before the firehose read them.",
	}, func() float64 { return float64(reader.Stats().Gaps) }))
	return func(lags []consumers.PartitionLag) {
		for _, l := range lags {
			lag.WithLabelValues(strconv.Itoa(l.Partition)).Set(float64(l.Waiting + l.Unacked))
		}
	}
}

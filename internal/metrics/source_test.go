package metrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tailrace/tailrace/internal/metrics"
)

// TestSource checks names, labels and values, and that a partition without a Source has no lag.
func TestSource(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := metrics.NewSource(reg)
	s.Redelivered()
	s.Redelivered()
	s.Lag(0, 7, 1500*time.Millisecond)
	s.Lag(3, 8, time.Second)
	s.Lag(3, 0, 0)
	s.Lag(4, 9, time.Second)
	s.LagUnknown(4)
	s.LagUnknown(5)
	const want = `
# HELP tailrace_projector_lag_messages Records that are not in a saved snapshot yet, by partition. While a partition moves, two replicas may report it: take the maximum.
# TYPE tailrace_projector_lag_messages gauge
tailrace_projector_lag_messages{partition="0"} 7
tailrace_projector_lag_messages{partition="3"} 0
# HELP tailrace_projector_lag_seconds Age of the oldest of these, 0 if there is none.
# TYPE tailrace_projector_lag_seconds gauge
tailrace_projector_lag_seconds{partition="0"} 1.5
tailrace_projector_lag_seconds{partition="3"} 0
# HELP tailrace_projector_redelivered_total Deliveries that were not the first of their record.
# TYPE tailrace_projector_redelivered_total counter
tailrace_projector_redelivered_total 2
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

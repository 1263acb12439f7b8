package metrics_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tailrace/tailrace/internal/metrics"
)

// TestExpired checks that the counter exists from the beginning.
func TestExpired(t *testing.T) {
	reg := prometheus.NewRegistry()
	e := metrics.RegisterExpired(reg)
	for _, want := range []string{"0", "1"} {
		text := `
# HELP tailrace_sessions_expired_total Sessions removed because they had no record for longer than the maximum age of snapshots.
# TYPE tailrace_sessions_expired_total counter
tailrace_sessions_expired_total ` + want + "\n"
		if err := testutil.GatherAndCompare(reg, strings.NewReader(text)); err != nil {
			t.Error(err)
		}
		e.Inc()
	}
}

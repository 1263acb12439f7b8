package metrics_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tailrace/tailrace/internal/metrics"
	"github.com/tailrace/tailrace/workers"
)

// TestRuns checks that every reason has a series from the beginning.
func TestRuns(t *testing.T) {
	reg := prometheus.NewRegistry()
	ended := metrics.RegisterRuns(reg)
	ended(workers.ReasonExpired)
	want := `
# HELP tailrace_runs_ended_without_worker_total Runs ended without a worker, by reason: stopped (by a user, before a worker has started it), owner (active without a command and without records) or expired (not started before its command expires).
# TYPE tailrace_runs_ended_without_worker_total counter
tailrace_runs_ended_without_worker_total{reason="expired"} 1
tailrace_runs_ended_without_worker_total{reason="owner"} 0
tailrace_runs_ended_without_worker_total{reason="stopped"} 0
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

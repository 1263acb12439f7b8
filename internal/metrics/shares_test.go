package metrics_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tailrace/tailrace/internal/metrics"
	"github.com/tailrace/tailrace/internal/projector"
)

func TestShares(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := metrics.NewShares(reg)
	s.Shared(16, 1)
	s.Shared(6, 3)
	const want = `
# HELP tailrace_projector_partitions Partitions of the log that this projector folds. The sum over all projectors is the number of partitions.
# TYPE tailrace_projector_partitions gauge
tailrace_projector_partitions 6
# HELP tailrace_projector_replicas Projectors that share the partitions, as far as this one knows; 0 while it has not had a lease.
# TYPE tailrace_projector_replicas gauge
tailrace_projector_replicas 3
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestRegisterBudget(t *testing.T) {
	reg := prometheus.NewRegistry()
	budget, err := projector.NewBudget(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	metrics.RegisterBudget(reg, budget)
	const want = `
# HELP tailrace_projector_memory_bytes Approximate memory of the sessions of all partitions of this projector, and of records that wait for them.
# TYPE tailrace_projector_memory_bytes gauge
tailrace_projector_memory_bytes 0
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

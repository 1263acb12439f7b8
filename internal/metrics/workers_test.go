package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tailrace/tailrace/workers"
)

func TestWorkers(t *testing.T) {
	reg := prometheus.NewRegistry()
	w := NewWorkers(reg, "support")
	w.CommandStarted("support", 20*time.Millisecond)
	w.CommandStarted("support", time.Second)
	w.CommandEnded("support", workers.CommandReturned, time.Second)
	want := `
# HELP tailrace_worker_commands_in_progress Commands that this process handles, by agent type.
# TYPE tailrace_worker_commands_in_progress gauge
tailrace_worker_commands_in_progress{agent_type="support"} 1
# HELP tailrace_worker_commands_total Commands that this process has handled, by agent type and result: done, failed (repeated after a delay), fenced (another worker has taken the run over) or returned (the process shuts down).
# TYPE tailrace_worker_commands_total counter
tailrace_worker_commands_total{agent_type="support",result="done"} 0
tailrace_worker_commands_total{agent_type="support",result="failed"} 0
tailrace_worker_commands_total{agent_type="support",result="fenced"} 0
tailrace_worker_commands_total{agent_type="support",result="returned"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "tailrace_worker_commands_in_progress", "tailrace_worker_commands_total"); err != nil {
		t.Error(err)
	}
}

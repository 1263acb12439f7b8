package metrics_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tailrace/tailrace/internal/metrics"
	"github.com/tailrace/tailrace/internal/retention"
)

// TestDeadLetters checks that every reason has a series from the beginning.
func TestDeadLetters(t *testing.T) {
	reg := prometheus.NewRegistry()
	added := metrics.RegisterDeadLetters(reg)
	added(retention.ReasonEnvelope)
	added(retention.ReasonEnvelope)
	added(retention.ReasonSubject)
	want := `
# HELP tailrace_projector_dead_letters_total Messages stored as dead letters, by reason: record (cannot be folded), envelope (not a record) or subject (not a subject of a session).
# TYPE tailrace_projector_dead_letters_total counter
tailrace_projector_dead_letters_total{reason="envelope"} 2
tailrace_projector_dead_letters_total{reason="record"} 0
tailrace_projector_dead_letters_total{reason="subject"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

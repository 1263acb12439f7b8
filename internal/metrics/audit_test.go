package metrics_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tailrace/tailrace/internal/metrics"
)

func TestAudit(t *testing.T) {
	reg := prometheus.NewRegistry()
	stored, lost := metrics.RegisterAudit(reg, func() int { return 3 })
	stored.Inc()
	stored.Inc()
	lost.Inc()
	want := `
# HELP tailrace_audit_queued_events Events of the audit log that are not stored yet.
# TYPE tailrace_audit_queued_events gauge
tailrace_audit_queued_events 3
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "tailrace_audit_queued_events"); err != nil {
		t.Error(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				got[l.GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	if got["stored"] != 2 || got["lost"] != 1 {
		t.Errorf("events: %v", got)
	}
}

package metrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/metrics"
)

// TestProjector checks names, labels and values.
func TestProjector(t *testing.T) {
	reg := prometheus.NewRegistry()
	p := metrics.NewProjector(reg)
	// Every known type has a series from the beginning, the unknown ones share one.
	if got, want := testutil.CollectAndCount(reg, "tailrace_projector_applied_total"), len(chunk.Types())+1; got != want {
		t.Errorf("%d series of applied records, want %d", got, want)
	}
	p.Applied(chunk.TypeTextDelta)
	p.Applied(chunk.TypeTextDelta)
	p.Applied("unknown_a")
	p.Applied("unknown_b")
	p.Conflict()
	p.Saved(2000, 20*time.Millisecond)
	p.Saved(100, 3*time.Second)
	if got, want := testutil.CollectAndCount(reg, "tailrace_projector_applied_total"), len(chunk.Types())+1; got != want {
		t.Errorf("%d series after records of unknown types, want %d", got, want)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			name := f.GetName() + "{" + strings.Join(labels, ",") + "}"
			got[name] = m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	for name, want := range map[string]float64{
		"tailrace_projector_applied_total{type=text_delta}": 2,
		"tailrace_projector_applied_total{type=other}":      2,
		"tailrace_snapshot_cas_conflicts_total{}":           1,
		"tailrace_snapshot_bytes{}":                         2100,
		"tailrace_snapshot_write_seconds{}":                 3.02,
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %v, want %v", name, value, want)
		}
	}
}

// TestTwice checks that a second registration panics: a process has each metric once.
func TestTwice(t *testing.T) {
	reg := prometheus.NewRegistry()
	metrics.NewProjector(reg)
	defer func() {
		if recover() == nil {
			t.Error("registered twice")
		}
	}()
	metrics.NewProjector(reg)
}

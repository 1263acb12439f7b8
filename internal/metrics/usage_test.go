package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestUsage(t *testing.T) {
	reg := prometheus.NewRegistry()
	tokens := func() int64 { return 1200 }
	RegisterUsage(reg, tokens)
	want := `
# HELP tailrace_usage_unstored_tokens Used tokens that are not stored yet, so that other workers do not count them towards the budget of their tenant.
# TYPE tailrace_usage_unstored_tokens gauge
tailrace_usage_unstored_tokens 1200
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

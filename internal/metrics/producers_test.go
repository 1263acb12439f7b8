package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tailrace/tailrace/producers"
)

func TestProducers(t *testing.T) {
	reg := prometheus.NewRegistry()
	published := RegisterProducers(reg)
	published(producers.OutcomeStored, time.Millisecond, 1)
	published(producers.OutcomeStored, time.Second, 3)
	published(producers.OutcomeFenced, time.Second, 1)
	want := `
# HELP tailrace_publish_retries_total Attempts to publish a record after the first one.
# TYPE tailrace_publish_retries_total counter
tailrace_publish_retries_total 2
# HELP tailrace_publish_total Records that this process has published, by outcome: stored, fenced (another writer has the session), refused (not stored) or unknown (it may be stored).
# TYPE tailrace_publish_total counter
tailrace_publish_total{outcome="fenced"} 1
tailrace_publish_total{outcome="refused"} 0
tailrace_publish_total{outcome="stored"} 2
tailrace_publish_total{outcome="unknown"} 0
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "tailrace_publish_total", "tailrace_publish_retries_total"); err != nil {
		t.Error(err)
	}
}

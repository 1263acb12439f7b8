package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/producers"
)

// RegisterProducers registers the metrics of the records that a process publishes with reg. published counts one, for producers.Config.Observe of all producers of
// the process.
func RegisterProducers(reg prometheus.Registerer) (published func(outcome producers.Outcome, took time.Duration, attempts int)) {
	all := []producers.Outcome{producers.OutcomeStored, producers.OutcomeFenced, producers.OutcomeRefused, producers.OutcomeUnknown}
	total := httpkit.Counters("publish_total", "outcome",
		"Records that this process has published, by outcome: stored, fenced (another writer has the session), refused (not stored) or unknown (it may be stored).", all)
	seconds := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "tailrace_publish_seconds", Help: "Time from the first attempt to publish a record to its outcome.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	})
	retries := httpkit.Counter("publish_retries_total", "Attempts to publish a record after the first one.")
	outcomes := map[producers.Outcome]prometheus.Counter{}
	for _, outcome := range all {
		outcomes[outcome] = total.WithLabelValues(string(outcome))
	}
	reg.MustRegister(total, seconds, retries)
	return func(outcome producers.Outcome, took time.Duration, attempts int) {
		outcomes[outcome].Inc()
		seconds.Observe(took.Seconds())
		if attempts > 1 {
			retries.Add(float64(attempts - 1))
		}
	}
}

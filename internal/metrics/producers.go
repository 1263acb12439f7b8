package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/producers"
)

// Producers implements producers.Observer. All producers of a process share one.
type Producers struct {
	outcomes map[producers.Outcome]prometheus.Counter
	took     prometheus.Histogram
	retries  prometheus.Counter
}

var _ producers.Observer = (*Producers)(nil)

// NewProducers registers the metrics of the records that a process publishes with reg.
func NewProducers(reg prometheus.Registerer) *Producers {
	total := httpkit.Counters("publish_total", "outcome",
		"Records that this process has published, by outcome: stored, fenced (another writer has the session), refused (not stored) or unknown (it may be stored).", producers.Outcomes())
	p := &Producers{
		outcomes: map[producers.Outcome]prometheus.Counter{},
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tailrace_publish_seconds", Help: "Time from the first attempt to publish a record to its outcome.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
		retries: httpkit.Counter("publish_retries_total", "Attempts to publish a record after the first one."),
	}
	for _, outcome := range producers.Outcomes() {
		p.outcomes[outcome] = total.WithLabelValues(string(outcome))
	}
	reg.MustRegister(total, p.took, p.retries)
	return p
}

// Published counts the outcome of a record.
func (p *Producers) Published(outcome producers.Outcome, took time.Duration, attempts int) {
	p.outcomes[outcome].Inc()
	p.took.Observe(took.Seconds())
	if attempts > 1 {
		p.retries.Add(float64(attempts - 1))
	}
}

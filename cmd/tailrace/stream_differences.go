package main

import (
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/internal/topology"
)

// streamDifferences reports how the streams differ from the settings: each limit that is stricter than asked once in the log, and the number of differences
// of each class as a metric.
type streamDifferences struct {
	log   *slog.Logger
	count *prometheus.GaugeVec

	mu     sync.Mutex
	logged map[string]bool // lines of the last comparison
}

func newStreamDifferences(registry prometheus.Registerer, log *slog.Logger) *streamDifferences {
	d := &streamDifferences{log: log, count: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "tailrace_stream_differences", Help: "Settings in which streams and buckets differ from the required ones, by class: breaks, stricter or accepted.",
	}, []string{"class"})}
	registry.MustRegister(d.count)
	return d
}

// observe is topology.Config.OnDifferences.
func (d *streamDifferences) observe(diffs []topology.Difference) {
	d.mu.Lock()
	defer d.mu.Unlock()
	count, lines := map[topology.Class]float64{}, map[string]bool{}
	for _, diff := range diffs {
		count[diff.Class]++
		line := diff.String()
		lines[line] = true
		if diff.Class == topology.Stricter && !d.logged[line] {
			d.log.Warn("stream limit stricter than asked", "stream", diff.Stream, "setting", diff.Setting, "got", diff.Got, "want", diff.Want)
		}
	}
	d.logged = lines
	for _, class := range []topology.Class{topology.Accepted, topology.Stricter, topology.Breaks} {
		d.count.WithLabelValues(class.String()).Set(count[class])
	}
}

// topology returns the configuration of the streams, whose differences are reported.
func (b *app) topology() topology.Config {
	cfg := b.cfg.topology()
	if b.createsStreams {
		cfg = b.cfg.newStreams()
	}
	cfg.OnDifferences, cfg.OnInfo = b.differences.observe, b.streamStates.observe
	return cfg
}

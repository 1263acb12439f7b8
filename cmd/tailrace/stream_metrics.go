package main

import (
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
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

// streamStates exports the size of each stream, its limit, and the age of its first message, as the probe of the streams finds them. All processes report the same, at most
// 15 seconds old.
type streamStates struct {
	messages, bytes, limit, age *prometheus.GaugeVec
}

func newStreamStates(registry prometheus.Registerer) *streamStates {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help + " All processes report the same: take the maximum."}, []string{"stream"})
	}
	s := &streamStates{
		messages: gauge("tailrace_stream_messages", "Messages in a stream or bucket: of the queue, commands that wait and those whose run is in progress."),
		bytes:    gauge("tailrace_stream_bytes", "Size of a stream or bucket, of one replica."),
		limit:    gauge("tailrace_stream_limit_bytes", "Maximum size of a stream or bucket that has one."),
		age:      gauge("tailrace_stream_first_age_seconds", "Age of the first message of a stream or bucket, 0 without messages: of the queue, the oldest command."),
	}
	registry.MustRegister(s.messages, s.bytes, s.limit, s.age)
	return s
}

// observe is topology.Config.OnInfo.
func (s *streamStates) observe(info *jetstream.StreamInfo) {
	name, age := info.Config.Name, 0.0
	if info.State.Msgs > 0 {
		age = max(0, info.TimeStamp.Sub(info.State.FirstTime).Seconds()) // both by the clock of the server
	}
	s.messages.WithLabelValues(name).Set(float64(info.State.Msgs))
	s.bytes.WithLabelValues(name).Set(float64(info.State.Bytes))
	s.age.WithLabelValues(name).Set(age)
	if limit := info.Config.MaxBytes; limit > 0 {
		s.limit.WithLabelValues(name).Set(float64(limit))
	} else {
		s.limit.DeleteLabelValues(name)
	}
}

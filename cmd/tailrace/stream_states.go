package main

import (
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
)

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

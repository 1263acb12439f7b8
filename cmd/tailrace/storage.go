package main

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/canary"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/topology"
)

// newCanary returns the watcher of the storage of all streams, with a metric.
func (b *app) newCanary() *canary.Canary {
	cfg := canary.Config{Log: b.log}
	streams, err := topology.Streams(b.cfg.topology())
	if err != nil {
		b.log.Debug("storage not watched", "error", err) // the settings are invalid: the check of the streams returns the error
	}
	for _, s := range streams {
		cfg.Streams = append(cfg.Streams, canary.Stream{Name: s.Name, Filter: s.Subjects[0], OnlySpace: !b.mayPurge(s.Name)})
	}
	writable := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "tailrace_stream_writable", Help: "1 while the NATS server stores messages of the stream, 0 while it does not; missing while that is unknown.",
	}, []string{"stream"})
	b.metrics.MustRegister(writable)
	cfg.OnChange = func(s canary.Status) {
		switch s.State {
		case canary.OK:
			writable.WithLabelValues(s.Stream).Set(1)
		case canary.Full, canary.WriteError:
			writable.WithLabelValues(s.Stream).Set(0)
		case canary.Unknown:
			writable.DeleteLabelValues(s.Stream)
		}
	}
	return canary.New(jsclient.New(b.js), cfg)
}

// mayPurge reports whether the process may ask about write errors of a stream: with credentials, if its role has the right by the permissions of natsauth.
func (b *app) mayPurge(stream string) bool {
	if b.cfg.NATSCreds == "" && b.cfg.NATSNkey == "" {
		return true
	}
	names, err := natsauth.PurgedStreams(b.role, b.cfg.natsAuth())
	return err == nil && slices.Contains(names, stream)
}

// storage returns why nothing can be stored for a session: for its log, its commands or its answers.
func (b *app) storage(s chunk.Session) error {
	layout := b.cfg.layout()
	return b.canary.Err(layout.Stream(layout.Partition(s)), names.Layout(layout).CommandStream(), "KV_"+names.Layout(layout).Inbox())
}

package main

import (
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/internal/httpkit"
)

// natsErrors counts asynchronous NATS errors. A publish without permission is
// only reported this way; its sender gets a timeout.
type natsErrors struct{ kinds *prometheus.CounterVec }

func newNATSErrors(registry prometheus.Registerer) natsErrors {
	e := natsErrors{httpkit.Counters("nats_async_errors_total", "kind", "Asynchronous NATS errors, by kind: slow_consumer, permission, auth, consumer or other.",
		[]string{kindSlow, kindPermission, kindAuth, kindConsumer, kindOther})}
	registry.MustRegister(e.kinds)
	return e
}

func (e natsErrors) increment(err error) { e.kinds.WithLabelValues(errorKind(err)).Inc() }

const (
	kindSlow       = "slow_consumer"
	kindPermission = "permission"
	kindAuth       = "auth"
	kindConsumer   = "consumer"
	kindOther      = "other"
)

func errorKind(err error) string {
	for _, k := range []struct {
		kind    string
		targets []error
	}{
		{kindSlow, []error{nats.ErrSlowConsumer}},
		{kindPermission, []error{nats.ErrPermissionViolation}},
		{kindAuth, []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired}},
		{kindConsumer, []error{
			jetstream.ErrNoHeartbeat, jetstream.ErrConsumerDeleted, jetstream.ErrConsumerNotFound, jetstream.ErrConsumerLeadershipChanged, jetstream.ErrOrderedConsumerReset,
		}},
	} {
		for _, target := range k.targets {
			if errors.Is(err, target) {
				return k.kind
			}
		}
	}
	return kindOther
}

// registerNATS registers the metrics of the connection.
func registerNATS(registry prometheus.Registerer, nc *nats.Conn) {
	registry.MustRegister(
		httpkit.Gauge("nats_up", "1 while there is a connection to NATS, else 0.", func() float64 {
			if nc.IsConnected() {
				return 1
			}
			return 0
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "tailrace_nats_reconnects_total", Help: "NATS reconnects.",
		}, func() float64 { return float64(nc.Stats().Reconnects) }),
	)
}

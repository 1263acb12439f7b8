package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/topology"
)

// backbone is the connection to NATS with everything a role needs from it.
type backbone struct {
	nc  *nats.Conn
	js  jetstream.JetStream
	cfg config
	log *slog.Logger

	metrics *prometheus.Registry // of the whole process
}

// connect opens the connection. It does not wait for the server: a role starts,
// says that NATS is away, and works as soon as it is there.
func connect(cfg config, log *slog.Logger, extra ...nats.Option) (*backbone, error) {
	metrics := newMetrics()
	opts := append(natsOptions(cfg, log, newNATSErrors(metrics)), extra...)
	nc, err := nats.Connect(cfg.natsURL(), opts...)
	if err != nil {
		return nil, fmt.Errorf("nats %s: %w", cfg.natsURL(), err)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(5*time.Second))
	if err != nil {
		nc.Close()
		return nil, err
	}
	registerNATS(metrics, nc)
	return &backbone{nc: nc, js: js, cfg: cfg, log: log, metrics: metrics}, nil
}

func (c config) natsURL() string {
	if c.NATSURL != "" {
		return c.NATSURL
	}
	return fmt.Sprintf("nats://127.0.0.1:%d", c.NATSPort)
}

// natsOptions make a dead server noticed within ten seconds and a live one
// found within a fraction of one, for ever.
func natsOptions(cfg config, log *slog.Logger, errs natsErrors) []nats.Option {
	opts := []nats.Option{
		nats.Name("tailrace"),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 200*time.Millisecond),
		nats.PingInterval(3 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.ConnectHandler(func(nc *nats.Conn) { log.Debug("nats connected", "server", nc.ConnectedUrlRedacted()) }),
		nats.ReconnectHandler(func(nc *nats.Conn) { log.Info("nats is back", "server", nc.ConnectedUrlRedacted()) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("nats is away, trying again", "err", err)
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			errs.count(err)
			log.Warn("nats", "err", err)
		}),
	}
	if cfg.NATSCreds != "" {
		opts = append(opts, nats.UserCredentials(cfg.NATSCreds))
	}
	if cfg.NATSCA != "" {
		opts = append(opts, nats.RootCAs(cfg.NATSCA))
	}
	if cfg.NATSCert != "" {
		opts = append(opts, nats.ClientCert(cfg.NATSCert, cfg.NATSKey))
	}
	return opts
}

// topologyConfig is what the streams and buckets must look like.
func (b *backbone) topologyConfig() topology.Config {
	return topology.Config{
		Layout: b.cfg.layout(), Replicas: b.cfg.Replicas, MaxAge: b.cfg.MaxAge,
		DeadLetterMaxAge: b.cfg.DeadLetterMaxAge, DeadLetterMaxBytes: b.cfg.DeadLetterMaxBytes,
	}
}

// ensureTopology creates and checks the streams. While the server is away it
// tries again; a stream that differs ends the process with the difference.
func (b *backbone) ensureTopology(ctx context.Context) error {
	return b.untilThere(ctx, "streams", func(ctx context.Context) error {
		return topology.Ensure(ctx, b.js, b.topologyConfig())
	})
}

// keepStreams makes again what somebody deletes while we run, until ctx ends. A
// stream that differs by now is for a person: it is said, once for each difference.
func (b *backbone) keepStreams(ctx context.Context) error {
	for said := ""; ; {
		if err := pause(ctx, 5*time.Second); err != nil {
			return err
		}
		err := b.ensureTopology(ctx)
		if err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			b.log.Error("the streams are not as they should be", "err", err)
		}
	}
}

// untilThere repeats what fails only because the server is away or has no
// leader yet, at most once a second, and says so once.
func (b *backbone) untilThere(ctx context.Context, what string, do func(context.Context) error) error {
	for said := false; ; {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := do(attempt)
		cancel()
		if err == nil || ctx.Err() != nil || !away(err) {
			return err
		}
		if !said {
			b.log.Warn("waiting for nats", "for", what, "server", b.cfg.natsURL(), "err", err)
			said = true
		}
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
}

// away reports whether err says that the server could not be asked.
func away(err error) bool {
	for _, target := range []error{
		nats.ErrNoServers, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, nats.ErrConnectionReconnecting,
		nats.ErrReconnectBufExceeded, context.DeadlineExceeded, jetstream.ErrNoStreamResponse,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	var api *jetstream.APIError
	return errors.As(err, &api) && api.Code == 503
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ready is the check behind /readyz.
func (b *backbone) ready(ctx context.Context) error {
	if !b.nc.IsConnected() {
		return errors.New("nats is away")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := topology.Verify(ctx, b.js, b.topologyConfig()); err != nil {
		return fmt.Errorf("streams: %w", err)
	}
	return nil
}

func (b *backbone) close() { b.nc.Close() }

// verifyTopology checks the streams without creating any: a reader of somebody
// else's system changes nothing there.
func (b *backbone) verifyTopology(ctx context.Context) error {
	return b.untilThere(ctx, "streams", func(ctx context.Context) error {
		return topology.Verify(ctx, b.js, b.topologyConfig())
	})
}

// historyReader is reader for who serves others: it takes archives if there are any.
func (b *backbone) historyReader() (*consumers.Reader, error) {
	return consumers.New(b.nc, b.js, consumers.Config{Layout: b.cfg.layout(), Log: b.log, Archives: b.cfg.ArchiveAfter > 0})
}

func (b *backbone) reader() (*consumers.Reader, error) {
	return consumers.New(b.nc, b.js, consumers.Config{Layout: b.cfg.layout(), Log: b.log})
}

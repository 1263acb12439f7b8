package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/sink/export"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/otlp"
	"github.com/tailrace/tailrace/sink/webhook"
	"github.com/tailrace/tailrace/subjects"
)

// Receivers that keep no position.
const (
	kindOTLP    = "otlp"
	kindWebhook = "webhook"
)

// receiver returns the kind of the receiver that TO names, "" for a store.
func (c config) receiver() string {
	for _, kind := range []string{kindOTLP, kindWebhook} {
		if strings.HasPrefix(c.To, kind+"+http://") || strings.HasPrefix(c.To, kind+"+https://") {
			return kind
		}
	}
	return ""
}

// withDefaults returns the settings with those that depend on TO.
func (c config) withDefaults() config {
	if kind := c.receiver(); kind != "" {
		c.Name, c.View = cmp.Or(c.Name, kind), cmp.Or(c.View, view.None)
	}
	c.Name, c.View = cmp.Or(c.Name, "default"), cmp.Or(c.View, view.Analytics)
	return c
}

// export delivers to a receiver until ctx ends.
func (c config) export(ctx context.Context, errs io.Writer) error {
	log := c.logger(errs)
	observed, err := c.observe()
	if err != nil {
		return usageError{err}
	}
	observed.Deltas = false // receivers get no events
	reg := prometheus.NewRegistry()
	cfg, to, err := c.exportTo(reg, log)
	if err != nil {
		return usageError{err}
	}
	if c.DeadLetters != "" {
		if cfg.DeadLetters, err = export.OpenDeadLetters(c.DeadLetters); err != nil {
			return usageError{err}
		}
		defer cfg.DeadLetters.Close() //nolint:errcheck // each line is on the disk
	}
	return c.withLog(ctx, errs, func(ctx context.Context, js jetstream.JetStream, layout subjects.Layout) error {
		cfg.Layout = layout
		return c.deliver(ctx, js, cfg, observed, to, reg, log)
	})
}

// deliver sends the log to a receiver.
func (c config) deliver(ctx context.Context, js jetstream.JetStream, cfg export.Config, observed observe.Config, to string, reg *prometheus.Registry, log *slog.Logger) (err error) {
	if cfg.Metrics, err = export.NewMetrics(reg); err != nil {
		return err
	}
	observed.Memory = max(1<<20, c.Memory/cfg.Layout.Partitions)
	debug.SetMemoryLimit(int64(c.Memory) + exportMemory)
	cfg.Name, cfg.Tenant, cfg.FromNow, cfg.NoFollow, cfg.Observe, cfg.GiveUp, cfg.Log = c.Name, c.Tenant, c.From == "now", c.noFollow, observed, c.GiveUp, log
	x, err := export.New(js, cfg)
	if err != nil {
		return usageError{err}
	}
	log.Info("sink started", slog.String("to", to), slog.String("name", c.Name), slog.String("view", c.View), slog.Int("partitions", cfg.Layout.Partitions))
	services, running := errgroup.WithContext(ctx)
	ended, end := context.WithCancel(running)
	services.Go(func() error { return c.serveOps(ended, reg, log) })
	services.Go(func() error {
		defer end()
		return x.Run(running)
	})
	return services.Wait()
}

// exportMemory is what an export needs besides the state of sessions: the rows that wait, and requests.
const exportMemory = 192 << 20

// exportTo returns the Config with the receiver, and its scheme and host, which is all that the log shows: a path may have a secret.
func (c config) exportTo(reg prometheus.Registerer, log *slog.Logger) (cfg export.Config, to string, err error) {
	at, err := url.Parse(c.To)
	if err != nil {
		return cfg, "", errors.New("to: invalid URL")
	}
	to = at.Scheme + "://" + at.Host
	if c.receiver() == kindOTLP {
		client, err := otlp.New(at, os.Getenv("OTEL_EXPORTER_OTLP_HEADERS"), reg, log)
		if err != nil {
			return cfg, to, fmt.Errorf("to: %w", err)
		}
		return export.Config{Select: otlp.Select, Deliver: client.Deliver, Batch: otlp.MaxSpans, Every: otlp.MaxDelay}, to, nil
	}
	secrets, err := webhook.ReadSecrets(string(c.Secret))
	if err != nil {
		return cfg, to, err
	}
	client, err := webhook.New(at, secrets, c.Private)
	if err != nil {
		return cfg, to, fmt.Errorf("to: %w", err)
	}
	return export.Config{Select: webhook.Select, Deliver: client.Deliver, Lanes: webhook.Lanes, Refusals: webhook.Refusals}, to, nil
}

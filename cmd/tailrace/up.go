package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/internal/embed"
)

// runUp is the whole house in one process. With TAILRACE_NATS_URL it uses that
// server, else one of its own.
func runUp(ctx context.Context, t terminal, args []string) error {
	cfg, rest, err := arguments(t, "up", args, nil)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usageError{errors.New("want no arguments")}
	}
	log := cfg.logger(t.err)
	var options []nats.Option
	if cfg.NATSURL == "" {
		server, err := embed.Start(ctx, embed.Config{
			StoreDir: filepath.Join(cfg.DataDir, "nats"), Port: cfg.NATSPort, SyncInterval: cfg.SyncInterval, SyncAlways: cfg.SyncAlways, Log: log,
		})
		if err != nil {
			return err
		}
		defer func() {
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			if err := server.Shutdown(ending); err != nil {
				log.Warn("nats server", "err", err)
			}
		}()
		options = append(options, server.InProcess())
	}
	b, err := connect(cfg, log, options...)
	if err != nil {
		return err
	}
	defer b.close()
	return b.up(ctx, t)
}

func (b *backbone) up(ctx context.Context, t terminal) error {
	var routes []route
	services := []func(context.Context) error{b.project}
	if b.cfg.hasModel() {
		agents, err := b.newModelAgents()
		if err != nil {
			return err
		}
		services = append(services, agents.run)
	} else if b.cfg.Demo {
		demo, err := b.newDemo()
		if err != nil {
			return err
		}
		routes = append(routes, demo.route())
		services = append(services, demo.run)
	}
	front, err := b.newFront(ctx, routes...)
	if err != nil {
		return err
	}
	services = append(services, front.run)
	fmt.Fprintf(t.out, "\n  Tailrace is running: %s\n\n", front.url())
	fmt.Fprintf(t.err, "nats: %s   data: %s   stop: Ctrl-C\n", b.cfg.natsURL(), b.dataText())
	return b.withStreams(ctx, services...)
}

func (b *backbone) dataText() string {
	if b.cfg.NATSURL != "" {
		return "on that server"
	}
	return b.cfg.DataDir
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/roles"
	"github.com/tailrace/tailrace/producers"
)

// role is one service. It runs until ctx ends and tolerates an unavailable NATS server.
type role func(ctx context.Context, b *app) error

// runRole runs one role as a separate process.
func runRole(ctx context.Context, t terminal, name natsauth.Role, args []string, work role) error {
	cfg, err := flagsOnly(t, string(name), args, nil)
	if err != nil {
		return err
	}
	b, err := connect(name, cfg, cfg.logger(t.err))
	if err != nil {
		return err
	}
	defer b.close()
	stopTracing, err := b.startTracing(ctx)
	if err != nil {
		return err
	}
	defer stopTracing()
	return ignoreCanceled(ctx, work(ctx, b))
}

// ignoreCanceled ignores the error of a canceled context.
func ignoreCanceled(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// withStreams checks the streams, or creates the missing ones too, and runs the services. While NATS is unavailable the services start anyway and retry. Streams with another configuration end the
// process, at the start or when NATS becomes available.
func (b *app) withStreams(ctx context.Context, services ...func(context.Context) error) error {
	if err := b.watchDependencies(); err != nil {
		return err
	}
	err := nats.ErrNoServers // connect has tried all of them
	if b.nc.IsConnected() {
		first, cancel := context.WithTimeout(ctx, 2*time.Second)
		err = b.ensureTopologyOnce(first)
		cancel()
	}
	if err != nil && !roles.IsUnavailable(err) {
		return err
	}
	b.conditions.streams.Store(err == nil)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err != nil {
			b.logUnavailable(err)
			if err := roles.Wait(ctx, b.ensureTopologyOnce, func(error) {}); err != nil {
				return ignoreCanceled(ctx, err)
			}
			b.conditions.streams.Store(true)
		}
		return ignoreCanceled(ctx, b.canary.Run(ctx)) // it relies on a server that is not too old
	})
	group.Go(func() error { return b.monitor.Run(ctx) })
	group.Go(func() error { b.wakeMonitor(ctx); return nil })
	group.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-b.closed:
			return fmt.Errorf("nats connection closed: %w", cmp.Or(b.nc.LastError(), nats.ErrConnectionClosed))
		}
	})
	for _, service := range services {
		group.Go(func() error { return ignoreCanceled(ctx, service(ctx)) })
	}
	return group.Wait()
}

// producerConfig returns the settings of producers.
func (c config) producerConfig() producers.Config {
	return producers.Config{Pace: cmp.Or(c.Pace, producers.Off), Format: codec.Format(c.Format), MaxSessionChunks: int64(c.limits.Session.Chunks), MaxSessionBytes: int64(c.limits.Session.Bytes)}
}

func runProjector(ctx context.Context, t terminal, args []string) error {
	return runRole(ctx, t, natsauth.Projector, args, func(ctx context.Context, b *app) error {
		ops, err := b.newOps(ctx)
		if err != nil {
			return err
		}
		b.withProjector()
		ops.assemble(b)
		return b.withStreams(ctx, b.project, ops.runUntil)
	})
}

// project runs the projector until ctx ends.
func (b *app) project(ctx context.Context) error {
	return b.Project(ctx, func() { b.conditions.projector.Store(true) })
}

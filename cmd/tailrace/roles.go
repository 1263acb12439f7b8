package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
)

// role is one service of the house. It works until ctx ends, and outlives an
// absent NATS server.
type role func(ctx context.Context, b *backbone) error

// runRole runs one role as a process of its own.
func runRole(ctx context.Context, t terminal, name string, args []string, work role) error {
	cfg, rest, err := arguments(t, name, args, nil)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usageError{errors.New("want no arguments")}
	}
	b, err := connect(cfg, cfg.logger(t.err))
	if err != nil {
		return err
	}
	defer b.close()
	return goodEnd(ctx, work(ctx, b))
}

// goodEnd forgets the error of a context that was ended on purpose.
func goodEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// withStreams makes and checks the streams, then runs the services. While NATS
// is away the services start without: they wait by themselves, and say that they
// are not ready. Streams that differ from the configuration end the process,
// now or when NATS is there.
func (b *backbone) withStreams(ctx context.Context, services ...func(context.Context) error) error {
	first, cancel := context.WithTimeout(ctx, 2*time.Second)
	err := topology.Ensure(first, b.js, b.topologyConfig())
	cancel()
	if err != nil && !away(err) {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return goodEnd(ctx, b.ensureTopology(ctx)) })
	for _, service := range services {
		group.Go(func() error { return goodEnd(ctx, service(ctx)) })
	}
	return group.Wait()
}

// producer is a writer whose ordinals go on where a snapshot remembers them,
// when the log has forgotten.
func (b *backbone) producer() (*producers.Producer, error) {
	reader, err := b.reader()
	if err != nil {
		return nil, err
	}
	heads, err := b.heads(reader)
	if err != nil {
		return nil, err
	}
	cfg := b.cfg.writing()
	cfg.Layout, cfg.Heads, cfg.Log = b.cfg.layout(), heads, b.log
	return producers.New(b.nc, b.js, cfg)
}

// writing is what the settings say of writers.
func (c config) writing() producers.Config {
	linger := c.Linger
	if linger == 0 {
		linger = producers.NoLinger
	}
	return producers.Config{Linger: linger, Patience: c.Patience, Format: codec.Format(c.Format)}
}

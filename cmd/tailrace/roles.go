package main

import (
	"context"
	"errors"

	"github.com/tailrace/tailrace/producers"
)

func runEdge(ctx context.Context, t terminal, args []string) error {
	return runRoles(ctx, t, "edge", args, (*backbone).edge)
}

func runProjector(ctx context.Context, t terminal, args []string) error {
	return runRoles(ctx, t, "projector", args, (*backbone).projector)
}

func runWorker(ctx context.Context, t terminal, args []string) error {
	return runRoles(ctx, t, "worker", args, (*backbone).worker)
}

// role is one service of the house. It works until ctx ends, and outlives an
// absent NATS server.
type role func(b *backbone, ctx context.Context) error

// runRoles runs one role as a process of its own.
func runRoles(ctx context.Context, t terminal, name string, args []string, r role) error {
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
	return r(b, ctx)
}

func (b *backbone) producer() (*producers.Producer, error) {
	return b.producerWith(nil)
}

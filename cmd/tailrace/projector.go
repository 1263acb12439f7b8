package main

import (
	"context"

	"github.com/tailrace/tailrace/internal/natsauth"
)

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

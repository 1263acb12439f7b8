package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/tailrace/tailrace/internal/demo"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/sseedge"
	"github.com/tailrace/tailrace/workers"
)

func runWorker(ctx context.Context, t terminal, args []string) error {
	return runRole(ctx, t, natsauth.Worker, args, func(ctx context.Context, b *app) error {
		if b.cfg.hasModel() {
			agents, err := b.newModelAgents()
			if err != nil {
				return err
			}
			return errors.Join(b.withStreams(ctx, agents.run), agents.served.Close())
		}
		agent, err := b.newDemo()
		if err != nil {
			return err
		}
		return errors.Join(b.withStreams(ctx, agent.run), agent.served.Close())
	})
}

// demoAgent is the workers of the demo agents, and the queue on which the page requests their runs.
type demoAgent struct {
	served *workers.Workers
	queue  *jscontrol.Queue
	log    *slog.Logger
}

func (b *app) newDemo() (*demoAgent, error) {
	queue, err := jscontrol.NewQueue(b.js, jscontrol.QueueConfig{Layout: b.cfg.layout(), Log: b.log})
	if err != nil {
		return nil, err
	}
	cfg := b.cfg.serving(demo.Agents(demo.ScaledPace(b.cfg.DemoPace)), b.log)
	cfg.ShutdownTimeout = workers.Off // steps of the demo take many seconds; the next worker plays them again
	served, err := workers.New(b.js, cfg)
	if err != nil {
		return nil, err
	}
	return &demoAgent{served: served, queue: queue, log: b.log}, nil
}

// run serves the agents until ctx ends.
func (d *demoAgent) run(ctx context.Context) error { return d.served.Run(ctx) }

// page returns the page, its files and its API as a surface of an edge.
func (d *demoAgent) page(edge *sseedge.Edge) (sseedge.Surface, error) {
	return demo.NewHandler(demo.HandlerConfig{Queue: d.queue, Shared: edge.Shared(), Logger: d.log})
}

package main

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/internal/demo"
	"github.com/tailrace/tailrace/producers"
)

func runWorker(ctx context.Context, t terminal, args []string) error {
	return runRole(ctx, t, "worker", args, func(ctx context.Context, b *backbone) error {
		if b.cfg.hasModel() {
			agents, err := b.newModelAgents()
			if err != nil {
				return err
			}
			return b.withStreams(ctx, agents.run)
		}
		agent, err := b.newDemo()
		if err != nil {
			return err
		}
		return b.withStreams(ctx, agent.run)
	})
}

// demoAgent is the demo worker and the page that asks it to work.
type demoAgent struct {
	worker   *demo.Worker
	producer *producers.Producer
	page     http.Handler
}

func (b *backbone) newDemo() (*demoAgent, error) {
	queue, err := commands.New(b.js, commands.Config{Layout: b.cfg.layout(), Log: b.log})
	if err != nil {
		return nil, err
	}
	reader, err := b.reader()
	if err != nil {
		return nil, err
	}
	box, err := inbox.New(b.js, inbox.Config{Layout: b.cfg.layout()})
	if err != nil {
		return nil, err
	}
	page, err := demo.NewHandler(demo.HandlerConfig{Queue: queue, Tenant: b.cfg.Tenant, Logger: b.log})
	if err != nil {
		return nil, err
	}
	producer, err := b.producer()
	if err != nil {
		return nil, err
	}
	worker, err := demo.NewWorker(demo.WorkerConfig{
		Queue: queue, Producer: producer, Log: reader, Inbox: box, Pace: demo.Tempo(b.cfg.DemoPace), Logger: b.log,
	})
	if err != nil {
		return nil, errors.Join(err, producer.Close())
	}
	return &demoAgent{worker: worker, producer: producer, page: page}, nil
}

// run works until ctx ends. What is under way then stays as it is in the log;
// the next worker goes on with it.
func (d *demoAgent) run(ctx context.Context) error {
	return errors.Join(d.worker.Run(ctx), d.producer.Close())
}

// route is the page, its files, and what it posts to.
func (d *demoAgent) route() route {
	return route{handler: d.page, match: func(path string) bool {
		file := strings.Count(path, "/") == 1 && strings.Contains(path, ".")
		return path == "/" || file || strings.HasPrefix(path, "/v1/demo/")
	}}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/tailrace/tailrace/internal/demo"
	"github.com/tailrace/tailrace/internal/health"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/workers"
)

func runWorker(ctx context.Context, t terminal, args []string) error {
	return runRole(ctx, t, natsauth.Worker, args, func(ctx context.Context, b *app) error {
		if !b.cfg.hasAgents() && !b.cfg.Demo.on {
			return usageError{errors.New("want --agents FILE, TAILRACE_MODEL_URL, or --demo on")}
		}
		ops, err := b.newOps(ctx)
		if err != nil {
			return err
		}
		served, err := b.agentWorkers()
		if err != nil {
			return errors.Join(err, ops.close())
		}
		b.conditions.ready = append(b.conditions.ready, health.Condition{Name: "draining", Met: func() bool { return ctx.Err() == nil }})
		ops.assemble(b)
		serve := func(ctx context.Context) error { // the ops listener responds until the last step is complete
			return errors.Join(served.Run(ctx), ops.close())
		}
		ready := func(ctx context.Context) error {
			for !b.conditions.streams.Load() {
				if err := wait.Sleep(ctx, 100*time.Millisecond); err != nil {
					return err
				}
			}
			for _, name := range b.served {
				fmt.Fprintf(t.out, "agent %s is ready\n", name)
			}
			return nil
		}
		return errors.Join(b.withStreams(ctx, serve, ready, func(context.Context) error { return ops.run() }), served.Close(), ops.close())
	})
}

// agentWorkers returns the workers of the configured agents, or else of the demo agent.
func (b *app) agentWorkers() (*workers.Workers, error) {
	if b.cfg.hasAgents() {
		return b.newAgents()
	}
	cfg := b.cfg.serving(demo.Agents(demo.ScaledPace(b.cfg.Demo.pace)))
	cfg.ShutdownTimeout = workers.Off // steps of the demo take many seconds; the next worker plays them again
	return b.newWorkers(cfg)
}

// demoSetting is whether the demo agent runs, and its pace, as a setting. The zero demoSetting is not set.
type demoSetting struct {
	set  bool
	on   bool
	pace float64
}

// UnmarshalText parses off, on or a pace.
func (d *demoSetting) UnmarshalText(text []byte) error {
	switch string(text) {
	case "off":
		*d = demoSetting{set: true}
		return nil
	case "on":
		*d = demoSetting{set: true, on: true, pace: 1}
		return nil
	}
	pace, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(pace >= 0) || math.IsInf(pace, 0) {
		return errors.New("want off, on or a delay factor of 0 or more")
	}
	*d = demoSetting{set: true, on: true, pace: pace}
	return nil
}

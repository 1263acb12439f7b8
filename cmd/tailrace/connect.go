package main

import (
	"cmp"
	"context"
	"flag"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/internal/canary"
	"github.com/tailrace/tailrace/internal/health"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/roles"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/workers"
)

// app is the NATS connection with the dependencies of every role.
type app struct {
	natsConn
	*roles.Process

	role natsauth.Role
	js   jetstream.JetStream
	cfg  config
	log  *slog.Logger

	metrics registry             // of the whole process
	more    prometheus.Gatherers // metrics of the accounts of tenants
	monitor *health.Monitor      // of its dependencies

	conditions     conditions
	createsStreams bool // missing ones, at the start and while the process runs; setup and up

	differences  *streamDifferences
	streamStates *streamStates
	canary       *canary.Canary

	served []string // agent types of the workers of this process

	refusals int // audit.Config.RefusalsPerSecond, which tests set; 0 is the default of the package
}

// connect opens the connection. It does not wait for the server: a role starts, logs that NATS is unavailable, and works as soon as the server is available.
func connect(role natsauth.Role, cfg config, log *slog.Logger, extra ...nats.Option) (*app, error) {
	return connectWith(newMetrics(role), role, cfg, log, extra...)
}

// connectCommand connects for a command that ends by itself, and waits until the streams are as required.
func connectCommand(ctx context.Context, t terminal, role natsauth.Role, cfg config) (*app, error) {
	b, err := connect(role, cfg, cfg.logger(t.err), t.endIfDenied(role, cfg))
	if err != nil {
		return nil, err
	}
	err = b.awaitServer(ctx, t, jsclient.ReportNoServer, jsclient.GiveUpNoServer)
	if err == nil {
		err = b.ensureTopology(ctx)
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// commandFlags are the flags of a command.
type commandFlags interface {
	register(flags *flag.FlagSet)
	check(c config) error
}

// operate runs a command of an operator that has flags and no other arguments, and ends by itself.
func operate(ctx context.Context, t terminal, name string, args []string, flags commandFlags, work func(b *app) error) error {
	cfg, err := flagsOnly(t, name, args, flags.register)
	if err != nil {
		return err
	}
	if err := flags.check(cfg); err != nil {
		return usageError{err}
	}
	b, err := connectCommand(ctx, t, natsauth.Operator, cfg)
	if err != nil {
		return err
	}
	defer b.close()
	return work(b)
}

// registry registers and gathers metrics.
type registry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

func connectWith(reg registry, role natsauth.Role, cfg config, log *slog.Logger, extra ...nats.Option) (*app, error) {
	conn, err := dialNATS(role, cfg, log, newNATSErrors(reg), extra...)
	if err != nil {
		return nil, err
	}
	nc := conn.nc
	js, err := newJetStream(nc, conn.domain)
	if err != nil {
		nc.Close()
		return nil, err
	}
	registerNATS(reg, nc)
	b := &app{
		role: role, natsConn: conn, js: js, cfg: cfg, log: log, metrics: reg, monitor: health.NewMonitor(reg, log),
		differences: newStreamDifferences(reg, log), streamStates: newStreamStates(reg),
	}
	b.canary = b.newCanary()
	b.Process = roles.New(roles.Config{
		JS: js, Layout: cfg.layout(), Memory: cfg.Memory, RunTimeout: cmp.Or(cfg.RunTimeout, workers.Off), Metrics: reg, Log: log, OnUnavailable: b.logUnavailable,
	})
	return b, nil
}

// ensureTopology checks the streams, and creates missing ones if the process may. It retries while the server is unavailable. The error names a missing or different stream.
func (b *app) ensureTopology(ctx context.Context) error {
	return b.waitForNATS(ctx, b.ensureTopologyOnce)
}

func (b *app) ensureTopologyOnce(ctx context.Context) error {
	if b.createsStreams {
		return topology.Ensure(ctx, b.js, b.topology())
	}
	return topology.Check(ctx, b.js, b.topology())
}

// waitForNATS repeats do while the server is unavailable or has no leader, and logs that once.
func (b *app) waitForNATS(ctx context.Context, do func(context.Context) error) error {
	return roles.Wait(ctx, do, b.logUnavailable)
}

func (b *app) logUnavailable(err error) {
	b.log.Warn("nats unavailable, waiting", "server", natsServer(b.nc), "error", err)
}

// newJetStream returns the JetStream of a domain, or of the server if domain is empty.
func newJetStream(nc *nats.Conn, domain string) (jetstream.JetStream, error) {
	timeout := jetstream.WithDefaultTimeout(5 * time.Second)
	if domain != "" {
		return jetstream.NewWithDomain(nc, domain, timeout)
	}
	return jetstream.New(nc, timeout)
}

func (b *app) close() { b.nc.Close() }

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/internal/demo/script"
	"github.com/tailrace/tailrace/internal/embed"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/workers"
)

// runUp runs all roles in one process. With TAILRACE_NATS_URL it uses that
// server, otherwise an embedded one.
func runUp(ctx context.Context, t terminal, args []string) error {
	cfg, err := flagsOnly(t, "up", args, nil)
	if err != nil {
		return err
	}
	if cfg.Accounts != "" {
		return usageError{errors.New("accounts: only the command edge serves the accounts of tenants")}
	}
	cfg.Ingest = cmp.Or(cfg.Ingest, ingestOn)
	cfg.Demo = cmp.Or(cfg.Demo, demoSetting{set: true, on: true, pace: 1})
	log := cfg.logger(t.err)
	var options []nats.Option
	if !cfg.hasServer() {
		server, err := embed.Start(ctx, embed.Config{
			StoreDir: filepath.Join(cfg.DataDir, "nats"), Port: cfg.NATSPort, SyncInterval: cfg.Sync.interval, SyncAlways: cfg.Sync.always, Log: log,
		})
		if err != nil {
			return cfg.inUse(ctx, err, true)
		}
		defer func() {
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			if err := server.Shutdown(ending); err != nil {
				log.Warn("nats server shutdown failed", "error", err)
			}
		}()
		options = append(options, server.InProcess())
	}
	b, err := connect(natsauth.Operator, cfg, log, options...)
	if err != nil {
		return err
	}
	defer b.close()
	b.createsStreams = !cfg.hasServer() // its own server has no other user
	stopTracing, err := b.startTracing(ctx)
	if err != nil {
		return err
	}
	defer stopTracing()
	return b.up(ctx, t)
}

func (b *app) up(ctx context.Context, t terminal) error {
	services := []func(context.Context) error{b.project}
	var agents *workers.Workers // nil without agents
	if b.cfg.hasAgents() || b.cfg.Demo.on {
		var err error
		if agents, err = b.agentWorkers(); err != nil {
			return err
		}
		services = append(services, agents.Run)
	}
	b.withProjector()
	server, err := b.newHTTPServer(ctx)
	if err != nil {
		if agents != nil {
			err = errors.Join(err, agents.Close())
		}
		return err
	}
	// The services start after the streams were created: a user who reads the URL can run the other commands.
	url := server.address()
	announce := func(context.Context) error {
		fmt.Fprintf(t.out, "\n  Tailrace is running: %s\n%s\n", url, b.usage())
		fmt.Fprintf(t.err, "nats: %s   data: %s   stop: Ctrl-C\n", natsServer(b.nc), b.dataText())
		return nil
	}
	return b.withStreams(ctx, append(services, server.run, announce)...)
}

// usage tells users what they find at the URL.
func (b *app) usage() string {
	var missing strings.Builder
	chats := 0
	for _, name := range b.cfg.ChatAgents {
		if slices.Contains(b.served, name) {
			chats++
		} else {
			fmt.Fprintf(&missing, "  chats wait for a worker with the agent %s\n", name)
		}
	}
	waits := missing.String()
	switch {
	case chats == 0:
		return waits
	case b.cfg.hasAgents():
		return "  Write to your agents on the page, or with POST /api/chat, see docs/reference/chat.md.\n" + waits
	case b.cfg.Demo.on:
		var names []string
		for _, s := range script.Scenarios() {
			names = append(names, s.Name)
		}
		return fmt.Sprintf("  Write to the demo agent on the page, or with POST /api/chat. It plays the script that the message names, else %s,\n"+
			"  which takes about a minute. Scripts: %s\n", names[0], strings.Join(names, ", ")) + waits
	}
	return ""
}

func (b *app) dataText() string {
	if b.cfg.hasServer() {
		return "on that server"
	}
	return b.cfg.DataDir
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/tailrace/tailrace/internal/health"
	"github.com/tailrace/tailrace/internal/jsmirror"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/sseedge"
	"github.com/tailrace/tailrace/topology"
)

// runMirror creates the mirrors in the local domain, and prints them.
func runMirror(ctx context.Context, t terminal, args []string) error {
	var recreate bool
	cfg, err := flagsOnly(t, "mirror", args, func(flags *flag.FlagSet) {
		flags.BoolVar(&recreate, "recreate", false, "create all mirrors again: what was deleted at home is deleted here; until they are complete, edges refuse requests")
	})
	if err != nil {
		return err
	}
	if cfg.MirrorDomain == "" {
		return usageError{errors.New("mirror-domain is empty, want the domain of the mirrors")}
	}
	b, err := connect(natsauth.Setup, cfg, cfg.logger(t.err))
	if err != nil {
		return err
	}
	defer b.close()
	local, err := newJetStream(b.nc, cfg.MirrorDomain)
	if err != nil {
		return err
	}
	tw := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "MIRROR\tEPOCH\tRESULT")
	err = topology.EnsureMirrors(ctx, b.js, local, topology.MirrorConfig{
		Layout: cfg.layout(), HomeDomain: cfg.NATSDomain, Replicas: cfg.MirrorReplicas, Recreate: recreate,
	}, func(m topology.Mirror) { fmt.Fprintf(tw, "%s\t%s\t%s\n", m.Stream, m.Epoch, m.Result) })
	return errors.Join(err, tw.Flush())
}

// sources are what an edge reads sessions from.
type sources struct {
	log interface {
		sseedge.Log
		projector.Log
	}
	store  *jssnapshots.Store
	mirror *jsmirror.Log // nil without mirrors
}

// sources returns the mirrors if there are any, or the log and the snapshots themselves.
func (b *app) sources() (sources, error) {
	if b.cfg.MirrorDomain == "" {
		reader, err := b.historyReader()
		if err != nil {
			return sources{}, err
		}
		store, err := b.store()
		return sources{log: reader, store: store}, err
	}
	local, err := newJetStream(b.nc, b.cfg.MirrorDomain)
	if err != nil {
		return sources{}, err
	}
	mirror, err := jsmirror.New(local, b.js, b.historyConfig())
	if err != nil {
		return sources{}, err
	}
	store, err := jssnapshots.New(local, jssnapshots.Config{Layout: b.cfg.layout()})
	return sources{log: mirror, store: store, mirror: mirror}, err
}

// snapshots returns a reader that applies the tail of the log to stored snapshots.
func (s sources) snapshots() *projector.Reader { return projector.NewReader(s.store, s.log) }

// setUnreachable sets when requests are refused at once: reads while the mirrors cannot be read, writes also while home is lost.
func (s sources) setUnreachable(cfg *sseedge.Config, nats func() bool) {
	if cfg.Unreachable = nats; s.mirror == nil {
		return
	}
	cfg.Unreachable = func() bool { return nats() || s.mirror.Usable() != nil }
	cfg.SurfacesUnreachable = func() bool { return cfg.Unreachable() || s.mirror.IsHomeLost() }
}

// addHealth adds the mirrors as a dependency. An edge has started when it can read them for the first time; afterwards they do not count, like all dependencies,
// because all edges of the leaf node would be unready at the same time.
func (s sources) addHealth(b *app) {
	if s.mirror == nil {
		return
	}
	b.conditions.started = append(b.conditions.started, health.Condition{Name: "mirrors", Met: func() bool { return s.mirror.Usable() == nil }})
	b.monitor.Add(health.Check{
		Dependencies: []string{"mirrors"}, Interval: 2 * time.Second, // reads memory only
		Probe: func(_ context.Context, report func(string, error)) { report("mirrors", s.mirror.Usable()) },
	})
}

// run compares the mirrors with home until ctx ends.
func (s sources) run(ctx context.Context) error {
	if s.mirror == nil {
		return nil
	}
	return ignoreCanceled(ctx, s.mirror.Run(ctx))
}

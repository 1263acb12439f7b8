package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/kvstore"
	"github.com/tailrace/tailrace/subjects"
)

// rebuildFlags are the choices of one `tailrace rebuild`.
type rebuildFlags struct {
	chosen

	to string
}

func (f *rebuildFlags) register(flags *flag.FlagSet) {
	f.chosen.register(flags)
	flags.StringVar(&f.to, "to", "", "fill this bucket, which is made if need be, and leave the live one alone")
}

// runRebuild folds sessions anew.
func runRebuild(ctx context.Context, t terminal, args []string) error {
	var f rebuildFlags
	cfg, rest, err := arguments(t, "rebuild", args, f.register)
	if err != nil {
		return err
	}
	err = f.check(rest)
	if err == nil && f.to != "" {
		err = f.checkTo(cfg.layout())
	}
	if err != nil {
		return usageError{err}
	}
	b, err := connect(cfg, cfg.logger(t.err))
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.verifyTopology(ctx); err != nil {
		return err
	}
	return f.run(ctx, t, b)
}

func (f *rebuildFlags) checkTo(live subjects.Layout) error {
	if err := subjects.CheckToken("to", f.to); err != nil {
		return err
	}
	if f.to == live.Snapshots() {
		return fmt.Errorf("%s is the live bucket; without --to it is rebuilt in place", f.to)
	}
	return nil
}

func (f *rebuildFlags) run(ctx context.Context, t terminal, b *backbone) error {
	sessions, err := b.newFolds()
	if err != nil {
		return err
	}
	rebuild := func(ctx context.Context, s chunk.Session) (projector.Rebuilt, error) {
		return projector.Rebuild(ctx, sessions.store, sessions.log, s)
	}
	if f.to != "" {
		to, err := f.other(ctx, b)
		if err != nil {
			return err
		}
		rebuild = func(ctx context.Context, s chunk.Session) (projector.Rebuilt, error) {
			return projector.RebuildTo(ctx, sessions.store, to, sessions.log, s)
		}
	}
	done := &tally{out: t.out, progress: t.err, json: f.json}
	stop := done.report(ctx)
	err = sessions.each(ctx, f.under(b.cfg.Tenant), func(ctx context.Context, s chunk.Session) error {
		r, err := rebuild(ctx, s)
		switch {
		case errors.Is(err, chunk.ErrUnknownSession), ctx.Err() != nil:
			return ctx.Err() // deleted meanwhile; or we stop
		case err != nil:
			return done.add(failed(s, err))
		}
		return done.add(rebuilt(r, f.session != ""))
	})
	stop()
	if err != nil {
		return err
	}
	fmt.Fprintln(t.err, done.summary())
	switch {
	case done.count["failed"] > 0:
		return fmt.Errorf("%d sessions could not be rebuilt; to begin again does no harm", done.count["failed"])
	case done.done == 0 && f.session != "":
		return fmt.Errorf("no session %q of tenant %q", f.session, b.cfg.Tenant)
	case f.to != "" && f.all:
		fmt.Fprintf(t.err, "to go over: stop every projector, then start all roles with TAILRACE_SNAPSHOT_BUCKET=%s\n", f.to)
	}
	return nil
}

// other is the store of the bucket to be filled. It is made like the live one.
func (f *rebuildFlags) other(ctx context.Context, b *backbone) (*kvstore.Store, error) {
	beside := b.topologyConfig()
	beside.Layout.SnapshotBucket = f.to
	if err := topology.Ensure(ctx, b.js, beside); err != nil {
		return nil, err
	}
	return kvstore.New(b.js, kvstore.Config{Layout: beside.Layout, Log: b.log})
}

func rebuilt(r projector.Rebuilt, always bool) line {
	type result struct {
		Session string        `json:"session"`
		Result  string        `json:"result"`
		Seq     chunk.Seq     `json:"seq"`
		Ordinal chunk.Ordinal `json:"ordinal"`
		Why     string        `json:"why,omitempty"`
	}
	text := fmt.Sprintf("sequence %d, record %d", r.Position.Seq, r.Position.Ordinal)
	if r.Why != "" {
		text += ", " + r.Why
	}
	return line{
		Session: r.Session.String(), Result: r.Outcome.String(), Text: text,
		Worth: always || r.Outcome == projector.Kept || r.Outcome == projector.Copied,
		JSON:  result{r.Session.String(), r.Outcome.String(), r.Position.Seq, r.Position.Ordinal, r.Why},
	}
}

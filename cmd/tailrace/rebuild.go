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
	"github.com/tailrace/tailrace/projector/natssource"
	"github.com/tailrace/tailrace/subjects"
)

// rebuildFlags are the choices of one `tailrace rebuild`.
type rebuildFlags struct {
	chosen

	to, drop string
}

func (f *rebuildFlags) register(flags *flag.FlagSet) {
	f.chosen.register(flags)
	flags.StringVar(&f.to, "to", "", "fill this bucket, which is made if need be, and leave the live one alone")
	flags.StringVar(&f.drop, "drop", "", "remove this bucket, which nobody uses any more, and what was too large for it")
}

// runRebuild folds sessions anew.
func runRebuild(ctx context.Context, t terminal, args []string) error {
	var f rebuildFlags
	cfg, rest, err := arguments(t, "rebuild", args, f.register)
	if err != nil {
		return err
	}
	if err := f.check(rest, cfg.layout()); err != nil {
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
	if f.drop != "" {
		return f.remove(ctx, t, b)
	}
	return f.run(ctx, t, b)
}

func (f *rebuildFlags) check(rest []string, live subjects.Layout) error {
	if f.drop != "" {
		if f.chosen != (chosen{}) || f.to != "" || len(rest) > 0 {
			return errors.New("want nothing else beside --drop")
		}
		return checkBucket("drop", f.drop, live)
	}
	if err := f.chosen.check(rest); err != nil || f.to == "" {
		return err
	}
	return checkBucket("to", f.to, live)
}

// checkBucket: it is a bucket beside the live one.
func checkBucket(flag, name string, live subjects.Layout) error {
	if err := subjects.CheckToken(flag, name); err != nil {
		return err
	}
	if name == live.Snapshots() {
		return fmt.Errorf("--%s %s: this is the live bucket", flag, name)
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
	done, err := f.work(ctx, t, sessions, func(ctx context.Context, s chunk.Session) (line, error) {
		r, err := rebuild(ctx, s)
		return rebuilt(r), err
	})
	if err != nil {
		return err
	}
	if n := done.count["failed"]; n > 0 {
		return fmt.Errorf("%d sessions could not be rebuilt; to begin again does no harm", n)
	}
	if f.to != "" && f.all {
		fmt.Fprintf(t.err, "to go over: stop every projector, then start all roles with TAILRACE_SNAPSHOT_BUCKET=%s\n", f.to)
	}
	return nil
}

// remove drops a bucket that was left behind.
func (f *rebuildFlags) remove(ctx context.Context, t terminal, b *backbone) error {
	inUse, err := natssource.InUse(ctx, b.js, b.cfg.layout(), f.drop)
	if err != nil {
		return err
	}
	if inUse {
		return fmt.Errorf("the projectors save to %s: start them with another bucket first", f.drop)
	}
	layout := b.cfg.layout()
	layout.SnapshotBucket = f.drop
	store, err := kvstore.New(b.js, kvstore.Config{Layout: layout, Log: b.log})
	if err != nil {
		return err
	}
	objects, err := store.Drop(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.err, "bucket %s is removed, with %d objects\n", f.drop, objects)
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

func rebuilt(r projector.Rebuilt) line {
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
		Worth: r.Outcome == projector.Kept || r.Outcome == projector.Copied,
		JSON:  result{r.Session.String(), r.Outcome.String(), r.Position.Seq, r.Position.Ordinal, r.Why},
	}
}

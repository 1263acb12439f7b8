package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/subjects"
)

// rebuildFlags are the flags of `tailrace rebuild`.
type rebuildFlags struct {
	sessionSelection

	to, drop string
}

func (f *rebuildFlags) register(flags *flag.FlagSet) {
	f.sessionSelection.register(flags)
	flags.StringVar(&f.to, "to", "", "fill this bucket, and those of its partitions, instead of the live ones; they are created if they do not exist")
	flags.StringVar(&f.drop, "drop", "", "delete this unused snapshot bucket, those of its partitions, and their objects")
}

// runRebuild refolds sessions from the log.
func runRebuild(ctx context.Context, t terminal, args []string) error {
	var f rebuildFlags
	return operate(ctx, t, "rebuild", args, &f, func(b *app) error {
		if f.drop != "" {
			return f.remove(ctx, t, b)
		}
		return f.run(ctx, t, b)
	})
}

func (f *rebuildFlags) check(c config) error {
	live := c.layout()
	if f.drop != "" {
		if f.sessionSelection != (sessionSelection{}) || f.to != "" {
			return errors.New("--drop: want no other flags")
		}
		return checkBucket("drop", f.drop, live)
	}
	if err := f.sessionSelection.check(c); err != nil || f.to == "" {
		return err
	}
	return checkBucket("to", f.to, live)
}

// checkBucket checks that name is a valid bucket other than the live bucket.
func checkBucket(flag, name string, live subjects.Layout) error {
	if err := subjects.CheckToken(flag, name); err != nil {
		return err
	}
	if name == names.Layout(live).Snapshots() || isPartitionBucket(name, names.Layout(live).Snapshots()) || isPartitionBucket(names.Layout(live).Snapshots(), name) && live.PartitionCount() > 1 {
		return fmt.Errorf("--%s is %q, want a bucket other than the live one and those of its partitions", flag, name)
	}
	return nil
}

// isPartitionBucket reports whether name is, or may become, the bucket of a partition beside the bucket first.
func isPartitionBucket(name, first string) bool {
	p, ok := strings.CutPrefix(name, first+"_")
	_, err := strconv.ParseUint(p, 10, 16)
	return ok && err == nil
}

func (f *rebuildFlags) run(ctx context.Context, t terminal, b *app) error {
	sessions, err := b.newSessionWalker()
	if err != nil {
		return err
	}
	rebuild := func(ctx context.Context, s chunk.Session) (projector.RebuildResult, error) {
		return projector.Rebuild(ctx, sessions.store, sessions.reader, s)
	}
	if f.to != "" {
		to, err := f.other(ctx, b)
		if err != nil {
			return err
		}
		rebuild = func(ctx context.Context, s chunk.Session) (projector.RebuildResult, error) {
			return projector.RebuildTo(ctx, sessions.store, to, sessions.reader, s)
		}
	}
	done, err := f.work(ctx, t, sessions, func(ctx context.Context, s chunk.Session) (line, error) {
		r, err := rebuild(ctx, s)
		return rebuildLine(r), err
	})
	if err != nil {
		return err
	}
	if n := done.count["failed"]; n > 0 {
		return fmt.Errorf("%d sessions failed; rebuild can be repeated", n)
	}
	if f.to != "" && f.all {
		fmt.Fprintf(t.err, "to switch: stop every projector, then start all roles with a TAILRACE_STREAMS file that has {\"snapshots\": {\"bucket\": %q}}\n", f.to)
	}
	return nil
}

// remove deletes an unused bucket.
func (f *rebuildFlags) remove(ctx context.Context, t terminal, b *app) error {
	inUse, err := jssnapshots.BucketInUse(ctx, b.js, b.cfg.layout(), f.drop)
	if err != nil {
		return err
	}
	if inUse {
		return fmt.Errorf("--drop is %q, want an unused bucket: the projectors save to it", f.drop)
	}
	layout := b.cfg.layout()
	layout.SnapshotBucket = f.drop
	store, err := jssnapshots.New(b.js, jssnapshots.Config{Layout: layout, Log: b.log})
	if err != nil {
		return err
	}
	objects, err := store.Drop(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.err, "deleted bucket %s with %d objects\n", f.drop, objects)
	return nil
}

// other returns the store of the bucket to fill, created like the live one.
func (f *rebuildFlags) other(ctx context.Context, b *app) (*jssnapshots.Store, error) {
	beside := b.cfg.newStreams()
	beside.Layout.SnapshotBucket = f.to
	if err := topology.Ensure(ctx, b.js, beside); err != nil {
		return nil, err
	}
	return jssnapshots.New(b.js, jssnapshots.Config{Layout: beside.Layout, Log: b.log})
}

func rebuildLine(r projector.RebuildResult) line {
	type result struct {
		Session string        `json:"session"`
		Result  string        `json:"result"`
		Seq     chunk.Seq     `json:"seq"`
		Ordinal chunk.Ordinal `json:"ordinal"`
		Why     string        `json:"why,omitempty"`
	}
	text := fmt.Sprintf("sequence %d, record %d", r.Position.Seq, r.Position.Ordinal)
	if r.Reason != "" {
		text += ", " + r.Reason
	}
	return line{
		Session: r.Session.String(), Result: r.Outcome.String(), Text: text,
		Notable: r.Outcome == projector.Kept || r.Outcome == projector.Copied,
		JSON:    result{r.Session.String(), r.Outcome.String(), r.Position.Seq, r.Position.Ordinal, r.Reason},
	}
}

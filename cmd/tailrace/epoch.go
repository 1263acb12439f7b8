package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/topology"
)

// renewed are the streams that get a new epoch.
type renewed struct{ stringList }

func (r *renewed) register(flags *flag.FlagSet) {
	flags.Func("new", "comma-separated streams that get a new epoch, or all: those that were restored from a backup and may lack what was written after it", func(s string) error {
		return r.UnmarshalText([]byte(s))
	})
}

// check returns an error for a stream that does not exist in the settings.
func (r *renewed) check(c config) error {
	streams, err := topology.Streams(c.topology())
	if err != nil {
		return err
	}
	for _, name := range r.stringList {
		if name != "all" && !slices.ContainsFunc(streams, func(s jetstream.StreamConfig) bool { return s.Name == name }) {
			return fmt.Errorf("new is %q, want the name of a stream as `tailrace epoch` prints it, or all", name)
		}
	}
	return nil
}

func (r *renewed) has(stream string) bool {
	return slices.Contains(r.stringList, "all") || slices.Contains(r.stringList, stream)
}

// runEpoch prints the epochs of the streams, after it has renewed those that the flag selects.
func runEpoch(ctx context.Context, t terminal, args []string) error {
	var r renewed
	return operate(ctx, t, "epoch", args, &r, func(b *app) error { return r.print(ctx, t.out, b) })
}

// print prints what the server has.
func (r *renewed) print(ctx context.Context, out io.Writer, b *app) error {
	streams, err := topology.Streams(b.cfg.topology())
	if err != nil {
		return err
	}
	for _, stream := range streams {
		if !r.has(stream.Name) {
			continue
		}
		if err := jsclient.New(b.js).RenewEpoch(ctx, stream.Name); err != nil {
			return fmt.Errorf("stream %s: %w", stream.Name, err)
		}
	}
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "STREAM\tEPOCH")
	for _, want := range streams {
		stream, err := b.js.Stream(ctx, want.Name)
		if err != nil {
			return fmt.Errorf("stream %s: %w", want.Name, err)
		}
		fmt.Fprintf(tw, "%s\t%s\n", want.Name, jsclient.EpochOf(stream.CachedInfo()))
	}
	return tw.Flush()
}

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/topology"
)

// allStreams is the value of --new for every stream.
const allStreams = "all"

// epochFlags holds the flags of `tailrace epoch`.
type epochFlags struct {
	renew stringList
	keep  bool
}

func (f *epochFlags) register(flags *flag.FlagSet) {
	flags.Func("new", "comma-separated streams that get a new epoch, or all: those that were restored from a backup and may lack what was written after it", func(s string) error {
		return f.renew.UnmarshalText([]byte(s))
	})
	flags.BoolVar(&f.keep, "keep", false, "store the epoch of streams of earlier builds, so that it stays when the whole stream is moved to another server")
}

// check returns an error for a stream that does not exist in the settings.
func (f *epochFlags) check(streams []jetstream.StreamConfig) error {
	for _, name := range f.renew {
		if name != allStreams && !slices.ContainsFunc(streams, func(s jetstream.StreamConfig) bool { return s.Name == name }) {
			return fmt.Errorf("new is %q, want the name of a stream as `tailrace epoch` prints it, or all", name)
		}
	}
	return nil
}

// isNew reports whether a stream gets a new epoch.
func (f *epochFlags) isNew(stream string) bool {
	return slices.Contains(f.renew, allStreams) || slices.Contains(f.renew, stream)
}

// runEpoch prints the epochs of the streams, and changes those that the flags select.
func runEpoch(ctx context.Context, t terminal, args []string) error {
	var f epochFlags
	cfg, err := flagsOnly(t, "epoch", args, f.register)
	if err != nil {
		return err
	}
	streams, err := topology.Streams(cfg.topology())
	if err == nil {
		err = f.check(streams)
	}
	if err != nil {
		return usageError{err}
	}
	b, err := connectCommand(ctx, t, natsauth.Operator, cfg)
	if err != nil {
		return err
	}
	defer b.close()
	for _, stream := range streams {
		if err := b.storeEpoch(ctx, stream.Name, &f); err != nil {
			return fmt.Errorf("stream %s: %w", stream.Name, err)
		}
	}
	return b.printEpochs(ctx, t.out, streams)
}

func (b *app) storeEpoch(ctx context.Context, stream string, f *epochFlags) error {
	epoch := "" // the present one
	switch {
	case f.isNew(stream):
		epoch = jsclient.NewEpoch()
	case !f.keep:
		return nil
	}
	_, err := jsclient.New(b.js).StoreEpoch(ctx, stream, epoch)
	return err
}

// printEpochs prints what the server has.
func (b *app) printEpochs(ctx context.Context, out io.Writer, streams []jetstream.StreamConfig) error {
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join([]string{"STREAM", "EPOCH", "SOURCE"}, "\t"))
	for _, want := range streams {
		stream, err := b.js.Stream(ctx, want.Name)
		if err != nil {
			return fmt.Errorf("stream %s: %w", want.Name, err)
		}
		epoch, stored := jsclient.EpochOf(stream.CachedInfo())
		source := "metadata"
		if !stored {
			source = "creation time"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\n", want.Name, epoch, source)
	}
	return tw.Flush()
}

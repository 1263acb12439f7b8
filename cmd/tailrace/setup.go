package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/topology"
)

// runSetup creates the missing streams and buckets and checks the others. A limit that an operator has set is not changed, and is printed. With --print it only
// prints what it would create, without a server.
func runSetup(ctx context.Context, t terminal, args []string) error {
	var printOnly bool
	cfg, err := flagsOnly(t, "setup", args, func(flags *flag.FlagSet) {
		flags.BoolVar(&printOnly, "print", false, "print the configuration of each stream and bucket as one line of JSON, and connect to no server")
	})
	if err != nil {
		return err
	}
	streams, err := topology.Streams(cfg.newStreams())
	if err != nil {
		return usageError{err}
	}
	if printOnly {
		lines := json.NewEncoder(t.out)
		for _, stream := range streams {
			if err := lines.Encode(stream); err != nil {
				return err
			}
		}
		return nil
	}
	b, err := connect(natsauth.Setup, cfg, cfg.logger(t.err))
	if err != nil {
		return err
	}
	defer b.close()
	b.createsStreams = true
	if err := b.ensureTopology(ctx); err != nil {
		return err
	}
	// A process that follows the streams logs what is stricter; this one prints everything that it did not change.
	diffs, err := topology.Differences(ctx, b.js, b.cfg.newStreams())
	if err != nil {
		return err
	}
	if len(diffs) == 0 {
		fmt.Fprintf(t.out, "%d streams exist with these settings\n", len(streams))
		return nil
	}
	fmt.Fprintf(t.out, "%d streams exist; %d settings differ and were not changed:\n", len(streams), len(diffs))
	for _, d := range diffs {
		fmt.Fprintf(t.out, "%s  %s\n", d.Class, d)
	}
	return nil
}

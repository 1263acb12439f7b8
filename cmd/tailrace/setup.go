package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/topology"
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
	b, err := connect(natsauth.Setup, cfg, cfg.logger(t.err), t.endIfDenied(natsauth.Setup, cfg))
	if err != nil {
		return err
	}
	defer b.close()
	b.createsStreams = true
	if err := b.awaitServer(ctx, t, jsclient.ReportNoServer, jsclient.GiveUpNoServer); err != nil {
		return err
	}
	created := 0
	if err := b.waitForNATS(ctx, func(ctx context.Context) error {
		created = 0
		diffs, err := topology.Differences(ctx, b.js, b.cfg.newStreams())
		for _, d := range diffs {
			if d.Setting == "" && d.Got == "is missing" {
				created++
			}
		}
		return err
	}); err != nil {
		return err
	}
	if err := b.ensureTopology(ctx); err != nil {
		return err
	}
	// A process that follows the streams logs what is stricter; this one prints everything that it did not change.
	diffs, err := topology.Differences(ctx, b.js, b.cfg.newStreams())
	if err != nil {
		return err
	}
	var done []string
	if created > 0 {
		done = append(done, fmt.Sprintf("created %d streams", created))
	}
	if checked := len(streams) - created; checked > 0 {
		done = append(done, fmt.Sprintf("checked %d streams", checked))
	}
	fmt.Fprint(t.out, strings.Join(done, ", "))
	if len(diffs) > 0 {
		fmt.Fprintf(t.out, "; %d settings differ and were not changed:", len(diffs))
	}
	fmt.Fprintln(t.out)
	for _, d := range diffs {
		fmt.Fprintf(t.out, "%s  %s\n", d.Class, d)
	}
	return nil
}

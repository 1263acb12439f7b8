package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/metrics"
	"github.com/tailrace/tailrace/internal/natsauth"
)

// firehoseFlags holds the flags of `tailrace firehose`.
type firehoseFlags struct {
	durable string
	tenant  string
	types   string
	json    bool
	ops     bool

	fromStart bool
}

func (f *firehoseFlags) register(flags *flag.FlagSet) {
	flags.StringVar(&f.durable, "durable", "", "durable consumer name; resume after the last acknowledged record")
	flags.BoolVar(&f.fromStart, "from-start", false, "start with the oldest record instead of the next one; with --durable, at its first use only")
	flags.StringVar(&f.tenant, "tenant", "", "sessions of this tenant only; if empty, of all tenants")
	flags.StringVar(&f.types, "types", "", "comma-separated chunk types; if empty, all types")
	flags.BoolVar(&f.ops, "ops", false, "serve probes and metrics on OPS_LISTEN, with the lag of the durable consumer; needs --durable")
	flags.BoolVar(&f.json, "json", false, "print JSON lines on a terminal too")
}

func runFirehose(ctx context.Context, t terminal, args []string) error {
	var f firehoseFlags
	cfg, err := flagsOnly(t, "firehose", args, f.register)
	if err != nil {
		return err
	}
	if err := cmp.Or(checkIfSet("durable", f.durable), checkIfSet("tenant", f.tenant)); err != nil {
		return usageError{err}
	}
	if f.ops && f.durable == "" {
		return usageError{errors.New("--ops needs --durable")}
	}
	b, err := connectCommand(ctx, t, natsauth.Analytics, cfg)
	if err != nil {
		return err
	}
	defer b.close()
	return f.run(ctx, t, b)
}

func (f *firehoseFlags) run(ctx context.Context, t terminal, b *app) error {
	reader, err := b.reader()
	if err != nil {
		return err
	}
	config := consumers.FirehoseConfig{Name: f.durable, Tenant: f.tenant, FromLatest: !f.fromStart}
	if f.types != "" {
		config.Types = splitTypes(f.types)
	}
	out := printerFor(t, f.json, chunk.Session{})
	var printing sync.Mutex // each partition has its own goroutine
	config.OnGap = func(_ context.Context, g consumers.Gap) error {
		printing.Lock()
		defer printing.Unlock()
		return printGap(out, g)
	}
	firehose, err := reader.Firehose(config)
	if err != nil {
		return err
	}
	services, watched := errgroup.WithContext(ctx)
	if f.ops {
		if err := b.serveFirehose(watched, services, reader, firehose); err != nil {
			return err
		}
	}
	services.Go(func() error {
		return firehose.Run(watched, func(_ context.Context, rec chunk.Record) error {
			printing.Lock()
			defer printing.Unlock()
			return out.print(rec)
		})
	})
	err = services.Wait()
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, out.end())
}

// lagInterval is the interval of the measurements of the lag.
const lagInterval = 15 * time.Second

// serveFirehose adds the ops listener and what it reports to the services of a durable firehose. The streams were checked before.
func (b *app) serveFirehose(ctx context.Context, services *errgroup.Group, reader *consumers.Reader, firehose *consumers.Firehose) error {
	metric, err := metrics.NewFirehose(b.metrics, reader)
	if err != nil {
		return err
	}
	ops, err := b.newOps(ctx)
	if err != nil {
		return err
	}
	b.conditions.streams.Store(true)
	b.watchConnection()
	ops.assemble(b)
	services.Go(func() error { return ops.runUntil(ctx) })
	services.Go(func() error { return b.monitor.Run(ctx) })
	services.Go(func() error {
		b.wakeMonitor(ctx)
		return nil
	})
	services.Go(func() error {
		b.measure(ctx, lagInterval, "firehose lag not measured", func(ctx context.Context) error {
			lags, err := firehose.Lag(ctx) // fails until Run has created the consumers
			metric.Measured(lags)
			return err
		})
		return nil
	})
	return nil
}

// printGap prints that records are missing.
func printGap(out printer, g consumers.Gap) error {
	switch p := out.(type) {
	case *textPrinter:
		return p.line(g.Session.ID, red, fmt.Sprintf("records missing: sequences %d to %d of partition %d (%s)", g.From, g.To, g.Partition, g.Reason))
	case *jsonPrinter:
		line := map[string]any{"partition": g.Partition, "from": g.From, "to": g.To, "reason": g.Reason}
		if g.Reason == chunk.TruncatedGap {
			line["session"], line["firstOrdinal"], line["lastOrdinal"] = g.Session.ID, g.FirstOrdinal, g.LastOrdinal
		}
		return json.NewEncoder(p.out).Encode(map[string]any{"gap": line})
	}
	return nil
}

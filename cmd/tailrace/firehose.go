package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"sync"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/natsauth"
)

// firehoseFlags holds the flags of `tailrace firehose`.
type firehoseFlags struct {
	durable string
	tenant  string
	types   string
	json    bool

	fromStart bool
}

func (f *firehoseFlags) register(flags *flag.FlagSet) {
	flags.StringVar(&f.durable, "durable", "", "durable consumer name; resume after the last acknowledged record")
	flags.BoolVar(&f.fromStart, "from-start", false, "start with the oldest record instead of the next one; with --durable, at its first use only")
	flags.StringVar(&f.tenant, "tenant", "", "sessions of this tenant only; if empty, of all tenants")
	flags.StringVar(&f.types, "types", "", "comma-separated chunk types; if empty, all types")
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
	err = firehose.Run(ctx, func(_ context.Context, rec chunk.Record) error {
		printing.Lock()
		defer printing.Unlock()
		return out.print(rec)
	})
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, out.end())
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

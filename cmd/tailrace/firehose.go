package main

import (
	"context"
	"errors"
	"flag"
	"sync"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/subjects"
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
	cfg, rest, err := arguments(t, "firehose", args, f.register)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usageError{errors.New("want no arguments")}
	}
	for name, token := range map[string]string{"durable": f.durable, "tenant": f.tenant} {
		if token == "" {
			continue
		}
		if err := subjects.CheckToken(name, token); err != nil {
			return usageError{err}
		}
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

func (f *firehoseFlags) run(ctx context.Context, t terminal, b *app) error {
	reader, err := b.reader()
	if err != nil {
		return err
	}
	config := consumers.FirehoseConfig{Name: f.durable, Tenant: f.tenant, FromLatest: !f.fromStart}
	if f.types != "" {
		config.Types = splitTypes(f.types)
	}
	firehose, err := reader.Firehose(config)
	if err != nil {
		return err
	}
	out := printerFor(t, f.json, chunk.Session{})
	var printing sync.Mutex // each partition has its own goroutine
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

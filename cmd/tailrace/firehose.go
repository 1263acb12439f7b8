package main

import (
	"context"
	"errors"
	"flag"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/subjects"
)

// firehoseFlags are the choices of one `tailrace firehose`.
type firehoseFlags struct {
	durable string
	tenant  string
	types   string
	json    bool

	fromStart bool
}

func (f *firehoseFlags) register(flags *flag.FlagSet) {
	flags.StringVar(&f.durable, "durable", "", "remember the place under this name and go on there next time")
	flags.BoolVar(&f.fromStart, "from-start", false, "begin with the oldest record there is rather than with the next one; a durable does so at its first use only")
	flags.StringVar(&f.tenant, "tenant", "", "only sessions of this tenant; empty: all tenants")
	flags.StringVar(&f.types, "types", "", "only these types, separated by commas")
	flags.BoolVar(&f.json, "json", false, "JSON lines, also on a terminal")
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

func (f *firehoseFlags) run(ctx context.Context, t terminal, b *backbone) error {
	reader, err := b.reader()
	if err != nil {
		return err
	}
	config := consumers.FirehoseConfig{Name: f.durable, Tenant: f.tenant, FromNow: !f.fromStart}
	if f.types != "" {
		config.Types = splitTypes(f.types)
	}
	firehose, err := reader.Firehose(config)
	if err != nil {
		return err
	}
	out := printerFor(t, f.json, chunk.Session{})
	err = firehose.Run(ctx, func(_ context.Context, rec chunk.Record) error { return out.print(rec) })
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, out.end())
}

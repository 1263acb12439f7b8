// Command tailrace-sink copies the records of a Tailrace log into tables, each once: Parquet files or Postgres. docs/guides/analytics.md describes the tables.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/price"
	"github.com/tailrace/tailrace/sink/run"
	"github.com/tailrace/tailrace/subjects"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := program(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// usageError is an error in the settings or the arguments.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usageOf returns an error of load.
func usageOf(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	return usageError{err}
}

// program runs a command and returns the exit code.
func program(ctx context.Context, args []string, out, errs io.Writer) int {
	return exitCode(command(ctx, args, out, errs), out, errs)
}

// exitCode prints an error and returns its exit code: 1 for a failure, 2 for wrong settings, 3 without a connection to a NATS server.
func exitCode(err error, out, errs io.Writer) int {
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		if err := printUsage(out); err != nil {
			return 1
		}
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(errs, "tailrace-sink: %v; --help lists the settings\n", err)
		return 2
	}
	fmt.Fprintf(errs, "tailrace-sink: %v\n", err)
	if errors.Is(err, jsclient.ErrNoServer) {
		return 3
	}
	return 1
}

func command(ctx context.Context, args []string, out, errs io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "sql":
			return printSQL(args[1:], out)
		case "check":
			return check(ctx, args[1:], out, errs)
		case "erase":
			return erase(ctx, args[1:], out, errs)
		}
	}
	noFollow := false
	cfg, rest, err := load(args, func(flags *flag.FlagSet) { flags.BoolVar(&noFollow, "no-follow", false, "") })
	cfg.noFollow = noFollow
	switch {
	case err != nil:
		return usageOf(err)
	case len(rest) > 0:
		return usageError{fmt.Errorf("unknown command %q; a command is before the flags", rest[0])}
	}
	if cfg.receiver() != "" {
		return cfg.export(ctx, errs)
	}
	return cfg.run(ctx, errs)
}

func (c config) logger(w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// run copies until ctx ends.
func (c config) run(ctx context.Context, errs io.Writer) error {
	log := c.logger(errs)
	observed, err := c.observe()
	if err != nil {
		return usageError{err}
	}
	st, err := c.openStore(log)
	if err != nil {
		return usageError{err}
	}
	return c.withLog(ctx, errs, func(ctx context.Context, js jetstream.JetStream, layout subjects.Layout) error {
		return c.copy(ctx, js, layout, observed, st, log)
	})
}

// copy copies the log to a store.
func (c config) copy(ctx context.Context, js jetstream.JetStream, layout subjects.Layout, observed observe.Config, st *store, log *slog.Logger) error {
	reg := prometheus.NewRegistry()
	metrics, err := run.NewMetrics(reg)
	if err != nil {
		return err
	}
	observed.Memory = max(1<<20, c.Memory/layout.Partitions)
	debug.SetMemoryLimit(int64(c.Memory) + st.memory + 64<<20)
	sink, err := run.New(js, run.Config{
		Layout: layout, Store: st, Tenant: c.Tenant, FromNow: c.From == "now", NoFollow: c.noFollow, Observe: observed,
		Every: st.every, Bytes: st.bytes(layout.Partitions), Metrics: metrics, Log: log,
	})
	if err != nil {
		return usageError{err}
	}
	log.Info("sink started", slog.String("to", withoutPassword(c.To)), slog.String("view", c.View), slog.Int("partitions", layout.Partitions))
	services, running := errgroup.WithContext(ctx)
	ended, end := context.WithCancel(running)
	services.Go(func() error { return c.serveOps(ended, reg, log) })
	if c.noFollow { // a job does the upkeep once, when everything is stored
		st.last = func() { st.maintainOnce(running, log) }
	} else {
		services.Go(func() error { return st.maintain(ended, log) })
	}
	services.Go(func() error {
		defer end()
		return sink.Run(running)
	})
	return services.Wait()
}

// observe returns what the rows have: the content that the view shows, and the prices.
func (c config) observe() (cfg observe.Config, err error) {
	cfg.Deltas = c.Deltas
	if c.View != view.All { // which is the same as no view, and costs time
		shown, err := c.view()
		if err != nil {
			return cfg, err
		}
		cfg.Show = shown.Record
	}
	if c.Prices == "" {
		return cfg, nil
	}
	data, err := os.ReadFile(c.Prices)
	if err != nil {
		return cfg, err
	}
	list, err := price.Read(data)
	if err != nil {
		return cfg, fmt.Errorf("%s: %w", c.Prices, err)
	}
	cfg.Price = list.Cost
	return cfg, nil
}

// view returns the view of the sink.
func (c config) view() (*view.Compiled, error) {
	if c.View == view.Analytics || c.View == view.None {
		return view.View{Preset: c.View}.Compile()
	}
	return c.namedView()
}

// namedView returns a view of the file in VIEWS.
func (c config) namedView() (*view.Compiled, error) {
	if c.Views == "" {
		return nil, fmt.Errorf("view is %q, want analytics, none, all, or the name of a view and VIEWS", c.View)
	}
	file, err := os.Open(c.Views)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	views, err := view.Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Views, err)
	}
	compiled := views.Get(c.View)
	if compiled == nil {
		return nil, fmt.Errorf("view is %q, which %s does not have", c.View, c.Views)
	}
	return compiled, nil
}

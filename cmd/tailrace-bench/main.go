// Command tailrace-bench measures Tailrace against a baseline that does the same work with bare nats.go or bare net/http, both
// in one run. It is a binary of its own, so that the product carries no benchmark code.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/tailrace/tailrace/internal/bench"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdin, os.Stdout, os.Stderr, os.Args[1:])
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		os.Exit(exitOK)
	case errors.Is(err, errUsage):
		os.Exit(exitUsage)
	default:
		fmt.Fprintln(os.Stderr, "tailrace-bench:", err)
		os.Exit(exitError)
	}
}

// run is main without the process around it. Errors of the arguments match errUsage and have been printed.
func run(ctx context.Context, in io.Reader, out, errOut io.Writer, args []string) error {
	if bench.IsChild() {
		return bench.RunChild(ctx, in, out)
	}
	var (
		cfg     bench.Config
		profile string
		asJSON  bool
	)
	flags := flag.NewFlagSet("tailrace-bench", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.IntVar(&cfg.Rounds, "rounds", 5, "measured rounds of each side")
	flags.IntVar(&cfg.Clients, "clients", 1000, "clients of the fan-out")
	flags.IntVar(&cfg.Window, "window", 16, "maximum number of chunks that the writer of the fan-out is ahead of its slowest client")
	flags.IntVar(&cfg.LongTurn, "long-turn", 100_000, "maximum number of chunks of one turn in longturn, e.g. 1000000")
	flags.StringVar(&cfg.Dir, "dir", "", "directory of the server's files; default is a temporary directory")
	flags.BoolVar(&asJSON, "json", false, "print a line of JSON for each figure; the header goes to standard error")
	flags.StringVar(&profile, "cpuprofile", "", "write a profile of the serving process to this file, with the labels bench and side")
	flags.Usage = func() {
		fmt.Fprintf(errOut, "Usage: tailrace-bench [flags] NAME…|all\n\nBenchmarks Tailrace against bare NATS and net/http: %s.\n\n", strings.Join(known(), ", "))
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage
	}
	names := flags.Args()
	if len(names) == 0 {
		flags.Usage()
		return errUsage
	}
	if names[0] == "all" {
		names = bench.Names()
	}
	header, printRows := out, bench.Print
	if asJSON {
		header, printRows = errOut, bench.PrintJSON
	}
	fmt.Fprintf(header, "%s %s/%s, %d processors, nats-server %s, %d rounds of each side in turn, medians\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), server.VERSION, cfg.Rounds)
	if slices.Equal(names, []string{bench.ScaleName}) {
		return bench.Scale(ctx, cfg, out)
	}
	var rows []bench.Row
	err := profiled(profile, func() (err error) {
		rows, err = bench.Run(ctx, cfg, names...)
		return err
	})
	return errors.Join(printRows(out, rows), err)
}

func known() []string {
	return slices.Concat(bench.Names(), bench.Standalone(), []string{bench.ScaleName})
}

// profiled writes a profile of what run does, if there is a name for the file.
func profiled(file string, run func() error) error {
	if file == "" {
		return run()
	}
	out, err := os.Create(file) //nolint:gosec // the user named it
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(out); err != nil {
		return errors.Join(err, out.Close())
	}
	err = run()
	pprof.StopCPUProfile()
	return errors.Join(err, out.Close())
}

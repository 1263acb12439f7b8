package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/tailrace/tailrace/internal/bench"
)

func runBench(ctx context.Context, t terminal, args []string) error {
	if bench.IsCrowd() {
		return bench.RunCrowd(ctx, t.in, t.out)
	}
	var (
		cfg     bench.Config
		profile string
	)
	_, names, err := arguments(t, "bench", args, func(flags *flag.FlagSet) {
		flags.IntVar(&cfg.Rounds, "rounds", 5, "measured rounds of each side")
		flags.IntVar(&cfg.Clients, "clients", 1000, "clients of the fan-out")
		flags.IntVar(&cfg.Window, "window", 16, "how many chunks the writer of the fan-out is ahead of its slowest client at most, flat out")
		flags.StringVar(&cfg.Dir, "dir", "", "where the server keeps its files; empty: a temporary directory")
		flags.StringVar(&profile, "cpuprofile", "", "where to write a profile of the serving process, with the labels bench and side")
	})
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return usageError{fmt.Errorf("want all, or some of %s", strings.Join(append(bench.Names(), bench.Alone()...), ", "))}
	}
	if names[0] == "all" {
		names = bench.Names()
	}
	fmt.Fprintf(t.out, "%s %s/%s, %d processors, nats-server %s, %d rounds of each side in turn, medians\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), server.VERSION, cfg.Rounds)
	var rows []bench.Row
	err = profiled(profile, func() (err error) {
		rows, err = bench.Run(ctx, cfg, names...)
		return err
	})
	return errors.Join(bench.Print(t.out, rows), err)
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

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"strings"

	"github.com/tailrace/tailrace/internal/bench"
)

func runBench(ctx context.Context, t terminal, args []string) error {
	if bench.IsCrowd() {
		return bench.RunCrowd(ctx, t.in, t.out)
	}
	var cfg bench.Config
	_, names, err := arguments(t, "bench", args, func(flags *flag.FlagSet) {
		flags.IntVar(&cfg.Rounds, "rounds", 5, "measured rounds of each side")
		flags.IntVar(&cfg.Clients, "clients", 1000, "clients of the fan-out")
		flags.StringVar(&cfg.Dir, "dir", "", "where the server keeps its files; empty: a temporary directory")
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
	fmt.Fprintf(t.out, "%s %s/%s, %d processors, %d rounds of each side in turn, medians\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), cfg.Rounds)
	rows, err := bench.Run(ctx, cfg, names...)
	return errors.Join(bench.Print(t.out, rows), err)
}

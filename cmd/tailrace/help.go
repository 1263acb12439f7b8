package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"
)

const intro = `Tailrace is an event pipeline for AI agents on NATS JetStream: a durable log
of agent output, served to browsers as resumable event streams.

Usage: tailrace <command> [flags] [arguments]

`

func printHelp(w io.Writer) error {
	fmt.Fprint(w, intro)
	fmt.Fprintln(w, "Commands:")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range subcommands() {
		fmt.Fprintf(tw, "  %s\t%s\n", strings.TrimSpace(c.name+" "+c.args), c.summary)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\n`tailrace <command> --help` lists the flags of a command.")
	return printSettings(w, settingsOf(&config{}))
}

// printSettings lists variables with their defaults. The flag of a variable
// is its name without the prefix, in lower case with dashes.
func printSettings(w io.Writer, settings []setting) error {
	fmt.Fprintln(w, "\nSettings are read from the environment; the flag (--nats-url for TAILRACE_NATS_URL) wins:")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "  VARIABLE\tDEFAULT\tMEANING")
	for _, s := range settings {
		fmt.Fprintf(tw, "  %s\t%s\t%s\n", s.variable, s.def, s.desc)
	}
	return tw.Flush()
}

// version is set by the release build with -ldflags "-X main.version=…".
var version = "dev"

// programVersion returns the version of the release build or, of a program that `go run` or `go install` has built, that of its module.
func programVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && version == "dev" && info.Main.Sum != "" {
		return info.Main.Version
	}
	return version
}

func runVersion(_ context.Context, t terminal, _ []string) error {
	nats := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/nats-io/nats-server/v2" {
				nats = dep.Version
			}
		}
	}
	_, err := fmt.Fprintf(t.out, "tailrace %s (%s, built-in nats-server %s)\n", programVersion(), runtime.Version(), nats)
	return err
}

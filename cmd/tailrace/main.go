// Command tailrace is every role of Tailrace in one binary: the role is the
// first argument. `tailrace up` runs all of them in one process.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// terminal is what a command may speak to and hear from.
type terminal struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// command is one subcommand. run gets the arguments after its name.
type command struct {
	name    string
	args    string
	summary string
	run     func(ctx context.Context, t terminal, args []string) error
}

func subcommands() []command {
	return []command{
		{"up", "", "everything in one process: NATS server, projector, edge, worker", runUp},
		{"edge", "", "the HTTP edge: event streams and snapshots for browsers", runEdge},
		{"projector", "", "folds sessions into snapshots", runProjector},
		{"worker", "", "the agents of a model, or the demo agent", runWorker},
		{"publish", "--session ID", "writes chunks from standard input (JSON lines) to a session", runPublish},
		{"tail", "SESSION", "follows a session in the terminal", runTail},
		{"firehose", "", "follows every session", runFirehose},
		{"verify", "--session ID|--all", "compares stored snapshots with a fold of the log; exit code 1 if any differs", runVerify},
		{"rebuild", "--session ID|--all|--drop BUCKET", "folds sessions anew from the log, in place or into another bucket", runRebuild},
		{"compact", "", "archives the sessions that have ended, once, as the projector does with --archive-after", runCompact},
		{"deadletters", "list|show N…|replay N…|drop N…", "messages of the log that could not be folded", runDeadLetters},
		{"bench", "NAME…|all", "ours against the raw floor, in one run", runBench},
		{"version", "", "prints the version", runVersion},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, terminal{in: os.Stdin, out: os.Stdout, err: os.Stderr}, os.Args[1:])
	stop()
	os.Exit(code)
}

// run is main without the process around it.
func run(ctx context.Context, t terminal, args []string) int {
	if len(args) == 0 {
		_ = printHelp(t.err)
		return exitUsage
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		return exitCode(t, "help", printHelp(t.out))
	}
	for _, c := range subcommands() {
		if c.name == args[0] {
			return exitCode(t, c.name, c.run(ctx, t, args[1:]))
		}
	}
	fmt.Fprintf(t.err, "tailrace: no command %q; `tailrace help` lists them\n", args[0])
	return exitUsage
}

// usageError is a mistake in the arguments rather than in the world.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func exitCode(t terminal, name string, err error) int {
	var usage usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintf(t.err, "tailrace %s: %v\n", name, err)
		return exitUsage
	default:
		fmt.Fprintf(t.err, "tailrace %s: %v\n", name, err)
		return exitError
	}
}

// arguments loads the configuration of a command and prints its help when asked.
func arguments(t terminal, name string, args []string, extra func(*flag.FlagSet)) (config, []string, error) {
	cfg, rest, err := load(args, io.Discard, extra)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return cfg, nil, errors.Join(err, printCommandHelp(t.out, name, extra))
	case err != nil:
		return cfg, nil, usageError{err}
	}
	return cfg, rest, nil
}

func printCommandHelp(w io.Writer, name string, extra func(*flag.FlagSet)) error {
	for _, c := range subcommands() {
		if c.name == name {
			fmt.Fprintf(w, "Usage: tailrace %s %s\n\n%s.\n", c.name, c.args, c.summary)
		}
	}
	if extra != nil {
		flags := flag.NewFlagSet(name, flag.ContinueOnError)
		flags.SetOutput(w)
		extra(flags)
		fmt.Fprintln(w)
		flags.PrintDefaults()
	}
	return printSettings(w)
}

// Command tailrace runs every role of Tailrace: the role is the first argument.
// `tailrace up` runs all of them in one process.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/term"

	"github.com/tailrace/tailrace/internal/nearest"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2

	exitUnreachable = 3 // no connection to a NATS server
)

// terminal holds the standard streams of a command.
type terminal struct {
	in  io.Reader
	out io.Writer
	err io.Writer

	fail context.CancelCauseFunc // ends the command with a deniedError
}

// isInteractive reports whether the output is a terminal.
func (t terminal) isInteractive() bool {
	file, ok := t.out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
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
		{"up", "", "run everything in one process: NATS server, projector, edge, worker", runUp},
		{"setup", "[--print]", "create the missing streams and buckets and check the others, once", runSetup},
		{"epoch", "[--new STREAM|all]", "print the epochs of the streams, or give restored streams new ones", runEpoch},
		{"nats-auth", "print --role ROLE", "print the NATS permissions of a role", runNATSAuth},
		{"doctor", "[--json]", "check connection, account, streams, storage and consumers; exit code 1 if a guarantee does not hold, 3 without a connection", runDoctor},
		{"edge", "", "serve event streams, snapshots and chats over HTTP", runEdge},
		{"projector", "", "fold sessions into snapshots", runProjector},
		{"worker", "", "run the agents of a model, or the demo agent", runWorker},
		{"publish", "--session ID", "write chunks from standard input (JSON lines) to a session", runPublish},
		{"sessions", "[--status S] [--agent T] [--owner S]", "list the sessions of the tenant, the last saved first", runSessions},
		{"snapshot", "SESSION [--at SEQUENCE]", "print a session as it is, or as it was", runSnapshot},
		{"open", "SESSION", "print the URL of the page of a session, and open it in a browser", runOpen},
		{"tail", "SESSION", "follow a session in the terminal", runTail},
		{"firehose", "", "follow all sessions", runFirehose},
		{"audit", "[--no-follow]", "follow the audit log of acts and refused accesses", runAudit},
		{"usage", "[--tenant T] [--days N]", "print the tokens that tenants have used, by day", runUsage},
		{"fork", "SESSION --at CURSOR", "continue a session in a new one from an earlier point; prints the new session", runFork},
		{"verify", "--session ID|--all", "compare stored snapshots with a fold of the log; exit code 1 if any differs", runVerify},
		{"rebuild", "--session ID|--all|--drop BUCKET", "refold sessions from the log, in place or into another bucket", runRebuild},
		{"deadletters", "list|show N…|replay N…|drop N…", "manage log messages that could not be folded", runDeadLetters},
		{"revoke", "--token ID|--subject S|--list", "revoke a token, or all credentials of a user, on all edges", runRevoke},
		{"token", "setup --dir DIR|mint|inspect TOKEN", "create the key of an edge that signs tokens, sign one, or show what is in one and why it is refused", runToken},
		{"version", "", "print the version", runVersion},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, terminal{in: os.Stdin, out: os.Stdout, err: os.Stderr}, os.Args[1:])
	stop()
	os.Exit(code)
}

// run executes a command and returns the exit code.
func run(ctx context.Context, t terminal, args []string) int {
	if len(args) == 0 {
		_ = printHelp(t.err)
		return exitUsage
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		return exitCode(t, "help", printHelp(t.out))
	}
	var names []string
	for _, c := range subcommands() {
		if c.name == args[0] {
			return exitCode(t, c.name, c.start(ctx, t, args[1:]))
		}
		names = append(names, c.name)
	}
	hint := "`tailrace help` lists the commands"
	if near := nearest.Name(args[0], names); near != "" {
		hint = "did you mean " + near + "?"
	}
	fmt.Fprintf(t.err, "tailrace: unknown command %q; %s\n", args[0], hint)
	return exitUsage
}

// start runs the command. The error with which t.fail has ended it is returned instead of those that follow from it.
func (c command) start(ctx context.Context, t terminal, args []string) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	t.fail = fail
	err := c.run(ctx, t, args)
	if denied, ok := errors.AsType[deniedError](context.Cause(ctx)); ok {
		return denied
	}
	return err
}

// usageError is an error in the arguments.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func exitCode(t terminal, name string, err error) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	fmt.Fprintf(t.err, "tailrace %s: %v\n", name, err)
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[unreachableError](err); ok {
		return exitUnreachable
	}
	return exitError
}

// arguments loads the configuration of a command, or prints its help if the arguments ask for it.
func arguments(t terminal, name string, args []string, extra func(*flag.FlagSet)) (config, []string, error) {
	cfg, rest, err := load(args, extra)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return cfg, nil, errors.Join(err, printCommandHelp(t.out, name, extra))
	case err != nil:
		return cfg, nil, usageError{err}
	}
	return cfg, rest, nil
}

// flagsOnly is arguments for a command that has flags and no other arguments.
func flagsOnly(t terminal, name string, args []string, extra func(*flag.FlagSet)) (config, error) {
	cfg, rest, err := arguments(t, name, args, extra)
	if err == nil && len(rest) > 0 {
		err = usageError{fmt.Errorf("unexpected argument %q", rest[0])}
	}
	return cfg, err
}

func printCommandHelp(w io.Writer, name string, extra func(*flag.FlagSet)) error {
	for _, c := range subcommands() {
		if c.name == name {
			fmt.Fprintf(w, "Usage: tailrace %s %s\n\n%s.\n", c.name, c.args, c.summary)
		}
	}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(w)
	if extra != nil {
		extra(flags)
		fmt.Fprintln(w)
		flags.PrintDefaults()
	}
	return printSettings(w, slices.DeleteFunc(settingsOf(&config{}), func(s setting) bool { return !s.isOf(name) || flags.Lookup(s.flagName()) != nil }))
}

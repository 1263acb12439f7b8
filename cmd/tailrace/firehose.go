package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/metrics"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/roles"
	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/subjects"
)

// firehoseFlags holds the flags of `tailrace firehose`.
type firehoseFlags struct {
	durable string
	exec    string
	ack     string
	tenant  string
	types   string
	view    string
	format  string
	ops     bool

	fromStart bool
	after     bool
	positions []consumers.PartitionPosition // of after; empty is the start
	since     time.Time
	until     time.Time
	noFollow  bool
}

func (f *firehoseFlags) register(flags *flag.FlagSet) {
	flags.StringVar(&f.durable, "durable", "", "durable consumer name; resume after the last acknowledged record; needs --exec or --ack")
	flags.StringVar(&f.exec, "exec", "", "command of the shell that gets the lines, and prints the position of the last line that it has stored")
	flags.StringVar(&f.ack, "ack", "", "when a record is acknowledged: stdin (its position, or that of a later line, is read from standard input) or written (its line was written; what is in the pipe of a reader that dies is lost)")
	flags.BoolVar(&f.fromStart, "from-start", false, "start with the oldest record instead of the next one; with --durable, at its first use only")
	flags.Func("after", "without --durable: start after this `position`, which the last line of an earlier firehose or, with one partition, any line has; if empty, with the oldest record", f.setAfter)
	flags.Func("since", "start with the records that were stored at this `time`, in RFC 3339, or within an age such as 24h; with --durable, at its first use only", timeOrAge(&f.since))
	flags.Func("until", "end before the records that were stored at this `time` or later, in RFC 3339 or as an age; without a start, from the oldest record on", timeOrAge(&f.until))
	flags.BoolVar(&f.noFollow, "no-follow", false, "end at the present end of the log; without a start, from the oldest record on, with --durable after the last acknowledged one")
	flags.StringVar(&f.tenant, "tenant", "", "sessions of this tenant only; if empty, of all tenants")
	flags.StringVar(&f.types, "types", "", "comma-separated chunk types; if empty, all types")
	flags.StringVar(&f.view, "view", "", "show what this `view` of VIEWS shows, and leave out the records that it hides; if empty, everything")
	flags.StringVar(&f.format, "format", "", "json (a line for each record), cloudevents (a structured event on each line) or text (default: text on a terminal, json otherwise)")
	flags.BoolVar(&f.ops, "ops", false, "serve probes and metrics on OPS_LISTEN, with the lag of the durable consumer; needs --durable")
}

// setAfter parses positions that are separated by commas.
func (f *firehoseFlags) setAfter(text string) error {
	f.after = true
	for text != "" {
		var one string
		one, text, _ = strings.Cut(text, ",")
		at, err := consumers.ParsePartitionPosition(one)
		if err != nil {
			return err
		}
		f.positions = append(f.positions, at)
	}
	return nil
}

// timeOrAge returns a function that parses a time, or an age.
func timeOrAge(to *time.Time) func(string) error {
	return func(text string) (err error) {
		if age, wrong := time.ParseDuration(text); wrong == nil && age >= 0 {
			*to = time.Now().Add(-age)
			return nil
		}
		if *to, err = time.Parse(time.RFC3339, text); err != nil {
			err = errors.New("want a time in RFC 3339, or an age such as 24h")
		}
		return err
	}
}

// Values of --ack.
const (
	ackStdin   = "stdin"
	ackWritten = "written"
)

// errNoAck is the error of a durable firehose whose reader may lose records.
var errNoAck = errors.New("--durable needs to know when a line is stored: want --exec COMMAND (the command gets the lines, and prints the position of the last one that it has stored), " +
	"--ack stdin (standard input has these positions) or --ack written (a line that was written is stored: what is in the pipe of a reader that dies is lost)")

// check completes the flags, and returns what is wrong with them.
func (f *firehoseFlags) check(t terminal) error {
	if err := cmp.Or(checkIfSet("durable", f.durable), checkIfSet("tenant", f.tenant)); err != nil {
		return err
	}
	confirms := f.exec != "" || f.ack == ackStdin
	starts := 0
	for _, set := range []bool{f.fromStart, f.after, !f.since.IsZero()} {
		if set {
			starts++
		}
	}
	switch {
	case f.durable != "" && f.after:
		return errors.New("--after is for a firehose without --durable, whose position the server has: want --since or --from-start, which apply at the first use of the name")
	case starts > 1:
		return errors.New("want one of --from-start, --after and --since")
	case f.ops && f.durable == "":
		return errors.New("--ops needs --durable")
	case f.durable == "" && (f.exec != "" || f.ack != ""):
		return errors.New("--exec and --ack need --durable")
	case f.ack != "" && f.ack != ackStdin && f.ack != ackWritten:
		return fmt.Errorf("--ack is %q, want stdin or written", f.ack)
	case f.exec != "" && f.ack != "":
		return errors.New("want --exec or --ack, not both")
	case f.durable != "" && !confirms && f.ack == "" && !t.isInteractive():
		return errNoAck
	}
	if f.format == "" {
		f.format = formatJSON
		if t.isInteractive() && !confirms {
			f.format = formatText
		}
	}
	switch {
	case !slices.Contains([]string{formatJSON, formatCloudEvents, formatText}, f.format):
		return fmt.Errorf("--format is %q, want json, cloudevents or text", f.format)
	case confirms && f.format == formatText:
		return errors.New("--format text has no positions: want json or cloudevents with --exec and --ack stdin")
	}
	return nil
}

func runFirehose(ctx context.Context, t terminal, args []string) error {
	var f firehoseFlags
	cfg, err := flagsOnly(t, "firehose", args, f.register)
	if err != nil {
		return err
	}
	if err := f.check(t); err != nil {
		return usageError{err}
	}
	views, err := cfg.views()
	if err != nil {
		return err
	}
	shown := views.Get(f.view)
	if f.view != "" && shown == nil {
		return usageError{fmt.Errorf("--view is %q, want the name of a view in the file of VIEWS", f.view)}
	}
	b, err := connectCommand(ctx, t, natsauth.Analytics, cfg)
	if err != nil {
		return err
	}
	defer b.close()
	return f.run(ctx, t, b, shown)
}

func (f *firehoseFlags) run(ctx context.Context, t terminal, b *app, shown *view.Compiled) error {
	reader, err := b.NewReader()
	if err != nil {
		return err
	}
	bounded := f.noFollow || !f.until.IsZero()
	config := consumers.FirehoseConfig{
		Name: f.durable, Tenant: f.tenant, FromLatest: !f.fromStart && !bounded && !f.after, After: f.positions, Since: f.since, Until: f.until, NoFollow: f.noFollow,
	}
	if f.types != "" {
		config.Types = splitTypes(f.types)
	}
	if shown != nil {
		config.View = shown.Record
	}
	if f.durable != "" { // a closed pipe is an error, and does not end the process before it has released its partitions
		broken := make(chan os.Signal, 1)
		signal.Notify(broken, syscall.SIGPIPE)
		defer signal.Stop(broken)
	}
	out := &firehoseOutput{signal: ctx}
	var confirmed *confirmedReader
	if f.exec != "" || f.ack == ackStdin {
		config.Unconfirmed = maxUnconfirmed
		if confirmed, err = newConfirmedReader(ctx, t, f.exec, out); err != nil {
			return err
		}
		config.OnHandled = func() { close(confirmed.handled) }
	} else {
		out.to = t.out
	}
	if out.printer, err = f.printer(ctx, reader, b.cfg.layout(), out.to); err != nil {
		return err
	}
	config.OnGap = out.gap
	firehose, err := reader.Firehose(config)
	if err != nil {
		return usageError{err}
	}
	running := ctx
	if confirmed != nil { // it may confirm what it has stored after the signal
		running = context.WithoutCancel(ctx)
	}
	services, watched := errgroup.WithContext(running)
	if f.ops {
		if err := b.serveFirehose(watched, services, reader, firehose); err != nil {
			return err
		}
	}
	services.Go(func() error { return cmp.Or(firehose.Run(watched, out.print), errEnd) })
	if confirmed != nil {
		services.Go(func() error { return confirmed.run(ctx, watched, firehose) })
	}
	err = services.Wait()
	switch {
	case errors.Is(err, errEnd):
		return errors.Join(confirmed.failed(), out.printer.end(firehose.Positions()))
	case ctx.Err() == nil:
		return errors.Join(err, out.printer.end(nil))
	}
	return out.printer.end(firehose.Positions())
}

// errEnd ends the other services of a firehose at the end of its range.
var errEnd = errors.New("end of the range")

// printer returns the printer of the format.
func (f *firehoseFlags) printer(ctx context.Context, reader *consumers.Reader, layout subjects.Layout, to io.Writer) (firehosePrinter, error) {
	if f.format == formatText {
		return &firehoseText{textPrinter{out: to}}, nil
	}
	lines := &firehoseLines{out: to, layout: layout}
	if f.format == formatCloudEvents {
		for p := range layout.PartitionCount() {
			tip, err := reader.Tip(ctx, p)
			if err != nil {
				return nil, err
			}
			lines.epochs = append(lines.epochs, tip.StreamEpoch)
		}
	}
	return lines, nil
}

// lagInterval is the interval of the measurements of the lag.
const lagInterval = 15 * time.Second

// serveFirehose adds the ops listener and what it reports to the services of a durable firehose. The streams were checked before.
func (b *app) serveFirehose(ctx context.Context, services *errgroup.Group, reader *consumers.Reader, firehose *consumers.Firehose) error {
	measured := metrics.RegisterFirehose(b.metrics, reader)
	ops, err := b.newOps(ctx)
	if err != nil {
		return err
	}
	b.conditions.streams.Store(true)
	b.watchConnection()
	ops.assemble(b)
	services.Go(func() error { return ops.runUntil(ctx) })
	services.Go(func() error { return b.monitor.Run(ctx) })
	services.Go(func() error {
		b.wakeMonitor(ctx)
		return nil
	})
	services.Go(func() error {
		roles.Measure(ctx, b.log, lagInterval, "firehose lag not measured", func(ctx context.Context) error {
			lags, err := firehose.Lag(ctx) // fails until Run has created the consumers
			measured(lags)
			return err
		})
		return nil
	})
	return nil
}

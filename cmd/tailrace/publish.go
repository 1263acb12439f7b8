package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/ingestion"
	"github.com/tailrace/tailrace/internal/jsingest"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/subjects"
)

// publishFlags are the flags of `tailrace publish`.
type publishFlags struct {
	session   string
	agentType string
	dialect   string
	message   string
	run       string
	model     string
	provider  string
	lax       bool
	keepGoing bool
	fill      bool
	noEnd     bool
	takeOver  bool
}

func (p *publishFlags) register(flags *flag.FlagSet) {
	flags.StringVar(&p.session, "session", "", "session to write to (required)")
	flags.StringVar(&p.agentType, "agent-type", "cli", "agentType of the records of the run, and of chunks without one")
	flags.StringVar(&p.dialect, "dialect", "", "dialect of the input, JSON lines or server-sent events: native, agui, aisdk, anthropic, kortyx, langgraph, mastra or openai (default: that of the first line)")
	flags.StringVar(&p.message, "message", "", "message of the user that the run answers")
	flags.StringVar(&p.run, "run", "", "id of the run (default: a new one)")
	flags.StringVar(&p.model, "model", "", "name of the model of the run, for input that names none")
	flags.StringVar(&p.provider, "provider", "", "provider of the model, such as openai")
	flags.BoolVar(&p.lax, "allow-unknown", false, "accept chunk types that do not exist, and a first line that looks like another dialect's")
	flags.BoolVar(&p.keepGoing, "keep-going", false, "continue after an invalid line; the exit code is still 1")
	flags.BoolVar(&p.fill, "fill", false, "has no effect: missing members are always added")
	flags.BoolVar(&p.noEnd, "no-end", false, "leave the stream open at the end of the input")
	flags.BoolVar(&p.takeOver, "take-over", false, "fence the run that is still open")
}

func (p *publishFlags) check() error {
	if p.session == "" {
		return errors.New("want --session ID and chunks on standard input")
	}
	if p.dialect != "" && !slices.Contains(dialect.Names(), p.dialect) {
		text, _ := dialect.Unknown(p.dialect, dialect.Names())
		return errors.New(text)
	}
	for name, value := range map[string]string{"model": p.model, "provider": p.provider} {
		if value != "" && chunk.LabelOf(value) == nil {
			return fmt.Errorf("--%s: want at most %d bytes of text without control characters", name, chunk.MaxLabel)
		}
	}
	return cmp.Or(subjects.CheckID("session", p.session), checkIfSet("run", p.run))
}

func runPublish(ctx context.Context, t terminal, args []string) error {
	var p publishFlags
	cfg, err := flagsOnly(t, "publish", args, p.register)
	if err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return usageError{err}
	}
	b, err := connectCommand(ctx, t, natsauth.Worker, cfg)
	if err != nil {
		return err
	}
	defer b.close()
	producer, err := b.NewProducer(b.cfg.producerConfig())
	if err != nil {
		return err
	}
	reaper, err := b.Reaper()
	if err != nil {
		return err
	}
	runs := jsingest.New(producer, dialects.NewTranslator)
	runs.OnEnd(reaper.StartQueued)
	open := func(dialect string) (*jsingest.Publisher, error) {
		return runs.NewPublisher(jsingest.PublisherConfig{
			Session: chunk.RootSession(cfg.Tenant, p.session), AgentType: p.agentType, TakeOver: p.takeOver, Dialect: dialect,
			Message: p.message, RunID: p.run, Model: p.model, Provider: p.provider, Lax: p.lax,
		})
	}
	pub := &publisher{flags: p, open: open, report: func(line int64, err error) { fmt.Fprintf(t.err, "line %d: %v\n", line, err) }}
	err = errors.Join(pub.run(ctx, t.in), producer.Close())
	if err == nil {
		fmt.Fprintf(t.err, "%d chunks stored in session %s\n", pub.accepted, p.session)
	}
	return err
}

// publisher writes the lines of one input.
type publisher struct {
	flags    publishFlags
	open     func(dialect string) (*jsingest.Publisher, error)
	to       *jsingest.Publisher // nil before the first line
	report   func(line int64, err error)
	accepted int
	bad      int
}

// maxLine limits a line of input. The producer rejects a chunk of much smaller
// size with a better error.
const maxLine = 44 << 20

func (p *publisher) run(ctx context.Context, in io.Reader) error {
	input := bufio.NewReader(in)
	lines := ingestion.NewLines(input, formatOf(input), maxLine, nil)
	for {
		text, n, err := lines.Next()
		switch {
		case err == nil && p.to == nil && len(bytes.TrimSpace(text)) == 0:
			continue
		case errors.Is(err, io.EOF) && p.to == nil:
			return errors.New("nothing on standard input: no run was opened")
		case errors.Is(err, io.EOF):
			return p.finish(ctx, true, p.end(ctx, n))
		case err != nil && p.to == nil:
			return fmt.Errorf("line %d: %w", n, err)
		case err != nil:
			return p.finish(ctx, false, fmt.Errorf("line %d: %w", n, err))
		}
		if p.to == nil {
			if p.to, err = p.open(cmp.Or(p.flags.dialect, dialect.Guess(text), dialect.Native)); err != nil {
				return err
			}
		}
		err = p.to.Line(ctx, text)
		switch text = bytes.TrimSpace(text); {
		case err == nil:
			for _, w := range p.to.Warnings() {
				p.report(n, errors.New(w.String()))
			}
			if len(text) > 0 && text[0] == '{' { // not [DONE]
				p.accepted++
			}
			continue
		case fatal(err) || ctx.Err() != nil:
			return fmt.Errorf("line %d: %w", n, err)
		}
		p.bad++
		p.report(n, err)
		if !p.flags.keepGoing {
			return p.stop(ctx, n)
		}
	}
}

// stop ends an input at an invalid line. The error says what is stored.
func (p *publisher) stop(ctx context.Context, line int64) error {
	if err := p.to.Finish(ctx, false); err != nil {
		return fmt.Errorf("stopped at line %d: %w", line, err)
	}
	if p.accepted == 0 {
		return fmt.Errorf("stopped at line %d: nothing is stored; --keep-going skips invalid lines", line)
	}
	return fmt.Errorf("stopped at line %d: %d lines are stored and the stream is open; --keep-going skips invalid lines, --take-over continues an open stream", line, p.accepted)
}

// formatOf returns the format of an input. The lines of server-sent events begin
// with the name of a field, and those of JSON with a brace.
func formatOf(in *bufio.Reader) ingestion.Format {
	for n := 1; ; n++ {
		start, err := in.Peek(n)
		switch text := bytes.TrimLeft(start, " \t\r\n"); {
		case len(text) > 0 && strings.IndexByte(":deir", text[0]) >= 0:
			return ingestion.SSE
		case len(text) > 0 || err != nil:
			return ingestion.NDJSON
		}
	}
}

// end returns the error of an input that was read to its end.
func (p *publisher) end(ctx context.Context, lines int64) error {
	err := p.to.EndOfInput(ctx)
	if p.bad > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d lines rejected", p.bad, lines))
	}
	return err
}

// fatal reports whether err ends the run: the writer is fenced or the outcome of
// a write is unknown.
func fatal(err error) bool {
	return errors.Is(err, chunk.ErrFenced) || errors.Is(err, chunk.ErrUnknownOutcome) || errors.Is(err, producers.ErrRunning)
}

// finish stores the queued chunks and, if the input was read to its end, ends
// the open runs.
func (p *publisher) finish(ctx context.Context, end bool, cause error) error {
	return errors.Join(cause, p.to.Finish(ctx, end && !p.flags.noEnd))
}

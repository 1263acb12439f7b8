package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/subjects"
)

// publishFlags are the flags of `tailrace publish`.
type publishFlags struct {
	session   string
	agentType string
	keepGoing bool
	fill      bool
	noEnd     bool
	takeOver  bool
}

func (p *publishFlags) register(flags *flag.FlagSet) {
	flags.StringVar(&p.session, "session", "", "session to write to (required)")
	flags.StringVar(&p.agentType, "agent-type", "cli", "agentType of the records of the run, and of chunks without one (--fill)")
	flags.BoolVar(&p.keepGoing, "keep-going", false, "continue after an invalid line; the exit code is still 1")
	flags.BoolVar(&p.fill, "fill", false, "add missing agentId, agentType and timestamp")
	flags.BoolVar(&p.noEnd, "no-end", false, "leave the stream open at the end of the input")
	flags.BoolVar(&p.takeOver, "take-over", false, "fence the run that is still open")
}

func runPublish(ctx context.Context, t terminal, args []string) error {
	var p publishFlags
	cfg, rest, err := arguments(t, "publish", args, p.register)
	if err != nil {
		return err
	}
	if len(rest) > 0 || p.session == "" {
		return usageError{errors.New("want --session ID and chunks on standard input")}
	}
	if err := subjects.CheckToken("session", p.session); err != nil {
		return usageError{err}
	}
	b, err := connect(natsauth.Worker, cfg, cfg.logger(t.err))
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.ensureTopology(ctx); err != nil {
		return err
	}
	producer, err := b.producer()
	if err != nil {
		return err
	}
	pub := &publisher{
		flags:    p,
		producer: producer,
		root:     chunk.RootSession(cfg.Tenant, p.session),
		runs:     map[string]*producers.Run{},
		aliases:  map[string]string{},
		report:   func(line int, err error) { fmt.Fprintf(t.err, "line %d: %v\n", line, err) },
	}
	err = errors.Join(pub.run(ctx, t.in), producer.Close())
	if err == nil {
		fmt.Fprintf(t.err, "%d chunks stored in session %s\n", pub.accepted, p.session)
	}
	return err
}

// publisher writes the lines of one input. The chunks of sub-agents in an
// interleaved stream are written to separate sessions under the root.
type publisher struct {
	flags    publishFlags
	producer *producers.Producer
	root     chunk.Session
	runs     map[string]*producers.Run // open runs by session id
	aliases  map[string]string         // agentId of the input -> session id
	report   func(line int, err error)
	accepted int
	bad      int
}

// maxLine limits a line of input. The producer rejects a chunk of much smaller
// size with a better error.
const maxLine = 16 << 20

func (p *publisher) run(ctx context.Context, in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	n := 0
	for lines.Scan() {
		n++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if err := p.line(ctx, lines.Bytes()); err != nil {
			if fatal(err) || ctx.Err() != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
			p.bad++
			p.report(n, err)
			if !p.flags.keepGoing {
				return p.finish(ctx, false, fmt.Errorf("stopped at line %d and left the stream open: --keep-going skips invalid lines, --take-over continues an open stream", n))
			}
		}
	}
	if err := lines.Err(); err != nil {
		return p.finish(ctx, false, fmt.Errorf("line %d: %w", n+1, err))
	}
	if p.bad > 0 {
		return p.finish(ctx, true, fmt.Errorf("%d of %d lines rejected", p.bad, n))
	}
	return p.finish(ctx, true, nil)
}

// fatal reports whether err ends the run: the writer is fenced or the outcome of
// a write is unknown.
func fatal(err error) bool {
	return errors.Is(err, chunk.ErrFenced) || errors.Is(err, chunk.ErrUnknownOutcome) || errors.Is(err, producers.ErrRunning)
}

// finish flushes the queued chunks and, if the input was read to its end, ends
// the open runs, children first.
func (p *publisher) finish(ctx context.Context, end bool, cause error) error {
	errs := []error{cause}
	for id, run := range p.runs {
		if id != p.root.ID {
			errs = append(errs, p.close(ctx, run, end))
		}
	}
	if run := p.runs[p.root.ID]; run != nil {
		errs = append(errs, p.close(ctx, run, end))
	}
	return errors.Join(errs...)
}

func (p *publisher) close(ctx context.Context, run *producers.Run, end bool) error {
	_, err := run.Flush(ctx)
	if err == nil && end && !p.flags.noEnd {
		err = run.End(ctx, nil)
	}
	return errors.Join(err, run.Close())
}

func (p *publisher) line(ctx context.Context, line []byte) error {
	c, err := p.decode(line)
	if err != nil {
		return err
	}
	session, err := p.sessionOf(c)
	if err != nil {
		return err
	}
	c.AgentID = session.ID
	if err := p.write(ctx, session, c); err != nil {
		return err
	}
	p.accepted++
	return nil
}

func (p *publisher) write(ctx context.Context, session chunk.Session, c chunk.Chunk) error {
	if started, ok := c.Body.(chunk.RunStarted); ok {
		return p.start(ctx, session, c.AgentType, started)
	}
	run := p.runs[session.ID]
	if run == nil {
		if err := p.start(ctx, session, c.AgentType, chunk.RunStarted{Mode: "execute"}); err != nil {
			return err
		}
		run = p.runs[session.ID]
	}
	switch body := c.Body.(type) {
	case chunk.StreamEnd:
		var output chunk.Value
		if body.FinalOutput != nil {
			output = *body.FinalOutput
		}
		return p.ended(session, run.End(ctx, output))
	case chunk.StreamFailed:
		return p.ended(session, run.Fail(ctx, body.Error, body.ErrorDetail))
	case chunk.StreamPaused:
		reason := ""
		if body.Reason != nil {
			reason = *body.Reason
		}
		return run.Pause(ctx, reason)
	case chunk.StreamActive:
		return run.Activate(ctx)
	case chunk.Truncated:
		return errors.New("type truncated: cannot be published, it records a cleanup of its own log")
	case chunk.SubagentStart:
		// Stored before the first record of the child: readers of the tree find
		// the sub-agent before its chunks.
		p.aliases[body.SubSessionID] = body.SubSessionID
		_, err := run.Write(ctx, c)
		return err
	case chunk.SubagentEnd:
		if err := p.endChild(ctx, body.SubSessionID); err != nil {
			return err
		}
	}
	return run.Emit(ctx, c)
}

// endChild ends the stream of a sub-agent when its parent reports its end,
// unless the input did so.
func (p *publisher) endChild(ctx context.Context, id string) error {
	run := p.runs[id]
	if run == nil || id == p.root.ID {
		return nil
	}
	delete(p.runs, id)
	return p.close(ctx, run, true)
}

func (p *publisher) ended(session chunk.Session, err error) error {
	run := p.runs[session.ID]
	delete(p.runs, session.ID)
	return errors.Join(err, run.Close())
}

func (p *publisher) start(ctx context.Context, s chunk.Session, agentType string, started chunk.RunStarted) error {
	if old := p.runs[s.ID]; old != nil {
		if err := p.close(ctx, old, true); err != nil {
			return err
		}
		delete(p.runs, s.ID)
	}
	if agentType == "" {
		agentType = p.flags.agentType
	}
	opts := []producers.StartOption{producers.AgentType(agentType)}
	if p.flags.takeOver {
		opts = append(opts, producers.TakeOver())
	}
	run, err := p.producer.Start(ctx, s, started, opts...)
	if err != nil {
		return err
	}
	p.runs[s.ID] = run
	return nil
}

// decode decodes a line: a chunk, or an object of `tailrace tail` with the
// chunk in "chunk", so that a session can be piped into another one.
func (p *publisher) decode(line []byte) (chunk.Chunk, error) {
	var envelope struct {
		Type  *string         `json:"type"`
		Chunk json.RawMessage `json:"chunk"`
	}
	if json.Unmarshal(line, &envelope) == nil && envelope.Type == nil && len(envelope.Chunk) > 0 {
		line = envelope.Chunk
	}
	if p.flags.fill {
		line = p.filled(line)
	}
	return chunk.Decode(line)
}

// filled adds the missing base members to line. A line that is not an object is
// returned unchanged; Decode reports the error.
func (p *publisher) filled(line []byte) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(line, &members) != nil {
		return line
	}
	var missing []byte
	add := func(name, value string) {
		if _, exists := members[name]; !exists {
			missing = append(missing, fmt.Sprintf("%q:%s,", name, value)...)
		}
	}
	add("agentId", fmt.Sprintf("%q", p.root.ID))
	add("agentType", fmt.Sprintf("%q", p.flags.agentType))
	add("timestamp", strconv.FormatInt(time.Now().UnixMilli(), 10))
	open := 0
	for line[open] != '{' {
		open++
	}
	if len(members) == 0 && len(missing) > 0 {
		missing = missing[:len(missing)-1]
	}
	out := append([]byte{}, line[:open+1]...)
	return append(append(out, missing...), line[open+1:]...)
}

// sessionOf returns the session of a chunk: the first agent of the input is the
// root; every other agent must have been started by a subagent_start.
func (p *publisher) sessionOf(c chunk.Chunk) (chunk.Session, error) {
	if len(p.aliases) == 0 {
		p.aliases[c.AgentID] = p.root.ID
	}
	id, known := p.aliases[c.AgentID]
	if !known {
		return chunk.Session{}, fmt.Errorf("agentId %q: want the input's first agent or the subSessionId of a subagent_start before it", c.AgentID)
	}
	if id == p.root.ID {
		return p.root, nil
	}
	return p.root.Child(id), subjects.CheckToken("subSessionId", id)
}

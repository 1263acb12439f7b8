package jsingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/ingestion"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/subjects"
)

// Publisher writes the lines of one input that is read once, from its start, such as a pipe. The chunks of sub-agents are written to sessions of their own below
// the root. It differs from the writer of requests: its records have no positions, the input may name its first agent as it likes, and run_started lines start runs.
// A Publisher is for one goroutine.
type Publisher struct {
	*Service

	cfg        PublisherConfig
	begun      bool             // a line was read
	translator codec.Translator // nil for native lines

	warnings []ingestion.Warning // about the last line
	calls    ingestion.Calls

	sessions map[string]*published // by session id, those that had records
	aliases  map[string]string     // agentId of the input -> session id
}

// published is a session of a Publisher.
type published struct {
	run       *producers.Run // nil if none is open
	agentType string         // of the last record
	step      int64          // likewise
	failed    bool           // the last run has failed
}

// PublisherConfig configures a Publisher.
type PublisherConfig struct {
	Session   chunk.Session
	AgentType string // of runs and chunks that do not name one
	TakeOver  bool   // fences a run that is open
	Dialect   string // "" or "native" for chunks of the log
	Message   string // what the first run answers; "" for nothing
	RunID     string // of the first run; "" for a new one
	Model     string // of the runs of the session that no line starts; "" if it is not known
	Provider  string // likewise
	Lax       bool   // see ingestion.Request
}

// NewPublisher returns a Publisher.
func (s *Service) NewPublisher(cfg PublisherConfig) (*Publisher, error) {
	p := &Publisher{Service: s, cfg: cfg, sessions: map[string]*published{}, aliases: map[string]string{}}
	if cfg.Dialect == "" || cfg.Dialect == dialect.Native {
		return p, nil
	}
	var ok bool
	p.translator, ok = s.newTranslator(cfg.Dialect, codec.Run{Session: cfg.Session.ID, AgentType: cfg.AgentType})
	if !ok {
		text, _ := dialect.Unknown(cfg.Dialect, dialect.Names())
		return nil, errors.New(text)
	}
	return p, nil
}

// Line writes a line: a chunk, in the dialect of the input, or an object of `tailrace tail` with the chunk in "chunk", so that a session can be piped into another
// one. A blank line has no effect. A nil error means queued.
func (p *Publisher) Line(ctx context.Context, text []byte) error {
	switch {
	case isBlank(text) || p.translator == nil && isDone(text):
		return nil
	case p.translator != nil:
		if guess, fits := dialect.Fits(p.cfg.Dialect, text); !p.begun && !p.cfg.Lax && !fits && !isDone(text) {
			return fmt.Errorf("the first line looks like %s: leave out --dialect, or use --dialect %s", guess, guess)
		}
		p.begun = true
	default:
		return p.native(ctx, text)
	}
	chunks, err := translate(p.translator, p.cfg.Dialect, text)
	if err != nil {
		return err
	}
	return p.writeAll(ctx, chunks)
}

// Warnings returns the warnings about the last line that was written, without its number.
func (p *Publisher) Warnings() []ingestion.Warning { return p.warnings }

// EndOfInput writes what follows from the end of the input.
func (p *Publisher) EndOfInput(ctx context.Context) error {
	if p.translator == nil {
		return nil
	}
	return p.writeAll(ctx, p.translator.End())
}

func (p *Publisher) writeAll(ctx context.Context, chunks []chunk.Chunk) error {
	for _, c := range chunks {
		if err := p.write(ctx, p.cfg.Session.Child(c.AgentID), c); err != nil {
			return err
		}
	}
	return nil
}

func (p *Publisher) native(ctx context.Context, text []byte) error {
	c, session, err := p.decode(text)
	if err != nil {
		return err
	}
	if err = p.write(ctx, session, c); err != nil {
		return err
	}
	p.warnings = p.calls.Warnings(0, text, c)
	return nil
}

// decode decodes a line, with the members that it leaves out, and returns the session that it is for.
func (p *Publisher) decode(text []byte) (chunk.Chunk, chunk.Session, error) {
	if rawjson.Get(text, "type") == nil {
		if inner := rawjson.Get(text, "chunk"); inner != nil {
			text = inner
		}
	}
	o, ok := ingestion.Outlined(text)
	if !ok {
		c, err := chunk.Decode(text) // the error says what is wrong
		return c, p.cfg.Session, err
	}
	if unknown, _ := o.UnknownType(); unknown != "" && !p.cfg.Lax {
		return chunk.Chunk{}, p.cfg.Session, errors.New(unknown)
	}
	session := p.cfg.Session
	if o.AgentID != "" {
		var err error
		if session, err = p.sessionOf(o.AgentID); err != nil {
			return chunk.Chunk{}, session, err
		}
	}
	base := ingestion.Base{AgentID: session.ID, AgentType: p.cfg.AgentType, Timestamp: time.Now().UnixMilli()}
	if s := p.sessions[session.ID]; s != nil {
		base.AgentType, base.Step = s.agentType, s.step
	}
	c, err := chunk.DecodeUnstored(o.Filled(base))
	c.AgentID = session.ID
	return c, session, err
}

// sessionOf returns the session of an agent: the first agent of the input is the root; every other one must have been started by a subagent_start.
func (p *Publisher) sessionOf(agent string) (chunk.Session, error) {
	if len(p.aliases) == 0 {
		p.aliases[agent] = p.cfg.Session.ID
	}
	id, known := p.aliases[agent]
	if !known {
		return chunk.Session{}, fmt.Errorf("agentId %q: want the input's first agent or the subSessionId of a subagent_start before it", agent)
	}
	return p.cfg.Session.Child(id), subjects.CheckID("subSessionId", id)
}

func (p *Publisher) write(ctx context.Context, session chunk.Session, c chunk.Chunk) error {
	if started, ok := c.Body.(chunk.RunStarted); ok {
		return p.start(ctx, session, c.AgentType, started)
	}
	s := p.sessions[session.ID]
	if t := c.Type(); s != nil && s.run == nil && t.Terminal() { // of two ends the worse one counts
		if s.failed || t == chunk.TypeStreamEnd {
			return nil
		}
		return fmt.Errorf("%s: %w", t, producers.ErrEnded)
	}
	if s == nil || s.run == nil {
		started := chunk.RunStarted{Mode: "execute"}
		if session.ID == p.cfg.Session.ID {
			started.Model, started.Provider = chunk.LabelOf(p.cfg.Model), chunk.LabelOf(p.cfg.Provider)
		}
		if session.ID == p.cfg.Session.ID && len(p.sessions) == 0 {
			started.RunID = p.cfg.RunID
			if p.cfg.Message != "" {
				started.Input = []chunk.InputMessage{{Content: p.cfg.Message}}
			}
		}
		if err := p.start(ctx, session, c.AgentType, started); err != nil {
			return err
		}
		s = p.sessions[session.ID]
	}
	s.run.SetStep(c.Step)
	s.step = c.Step
	if c.AgentType != "" {
		s.run.SetAgentType(c.AgentType)
		s.agentType = c.AgentType
	}
	if done, err := transition(ctx, s.run, c.Body); done {
		if t := c.Type(); t == chunk.TypeStreamEnd || t == chunk.TypeStreamFailed {
			s.failed = t == chunk.TypeStreamFailed
			err = errors.Join(err, s.close())
		}
		return err
	}
	switch body := c.Body.(type) {
	case chunk.Truncated:
		return errTruncated
	case chunk.SubagentStart:
		// Stored before the first record of the child: readers of the tree find the sub-agent before its chunks.
		p.aliases[body.SubSessionID] = body.SubSessionID
		_, err := s.run.Write(ctx, c)
		return err
	case chunk.SubagentEnd:
		if child := p.sessions[body.SubSessionID]; child != nil && child != s && body.SubSessionID != p.cfg.Session.ID {
			if err := child.finish(ctx, true); err != nil {
				return err
			}
		}
	}
	return s.run.Emit(ctx, c)
}

var errTruncated = &chunk.FieldError{Type: chunk.TypeTruncated, Field: "type", Want: "no record of a cleanup of its own log"}

// transition writes a chunk that changes the state of a run; done is false for another chunk.
func transition(ctx context.Context, run *producers.Run, body chunk.Body) (done bool, err error) {
	switch body := body.(type) {
	case chunk.StreamEnd:
		var output chunk.Value
		if body.FinalOutput != nil {
			output = *body.FinalOutput
		}
		return true, run.End(ctx, output)
	case chunk.StreamFailed:
		return true, run.Fail(ctx, body.Error, body.ErrorDetail)
	case chunk.StreamPaused:
		reason := ""
		if body.Reason != nil {
			reason = *body.Reason
		}
		return true, run.Pause(ctx, reason)
	case chunk.StreamActive:
		return true, run.Activate(ctx)
	}
	return false, nil
}

// start starts a run of a session, and ends the one before.
func (p *Publisher) start(ctx context.Context, session chunk.Session, agentType string, started chunk.RunStarted) error {
	if s := p.sessions[session.ID]; s != nil {
		if err := s.finish(ctx, true); err != nil {
			return err
		}
	}
	if agentType == "" {
		agentType = p.cfg.AgentType
	}
	opts := []producers.StartOption{producers.AgentType(agentType)}
	if p.cfg.TakeOver {
		opts = append(opts, producers.TakeOver())
	}
	if session == p.cfg.Session {
		p.calls.Begin(started.Mode)
	}
	run, err := p.producer.Start(ctx, session, started, opts...)
	if err != nil {
		return err
	}
	p.sessions[session.ID] = &published{run: run, agentType: agentType}
	return nil
}

// finish stores what is queued, ends the run if end is set, and closes it.
func (s *published) finish(ctx context.Context, end bool) error {
	if s.run == nil {
		return nil
	}
	_, err := s.run.Flush(ctx)
	if err == nil && end {
		err = s.run.End(ctx, nil)
	}
	return errors.Join(err, s.close())
}

func (s *published) close() error {
	run := s.run
	s.run = nil
	return run.Close()
}

// Finish stores what is queued and, with end, ends the open runs, those of sub-agents first.
func (p *Publisher) Finish(ctx context.Context, end bool) error {
	var errs []error
	for id, s := range p.sessions {
		if id != p.cfg.Session.ID {
			errs = append(errs, s.finish(ctx, end))
		}
	}
	if s := p.sessions[p.cfg.Session.ID]; s != nil {
		errs = append(errs, s.finish(ctx, end))
		p.onEnd(ctx, p.cfg.Session)
	}
	return errors.Join(errs...)
}

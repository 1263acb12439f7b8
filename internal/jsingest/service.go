package jsingest

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/ingestion"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/tracing"
	"github.com/tailrace/tailrace/producers"
)

// NewTranslator returns a translator of the dialect with a name; false if there is none.
type NewTranslator func(name string, run codec.Run) (codec.Translator, bool)

// Service implements ingestion.Runs.
type Service struct {
	producer      *producers.Producer
	newTranslator NewTranslator
	onEnd         func(context.Context, chunk.Session)
}

// New returns a Service. Closing the producer ends its writers.
func New(producer *producers.Producer, newTranslator NewTranslator) *Service {
	return &Service{producer: producer, newTranslator: newTranslator, onEnd: func(context.Context, chunk.Session) {}}
}

// OnEnd sets what is called when a request has ended the run of a session, or has found it ended, and at the end of a Publisher: workers.Reaper.StartQueued. OnEnd
// must be called before the first request.
func (s *Service) OnEnd(f func(context.Context, chunk.Session)) { s.onEnd = f }

// Open implements ingestion.Runs.
func (s *Service) Open(ctx context.Context, o ingestion.Opening) (ingestion.State, bool, error) {
	if o.Started.RunID == "" {
		o.Started.RunID = rand.Text()
	}
	options := []producers.StartOption{producers.InputAt(codec.InputPosition{Run: o.Started.RunID})}
	if o.AgentType != "" {
		options = append(options, producers.AgentType(o.AgentType))
	}
	if o.TakeOver {
		options = append(options, producers.TakeOver())
	}
	for {
		h, err := s.producer.Head(ctx, o.Session)
		switch {
		case err == nil && runOf(h) == o.Started.RunID:
			return s.stateOf(ctx, h), true, nil
		case o.Fresh && (err == nil || errors.Is(err, producers.ErrNoRecord) && h.Ordinal > 0):
			return ingestion.State{}, false, &ingestion.RefusalError{Reason: ingestion.ReasonNoRun}
		case err == nil && !h.Idle() && !o.TakeOver:
			return ingestion.State{}, false, &ingestion.RefusalError{Reason: ingestion.ReasonOpen, Epoch: h.Epoch, Run: runOf(h)}
		case err != nil && !errors.Is(err, producers.ErrNoRecord):
			return ingestion.State{}, false, refusal(err)
		case h.Full:
			return ingestion.State{}, false, &ingestion.RefusalError{Reason: ingestion.ReasonLimit}
		}
		// With the position, a repetition of this request that is stored meanwhile is found and not started again.
		run, err := s.producer.Start(ctx, o.Session, o.Started, append(options, producers.ExpectPosition(h.Position()), producers.TraceParent(tracing.Parent(ctx)))...)
		if (errors.Is(err, producers.ErrPositionMismatch) || errors.Is(err, producers.ErrRunning)) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return ingestion.State{}, false, refusal(err)
		}
		at := run.Position()
		state := ingestion.State{Run: run.ID(), Epoch: run.Epoch(), Next: 1, Position: chunk.Cursor{Seq: at.Seq}, Status: ingestion.Active}
		return state, false, refusal(run.Close())
	}
}

// runOf returns the id of the run that h belongs to, "" if it was not opened here and h is not its first record.
func runOf(h producers.Head) string {
	if h.Input.Run != "" {
		return h.Input.Run
	}
	if started, ok := chunk.As[chunk.RunStarted](h.Chunk); ok {
		return started.RunID
	}
	return ""
}

func statusOf(typ chunk.Type) ingestion.Status {
	switch typ {
	case chunk.TypeStreamPaused:
		return ingestion.Paused
	case chunk.TypeStreamEnd:
		return ingestion.Ended
	case chunk.TypeStreamFailed:
		return ingestion.Failed
	}
	return ingestion.Active
}

func stateOf(h producers.Head) ingestion.State {
	lines := h.Input.Lines()
	state := ingestion.State{Run: runOf(h), Epoch: h.Epoch, Stored: lines, Next: lines + 1, Position: h.Cursor(), Status: statusOf(h.Type)}
	if h.Input.First > 0 && state.Status == ingestion.Active {
		state.Next = h.Input.First // a translator needs the response from its first line
	}
	return state
}

// State implements ingestion.Runs.
func (s *Service) State(ctx context.Context, of ingestion.Run) (ingestion.State, error) {
	h, err := s.head(ctx, of)
	if err != nil {
		return ingestion.State{}, err
	}
	return s.stateOf(ctx, h), nil
}

// stateOf is the function stateOf with the lines of sub-agents.
func (s *Service) stateOf(ctx context.Context, h producers.Head) ingestion.State {
	state := stateOf(h)
	if lines, _ := s.lines(ctx, h); lines > state.Stored {
		state.Stored = lines
		if h.Input.First == 0 {
			state.Next = lines + 1
		}
	}
	return state
}

// lines returns how many lines of the run of h are stored, and whether that is certain: sub-agents may have later lines than the session of the run.
func (s *Service) lines(ctx context.Context, h producers.Head) (lines int64, certain bool) {
	tree, err := s.producer.TreeInput(ctx, h.Session.Tree(), runOf(h), 0)
	return max(h.Input.Lines(), tree.Furthest.Lines()), tree.Complete && err == nil
}

// head returns the last record of a run.
func (s *Service) head(ctx context.Context, of ingestion.Run) (producers.Head, error) {
	h, err := s.producer.Head(ctx, of.Session)
	switch {
	case errors.Is(err, producers.ErrNoRecord):
		return h, &ingestion.RefusalError{Reason: ingestion.ReasonNoRun, Cause: err}
	case err != nil:
		return h, refusal(err)
	case of.Epoch != 0 && h.Epoch > of.Epoch:
		return h, &ingestion.RefusalError{Reason: ingestion.ReasonFenced, Epoch: h.Epoch, Run: runOf(h)}
	case runOf(h) == of.ID && (of.Epoch == 0 || of.Epoch == h.Epoch):
		return h, nil
	}
	return h, &ingestion.RefusalError{Reason: ingestion.ReasonNoRun}
}

// refusal returns err as a *ingestion.RefusalError.
func refusal(err error) error {
	if err == nil {
		return nil
	}
	if r, ok := errors.AsType[*ingestion.RefusalError](err); ok {
		return r
	}
	r := &ingestion.RefusalError{Cause: err}
	if fenced, ok := errors.AsType[*producers.FencedError](err); ok {
		r.Reason, r.Epoch = ingestion.ReasonFenced, fenced.By
		if fenced.By <= fenced.Epoch {
			r.Reason, r.Epoch = ingestion.ReasonSuperseded, 0
		}
		return r
	}
	if running, ok := errors.AsType[*producers.RunningError](err); ok {
		r.Reason, r.Epoch = ingestion.ReasonOpen, running.Epoch
		return r
	}
	switch {
	case errors.Is(err, producers.ErrEnded):
		r.Reason = ingestion.ReasonEnded
	case errors.Is(err, producers.ErrPaused):
		r.Reason = ingestion.ReasonPaused
	case errors.Is(err, producers.ErrSessionLimit):
		r.Reason = ingestion.ReasonLimit
	case errors.Is(err, chunk.ErrTooLarge):
		r.Reason = ingestion.ReasonTooLarge
	case errors.Is(err, chunk.ErrInvalid):
		r.Reason = ingestion.ReasonInvalid
		if field, ok := errors.AsType[*chunk.FieldError](err); ok {
			r.Text = field.Error()
		}
	case jsclient.IsNoStorage(err):
		r.Reason = ingestion.ReasonNoStorage
	}
	return r
}

// invalid returns the refusal of a line.
func invalid(line int64, text string) error {
	return &ingestion.RefusalError{Reason: ingestion.ReasonInvalid, Line: line, Text: text}
}

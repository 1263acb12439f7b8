package workers

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/projector/fold"
)

// progress is how far a run came, as the log has it.
type progress struct {
	step    int64       // last committed step of the turn, 0 before the first
	final   bool        // nothing follows it
	resumed bool        // run_resumed is said
	params  chunk.Value // what a marker kept
	output  chunk.Value // what the last step said that the output is
}

// progress reads the run that was taken over, from its first run_started.
func (t *Turn) progress(ctx context.Context) (progress, error) {
	var p progress
	if t.snap.Run.Started == 0 {
		return p, fmt.Errorf("session %s: run %s has no beginning in the log", t.cmd.Session, t.cmd.RunID)
	}
	if t.cmd.Kind == commands.Resume && !opensTurn(t.cmd) {
		p.step = t.snap.Run.Step // until run_resumed says it, no step of the run is begun
	}
	for rec, err := range t.w.log.Replay(ctx, t.cmd.Session, chunk.Position{Seq: t.floor}) {
		if err == nil {
			err = t.overtaken(rec.Epoch, rec.Seq)
		}
		if err != nil {
			return p, t.breaks(fmt.Errorf("read the run that is taken over: %w", err))
		}
		if err := p.note(rec); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p *progress) note(rec chunk.Record) error {
	switch rec.Type {
	case chunk.TypeRunResumed, chunk.TypeOutput, chunk.TypeStepCommitted, chunk.TypeTruncated, chunk.TypeSuspensionMarker:
	default:
		return nil
	}
	c, err := rec.Decode()
	if err != nil {
		return fmt.Errorf("sequence %d: %w", rec.Seq, err)
	}
	switch b := c.Body.(type) {
	case chunk.RunResumed:
		p.resumed, p.step = true, b.FromStepCount
	case chunk.StepCommitted:
		p.step, p.final = c.Step, isFinal(c)
	case chunk.Truncated:
		if b.TruncatedAtStep < p.step {
			p.step, p.final = b.TruncatedAtStep, false
		}
	case chunk.Output:
		p.output = b.Output // it is final: if its step counts, it is the last one
	case chunk.SuspensionMarker:
		if v := paramsOf(b); !v.IsNull() {
			p.params = v
		}
	}
	return nil
}

func isFinal(c chunk.Chunk) bool {
	for _, m := range c.Extra {
		if m.Name == memberFinal {
			return string(m.Value) == "true"
		}
	}
	return false
}

// recallParams finds what the run before this one was asked for with, if the
// command does not say and the log still knows.
func (t *Turn) recallParams(ctx context.Context, before fold.Snapshot) error {
	if !t.params.IsNull() {
		return nil
	}
	var p progress
	for rec, err := range t.w.log.Replay(ctx, t.cmd.Session, chunk.Position{Seq: before.Run.Started}) {
		if errors.Is(err, chunk.ErrTruncated) || errors.Is(err, chunk.ErrUnknownSession) {
			return nil // it has waited for longer than the log remembers
		}
		if err != nil {
			return t.breaks(err)
		}
		if rec.Type == chunk.TypeSuspensionMarker {
			if err := p.note(rec); err != nil {
				return err
			}
		}
	}
	t.params = p.params
	return nil
}

// keepParams writes what the run was asked for with, for the one that goes on
// with it.
func (t *Turn) keepParams(ctx context.Context, kind string, calls []string) error {
	if t.params.IsNull() {
		return nil
	}
	err := t.run.Emit(ctx, chunk.Chunk{AgentType: t.cmd.AgentType, Step: t.step, Body: marker(kind, calls, zeroTime, t.params)})
	if errors.Is(err, chunk.ErrTooLarge) || errors.Is(err, chunk.ErrInvalid) {
		t.log.WarnContext(ctx, "the parameters of the run do not fit into a record; the run that goes on with it has none", "error", err)
		return nil
	}
	return t.breaks(err)
}

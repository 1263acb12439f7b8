package workers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
)

// progress is the state of a run in the log.
type progress struct {
	step    int64       // last committed step of the turn, 0 before the first
	final   bool        // the step was marked final
	resumed bool        // run_resumed is written
	params  chunk.Value // from the last suspension marker
	output  chunk.Value // output of the last step
}

// progress reads the run that is taken over, from its first run_started.
func (t *Turn) progress(ctx context.Context) (progress, error) {
	var p progress
	if t.snap.Run.StartSeq == 0 {
		return p, fmt.Errorf("session %s: no run_started of run %s in the log", t.cmd.Session, t.cmd.RunID)
	}
	if t.cmd.Kind == control.Resume && !opensTurn(t.cmd) {
		p.step = t.snap.Run.Step // until run_resumed is written, the run has no steps of its own
	}
	for rec, err := range t.w.log.Replay(ctx, chunk.Range{Session: t.cmd.Session, After: chunk.Position{Seq: t.cleanupMinSeq}}) {
		if err == nil {
			err = t.checkFenced(rec.Epoch, rec.Seq)
		}
		if err != nil {
			return p, t.recordWriteErr(fmt.Errorf("takeover: read run: %w", err))
		}
		if err := p.apply(rec); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p *progress) apply(rec chunk.Record) error {
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
		p.output = b.Output // only a final step has output
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

// loadParams reads the parameters of the previous run, which starts at from, if there are none yet and the log
// still has them.
func (t *Turn) loadParams(ctx context.Context, from chunk.Seq) error {
	if !t.params.IsNull() {
		return nil
	}
	var p progress
	for rec, err := range t.w.log.Replay(ctx, chunk.Range{Session: t.cmd.Session, After: chunk.Position{Seq: from}}) {
		if errors.Is(err, chunk.ErrTruncated) || errors.Is(err, chunk.ErrUnknownSession) {
			return nil // the suspension was longer than the retention of the log
		}
		if err != nil {
			return t.recordWriteErr(err)
		}
		if rec.Type == chunk.TypeSuspensionMarker {
			if err := p.apply(rec); err != nil {
				return err
			}
		}
	}
	t.params = p.params
	return nil
}

// storeParams stores the parameters of the run for the run that resumes it.
func (t *Turn) storeParams(ctx context.Context, kind string, calls []string) error {
	if t.params.IsNull() {
		return nil
	}
	err := t.run.Emit(ctx, chunk.Chunk{AgentType: t.cmd.AgentType, Step: t.step, Body: suspensionMarker(kind, calls, time.Time{}, t.params)})
	if errors.Is(err, chunk.ErrTooLarge) || errors.Is(err, chunk.ErrInvalid) {
		t.log.WarnContext(ctx, "run parameters not stored: record limit exceeded", "error", err)
		return nil
	}
	return t.recordWriteErr(err)
}

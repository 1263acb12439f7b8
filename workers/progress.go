package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
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
	known   bool        // step is certain, since nothing has left the log or a record has it
	open    int64       // until then the step of the first chunk, whose commit was not read; 0 for none
}

// progress reads the run that is taken over, from its first run_started. If the first records have left the log, nothing of their steps can be removed: the run
// continues after the last step of which the log has no chunk.
func (t *Turn) progress(ctx context.Context) (progress, error) {
	var p progress
	if t.cmd.Kind == control.Resume && !opensTurn(t.cmd) {
		p.step = t.snap.Run.Step // until run_resumed is written, the run has no steps of its own
	}
	lost := false
	for rec, err := range t.w.replayRun(ctx, t.cmd.Session, t.cleanupMinSeq, &lost) {
		if err == nil {
			err = t.checkFenced(rec.Epoch, rec.Seq)
		}
		if err != nil {
			return p, t.recordWriteErr(fmt.Errorf("takeover: read run: %w", err))
		}
		p.known = p.known || !lost
		p.apply(rec)
	}
	switch {
	case p.known || !lost:
	case p.open > 0:
		p.step = p.open - 1
	default:
		p.step = t.snap.Run.Step
	}
	return p, nil
}

// replayRun yields the records of a run after its first run_started. If that has left the log, it sets lost and yields those that the log still has.
func (w *Workers) replayRun(ctx context.Context, s chunk.Session, started chunk.Seq, lost *bool) iter.Seq2[chunk.Record, error] {
	return func(yield func(chunk.Record, error) bool) {
		of := chunk.Range{Session: s, After: chunk.Position{Seq: started}}
		for rec, err := range w.log.Replay(ctx, of) {
			if truncated, ok := errors.AsType[*chunk.TruncatedError](err); ok && truncated.Reason == chunk.TruncatedExpired {
				*lost = true
				break
			}
			if !yield(rec, err) {
				return
			}
		}
		if !*lost {
			return
		}
		for rec, err := range w.log.Replay(ctx, chunk.Range{Session: s, FromOldest: true}) {
			if errors.Is(err, chunk.ErrUnknownSession) || !yield(rec, err) {
				return
			}
		}
	}
}

// apply skips a record that cannot be decoded, as the fold does: every later takeover would read it too.
func (p *progress) apply(rec chunk.Record) {
	switch rec.Type {
	case chunk.TypeRunResumed, chunk.TypeOutput, chunk.TypeStepCommitted, chunk.TypeTruncated, chunk.TypeSuspensionMarker:
	case chunk.TypeStepDiscarded, chunk.TypeRunPaused, chunk.TypeRunInterrupted, chunk.TypeStreamResync: // their step is a committed one
		return
	default:
		if p.known || rec.Type.Control() {
			return
		}
	}
	c, err := rec.Decode()
	if err != nil {
		return
	}
	switch b := c.Body.(type) {
	case chunk.RunResumed:
		p.resumed, p.step, p.known = true, b.FromStepCount, true
	case chunk.StepCommitted:
		p.step, p.final, p.known = c.Step, isFinal(c), true
	case chunk.Truncated:
		if !p.known || b.TruncatedAtStep < p.step {
			p.step, p.final, p.known = b.TruncatedAtStep, false, true
		}
	case chunk.Output:
		p.output = b.Output // only a final step has output
	case chunk.SuspensionMarker:
		if v := paramsOf(b); !v.IsNull() {
			p.params = v
		}
	default:
		p.open = cmp.Or(p.open, c.Step)
	}
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
			p.apply(rec)
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

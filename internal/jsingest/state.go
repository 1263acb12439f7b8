package jsingest

import (
	"context"
	"errors"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/ingestion"
	"github.com/tailrace/tailrace/producers"
)

// The changes of state have no line: their records have the position of the record before. They are repeated after a conflict with another request of the run.

// End implements ingestion.Writer.
func (w *writer) End(ctx context.Context, output chunk.Value) error {
	return w.change(ctx, ingestion.Ended, func(r *producers.Run) error {
		if err := w.endChildren(ctx, nil, end); err != nil {
			return err
		}
		return r.End(ctx, output)
	})
}

// Fail implements ingestion.Writer.
func (w *writer) Fail(ctx context.Context, message string, detail *chunk.ErrorDetail) error {
	return w.change(ctx, ingestion.Failed, func(r *producers.Run) error {
		if err := w.endChildren(ctx, nil, failure(message, detail)); err != nil {
			return err
		}
		return r.Fail(ctx, message, detail)
	})
}

// Pause implements ingestion.Writer.
func (w *writer) Pause(ctx context.Context, reason string) error {
	return w.change(ctx, ingestion.Paused, func(r *producers.Run) error { return r.Pause(ctx, reason) })
}

// Cleanup implements ingestion.Writer.
func (w *writer) Cleanup(ctx context.Context, step int64, after chunk.Seq) (removed int, err error) {
	err = w.change(ctx, "", func(r *producers.Run) error {
		n, err := r.CleanupToStep(ctx, step, after)
		if removed += n; err != nil || removed == 0 {
			return err
		}
		return w.endChildren(ctx, nil, failure("the run was cleaned up", nil))
	})
	return removed, err
}

// change calls f with the run. It does nothing if the run has the state.
func (w *writer) change(ctx context.Context, to ingestion.Status, f func(*producers.Run) error) error {
	s := w.sessions[w.of.Session.ID]
	for {
		switch status := statusOf(s.Type); {
		case status == to:
			return nil
		case s.run == nil:
			return &ingestion.RefusalError{Reason: ingestion.ReasonEnded}
		}
		err := f(s.run)
		if err == nil {
			s.over = to == ingestion.Ended || to == ingestion.Failed
			at := s.run.Position()
			w.mu.Lock()
			w.before.at = chunk.Cursor{Seq: at.Seq}
			w.mu.Unlock()
			return nil
		}
		r, ok := errors.AsType[*ingestion.RefusalError](refusal(err))
		if !ok || r.Reason != ingestion.ReasonSuperseded || ctx.Err() != nil {
			return refusal(err)
		}
		if err := w.reload(ctx); err != nil {
			return err
		}
		s = w.sessions[w.of.Session.ID]
	}
}

// Close implements ingestion.Writer.
func (w *writer) Close(ctx context.Context) error {
	err := w.closeRuns()
	if root := w.sessions[w.of.Session.ID]; root != nil && root.over {
		w.onEnd(ctx, w.of.Session)
	}
	return err
}

func (w *writer) closeRuns() error {
	var errs []error
	for _, s := range w.sessions {
		if s.run != nil {
			errs = append(errs, s.run.Close())
		}
	}
	return errors.Join(errs...)
}

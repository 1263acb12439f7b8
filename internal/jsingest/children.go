package jsingest

import (
	"context"
	"errors"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/producers"
)

// outcome ends the run of a sub-agent.
type outcome func(context.Context, *producers.Run) error

func end(ctx context.Context, r *producers.Run) error { return r.End(ctx, nil) }

func failure(message string, detail *chunk.ErrorDetail) outcome {
	return func(ctx context.Context, r *producers.Run) error { return r.Fail(ctx, message, detail) }
}

// endChildren ends the sub-agents that lines of the run have started and not ended: nothing can end them when the run has ended. at is the position of their last
// records, nil for that of the record before.
//
// The sub-agents are found in the log, because earlier requests may have started them through other edges. The server limits the size of the list; the last record
// of a sub-agent that has ended is short, so the next list has others. It refuses to list more than 1024 sessions; in a larger tree the sub-agents stay open.
func (w *writer) endChildren(ctx context.Context, at *codec.InputPosition, with outcome) error {
	for {
		tree, err := w.producer.TreeInput(ctx, w.of.Session.Tree(), w.of.ID, w.Progress().At.Seq)
		if errors.Is(err, jsclient.ErrBadResponse) {
			return nil
		}
		if err != nil {
			return err
		}
		ended := 0
		for _, child := range tree.Open {
			if child.ID == w.of.Session.ID {
				continue
			}
			if err := w.endOpen(ctx, child.ID, at, with); err != nil {
				return err
			}
			ended++
		}
		if ended == 0 {
			return nil
		}
	}
}

// endOpen ends the run of a sub-agent.
func (w *writer) endOpen(ctx context.Context, id string, at *codec.InputPosition, with outcome) error {
	s, err := w.session(ctx, 0, id)
	if err != nil {
		return err
	}
	if s.run == nil { // ended by another request meanwhile
		return nil
	}
	if err := w.switchTo(ctx, s); err != nil {
		return err
	}
	if at != nil {
		s.run.SetInput(*at)
	}
	if err := with(ctx, s.run); err != nil && !errors.Is(err, producers.ErrEnded) {
		return w.ofRun(ctx, s, refusal(err))
	}
	return w.ended(s, nil)
}

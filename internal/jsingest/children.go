package jsingest

import (
	"context"
	"errors"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/ingestion"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/producers"
)

// outcome ends the run of a sub-agent.
type outcome func(context.Context, *producers.Run) error

func end(ctx context.Context, r *producers.Run) error { return r.End(ctx, nil) }

func failure(message string, detail *chunk.ErrorDetail) outcome {
	return func(ctx context.Context, r *producers.Run) error { return r.Fail(ctx, message, detail) }
}

// startChild starts the run of a sub-agent, unless an earlier request has. The line of its subagent_start is complete when both records are stored: otherwise a
// later request could begin behind that line, and the lines of the sub-agent would be those of an unknown session.
func (w *writer) startChild(ctx context.Context, parent *session, sub chunk.SubagentStart, at codec.InputPosition) error {
	child := parent.Session.Child(sub.SubSessionID)
	if s, ok := w.sessions[child.ID]; ok {
		if !s.over {
			return nil
		}
		if err := w.drop(s); err != nil {
			return err
		}
	}
	at.Bytes = 0
	for {
		h, err := w.producer.Head(ctx, child)
		if err != nil && !errors.Is(err, producers.ErrNoRecord) {
			return err
		}
		if err == nil && h.Input.Run == w.of.ID && (h.Input.Compare(at) >= 0 || !h.Idle()) {
			return w.add(ctx, h)
		}
		if err == nil && h.Input.Run != w.of.ID {
			// Of an older run, or of the one that has replaced this one: that must not be taken over.
			if _, err := w.head(ctx, w.of); err != nil {
				return err
			}
		}
		run, err := w.producer.Start(ctx, child, chunk.RunStarted{Parent: &chunk.Parent{SessionID: parent.Session.ID, CallID: sub.CallID}},
			producers.AgentType(sub.SubAgentType), producers.TakeOver(), producers.ExpectPosition(h.Position()), producers.InputAt(at))
		if errors.Is(err, producers.ErrPositionMismatch) && ctx.Err() == nil {
			continue // perhaps started by another request of the same run
		}
		if err != nil {
			return err
		}
		s := &session{run: run, agentType: sub.SubAgentType}
		s.Session, s.Input = child, codec.InputPosition{Run: w.of.ID}
		w.sessions[child.ID] = s
		w.wrote = true
		w.mu.Lock()
		w.before.line = max(w.before.line, at.Lines())
		w.mu.Unlock()
		return nil
	}
}

// drop releases a session whose run is over.
func (w *writer) drop(s *session) error {
	delete(w.sessions, s.Session.ID)
	w.mu.Lock()
	if w.current == s {
		w.current = nil
	}
	w.mu.Unlock()
	if s.run == nil {
		return nil
	}
	return s.run.Close()
}

// endChild ends the run of a sub-agent when its parent reports its end, unless the input did so.
func (w *writer) endChild(ctx context.Context, id string, parent *session, at codec.InputPosition) error {
	s := w.sessions[id]
	if s == nil {
		var err error
		if s, err = w.session(ctx, at.Line, id); err != nil {
			if r, ok := errors.AsType[*ingestion.RefusalError](err); ok && r.Reason == ingestion.ReasonInvalid {
				return nil // of another writer
			}
			return err
		}
	}
	if s.run == nil || id == w.of.Session.ID {
		return nil
	}
	at = beforeChunk(at)
	if stored, _ := s.run.Stored(); !w.appends && stored.Run == at.Run && stored.Compare(at) >= 0 {
		return nil // another request of this run is further on, and the sub-agent has begun again
	}
	if err := w.switchTo(ctx, s); err != nil {
		return err
	}
	s.run.SetInput(at)
	if err := w.ended(s, s.run.End(ctx, nil)); err != nil && !errors.Is(err, producers.ErrEnded) {
		return err
	}
	return w.switchTo(ctx, parent)
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

package chat

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/projector/fold"
)

// snapshot serves GET /api/chat/{id}/snapshot: what a page begins with. The answer
// that is on its way is left out, however far it came: the page gets all of it
// from the stream, spec/aisdk.md section 9, rule 1. What a person has asked for
// already is in, also when no worker has begun with it.
func (s *Service) snapshot(w http.ResponseWriter, r *http.Request, to target) {
	page, p := s.page(r.Context(), to)
	if p != nil {
		s.refuse(w, p)
		return
	}
	w.Header().Set("X-Session-Id", to.id)
	s.writeJSON(w, http.StatusOK, page)
}

func (s *Service) page(ctx context.Context, to target) (json.RawMessage, *Problem) {
	if p := s.knows(to.agentType); p != nil {
		return nil, p
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Attach)
	defer cancel()
	session := s.session(to.id)
	v, snap, err := s.look(ctx, session, to.agentType, false)
	if err != nil {
		return nil, s.failed(ctx, session, "look", err)
	}
	if !v.Known && v.waiting() == nil {
		return nil, noChat
	}
	return json.RawMessage(pageOf(&v, snap).AppendJSON(nil)), nil
}

func pageOf(v *View, snap fold.Snapshot) fold.FrontendSnapshot {
	now := v.Now.UnixMilli()
	c := v.waiting()
	switch {
	case c != nil && opensTurn(c):
		page := snap.Frontend(true, now) // what is said of earlier messages is theirs
		page.Status, page.AgentType = fold.Active, v.AgentType
		page.Messages = append(replaced(page.Messages, c), inputMessages(v.Count, c.Input)...)
		return page
	case v.flight():
		snap.Status = fold.Active // it is, or will be in a moment: its message comes from the stream
	case v.asksElsewhere():
		snap.Status = fold.Active // so is its message, with the question in it
		page := snap.Frontend(false, now)
		page.Status = fold.Paused
		return page
	}
	return snap.Frontend(false, now)
}

// replaced are the messages before the one whose place a command takes.
func replaced(messages []fold.UIMessage, c *commands.Command) []fold.UIMessage {
	place, ok := fold.MessageIndex(c.Replaces)
	if !ok {
		return messages
	}
	return slices.DeleteFunc(messages, func(m fold.UIMessage) bool {
		index, ok := fold.MessageIndex(m.ID)
		return ok && index >= place
	})
}

// inputMessages are the messages of a command as the log will show them, from a
// number on.
func inputMessages(from int, input []chunk.InputMessage) []fold.UIMessage {
	run, err := chunk.Chunk{AgentID: "s", AgentType: "a", Body: chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute", Input: input}}.AppendJSON(nil)
	if err != nil {
		return nil // the queue would not have taken it
	}
	s := chunk.RootSession("t", "s")
	snap, err := fold.Apply(fold.New(s), chunk.Record{Seq: 1, Session: s, Epoch: 1, Ordinal: 1, Type: chunk.TypeRunStarted, Data: run})
	if err != nil {
		return nil
	}
	messages := snap.Frontend(false, 0).Messages
	for i, m := range messages {
		if index, ok := fold.MessageIndex(m.ID); ok {
			messages[i].ID = fold.MessageID(from + index)
		}
	}
	return messages
}

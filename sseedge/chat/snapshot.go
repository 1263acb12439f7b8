package chat

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/tailrace/tailrace/internal/httpkit"
)

// snapshot serves GET /api/chat/{id}/snapshot: the state with which a page begins, see conversation.State.Page.
func (s *Service) snapshot(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	page, p := s.page(r.Context(), to)
	if p != nil {
		return p
	}
	w.Header().Set("X-Session-Id", to.id)
	s.respond.JSON(w, http.StatusOK, page)
	return nil
}

func (s *Service) page(ctx context.Context, to target) (json.RawMessage, *httpkit.Problem) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	session := s.session(to.id)
	v, snap, refusal := s.logic.Look(ctx, session, to.agentType)
	if refusal != nil {
		return nil, problemOf(refusal)
	}
	if !v.Known && v.Waiting() == nil {
		return nil, noChat
	}
	return json.RawMessage(v.Page(snap).AppendJSON(nil)), nil
}

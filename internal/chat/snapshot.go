package chat

import (
	"context"
	"errors"
	"net/http"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// snapshot serves GET /api/chat/{id}/snapshot: the state with which a page begins, see pageOf. It has all messages, so it is a page of the edge:
// equal requests share one read, and the memory of all reads is bounded.
func (s *Service) snapshot(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	ctx, cancel := s.withTimeout(r.Context())
	defer cancel()
	of, state, p := s.load(ctx, to)
	if p != nil {
		return p
	}
	problem := func(err error) *httpkit.Problem {
		if errors.Is(err, chunk.ErrUnknownMessage) {
			return noMessage
		}
		return problemOf(s.logic.Failed(r.Context(), of.session, "snapshot", err))
	}
	version, err := s.pageVersion(ctx, of, to.viewName, &state)
	if err != nil {
		return problem(err)
	}
	version.branch = to.branch
	return s.shared.Pages.Serve(w, r, of.session, version, func(ctx context.Context) ([]byte, error) {
		page, err := s.loadPage(ctx, of, to.agentType, to.branch)
		if err != nil {
			return nil, err
		}
		return of.view.Page(page.AppendJSON(nil))
	}, problem)
}

// load returns the chat of a request that only reads, with its state.
func (s *Service) load(ctx context.Context, to target) (of chat, state conversation.State, p *httpkit.Problem) {
	if of, p = s.chat(ctx, to, false); p != nil {
		return of, state, p
	}
	if p = problemOf(s.logic.CheckAgent(to.agentType)); p != nil {
		return of, state, p
	}
	state, err := of.logic.Load(ctx, of.session, to.agentType)
	switch {
	case err != nil:
		p = problemOf(s.logic.Failed(ctx, of.session, "load", err))
	case !state.Known && state.Waiting() == nil:
		p = noChat
	}
	return of, state, p
}

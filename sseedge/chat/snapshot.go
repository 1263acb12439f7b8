package chat

import (
	"context"
	"net/http"

	"github.com/tailrace/tailrace/internal/httpkit"
)

// snapshot serves GET /api/chat/{id}/snapshot: the state with which a page begins, see pageOf. It has all messages, so it is a page of the edge:
// equal requests share one read, and the memory of all reads is bounded.
func (s *Service) snapshot(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	of, p := s.chat(r.Context(), to, false)
	if p != nil {
		return p
	}
	if refusal := s.logic.CheckAgent(to.agentType); refusal != nil {
		return problemOf(refusal)
	}
	problem := func(err error) *httpkit.Problem {
		return problemOf(s.logic.Failed(r.Context(), of.session, "snapshot", err))
	}
	ctx, cancel := s.withTimeout(r.Context())
	defer cancel()
	state, err := of.logic.Load(ctx, of.session, to.agentType)
	if err != nil {
		return problem(err)
	}
	if !state.Known && state.Waiting() == nil {
		return noChat
	}
	version, err := s.pageVersion(ctx, of, to.viewName, &state)
	if err != nil {
		return problem(err)
	}
	return s.shared.Pages.Serve(w, r, of.session, version, func(ctx context.Context) ([]byte, error) {
		page, err := s.loadPage(ctx, of, to.agentType)
		if err != nil {
			return nil, err
		}
		return of.view.Page(page.AppendJSON(nil))
	}, problem)
}

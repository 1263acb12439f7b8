package chat

import (
	"context"
	"net/http"

	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// snapshot serves GET /api/chat/{id}/snapshot: the state with which a page begins, see conversation.State.Page. It has all messages, so it is a page of the edge:
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
	v, err := of.logic.Load(ctx, of.session, to.agentType)
	if err != nil {
		return problem(err)
	}
	if !v.Known && v.Waiting() == nil {
		return noChat
	}
	version, err := of.logic.PageVersion(ctx, &v, &s.cfg.Dialect)
	if err != nil {
		return problem(err)
	}
	return s.shared.Pages.Serve(w, r, of.session, pageVersion{version, to.viewName}, func(ctx context.Context) ([]byte, error) {
		page, err := of.logic.LoadPage(ctx, of.session, to.agentType, &s.cfg.Dialect)
		if err != nil {
			return nil, err
		}
		return of.view.Page(page.AppendJSON(nil))
	}, problem)
}

// pageVersion identifies the text of a page: clients with different views must not share it.
type pageVersion struct {
	conversation.PageVersion

	view string
}

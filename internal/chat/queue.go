package chat

import (
	"net/http"

	"github.com/tailrace/tailrace/internal/httpkit"
)

// queuedMessage is a message that waits, for a page.
type queuedMessage struct {
	MessageID string `json:"messageId"`
	Text      string `json:"text"` // "" if the view hides it
}

// queue serves GET /api/chat/{id}/queue: the messages that wait until the answer in flight ends, in the order of their answers.
func (s *Service) queue(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	ctx, cancel := s.withTimeout(r.Context())
	defer cancel()
	of, _, p := s.load(ctx, to)
	if p != nil {
		return p
	}
	all, err := of.logic.Queue(ctx, of.session)
	if err != nil {
		return problemOf(s.logic.Failed(ctx, of.session, "queue", err))
	}
	list := []queuedMessage{}
	for _, q := range all {
		var m queuedMessage
		for _, in := range q.Command.Input {
			if in.ClientMessageID != nil {
				m.MessageID = *in.ClientMessageID
			}
			if !of.view.Hidden().Contents {
				m.Text = in.Content
			}
		}
		list = append(list, m)
	}
	s.respond.JSON(w, http.StatusOK, map[string][]queuedMessage{"queued": list})
	return nil
}

// withdraw serves POST /api/chat/{id}/withdraw: a message that waits is not answered. 204, also for a message that is withdrawn at the same time elsewhere.
func (s *Service) withdraw(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	var b struct {
		MessageID string `json:"messageId"`
	}
	if p := s.readBody(w, r, httpkit.Into(&b, "the body is not an object with a messageId")); p != nil {
		return p
	}
	of, p := s.chat(r.Context(), to, false)
	if p != nil {
		return p
	}
	return noContent(w, to.id, of.logic.WithdrawQueued(r.Context(), of.session, to.agentType, b.MessageID))
}

package credentials

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/subjects"
)

// ticketRequest is the body of POST /v1/tickets.
type ticketRequest struct {
	Session string `json:"session"`
	View    string `json:"view"` // missing: the views of the credential
}

const wrongTicket = `want {"session":"…"}, and perhaps "view"`

type ticketResponse struct {
	Ticket    string    `json:"ticket"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// issueTicket serves POST /v1/tickets.
func (s *Service) issueTicket(w http.ResponseWriter, r *http.Request, _ string) *httpkit.Problem {
	var req ticketRequest
	if p := s.read(w, r, &req, wrongTicket); p != nil {
		return p
	}
	if subjects.CheckID("session", req.Session) != nil {
		return httpkit.Invalid("session: want 1 to 64 characters of a URI")
	}
	g := httpkit.GrantOf(r.Context())
	views := g.Views
	if req.View != "" {
		view, ok := g.View(req.View)
		if !ok {
			return noView
		}
		views = []string{view}
	}
	if p := s.exists(r.Context(), req.Session); p != nil {
		return p
	}
	ticket, useBefore, err := s.cfg.Tickets.Issue(r.Context(), g, req.Session, views)
	if err != nil {
		s.shared.Log.WarnContext(r.Context(), "ticket not stored", "error", err)
		return httpkit.PermissionOr(err, unavailable)
	}
	s.respond.JSON(w, http.StatusOK, ticketResponse{ticket, useBefore.UTC()})
	return nil
}

// exists returns the problem of a session that does not exist, or that the client must not know.
func (s *Service) exists(ctx context.Context, id string) *httpkit.Problem {
	session, err := s.shared.Access.Session(ctx, id, id)
	if err == nil {
		_, err = s.shared.Access.Owner(ctx, session)
	}
	switch {
	case errors.Is(err, chunk.ErrUnknownSession):
		return noSession
	case err != nil:
		s.shared.Log.WarnContext(ctx, "session not found out", "error", err)
		return unavailable
	}
	return nil
}

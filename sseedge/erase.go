package sseedge

import (
	"context"
	"errors"
	"net/http"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// Eraser deletes sessions. It may be called concurrently. If it also has a method DeleteBy(ctx, s, by *chunk.Principal), that is called instead, to store the client.
type Eraser interface {
	// Delete deletes a root session and its sub-agents: their log, their snapshots and all other data. It is idempotent. The error is
	// chunk.ErrUnknownSession if no data of the session is stored. After any other error a part may be deleted, and the next Delete deletes the rest.
	Delete(ctx context.Context, s chunk.Session) error
}

// attributedEraser is an Eraser that stores who has requested a deletion.
type attributedEraser interface {
	// DeleteBy is Delete for a client.
	DeleteBy(ctx context.Context, s chunk.Session, by *chunk.Principal) error
}

// erase serves DELETE /v1/sessions/{id}.
func (e *Edge) erase(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
	q := readQuery(r.URL, "root")
	if q.values.Get("root") != "" {
		q.refuse(codeBadParameter, "a sub-agent goes with its root", "root: want none")
	}
	s, p := chunk.RootSession("", id), q.problem
	if p == nil {
		p = e.permit(r.Context(), &s)
	}
	if p == nil {
		p = e.eraseNow(r.Context(), s)
	}
	if p != nil {
		return p
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// eraseNow continues if the client disconnects: a session must not be deleted in part.
func (e *Edge) eraseNow(ctx context.Context, s chunk.Session) *httpkit.Problem {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.HistoryTimeout)
	defer cancel()
	err := e.deleteSession(ctx, s)
	switch {
	case err == nil:
		e.cfg.Log.Info("session deleted", "session", s.String())
		return nil
	case errors.Is(err, chunk.ErrUnknownSession):
		return noStream
	}
	e.cfg.Log.Warn("session not deleted", "session", s.String(), "error", err)
	return notErased
}

func (e *Edge) deleteSession(ctx context.Context, s chunk.Session) error {
	if eraser, ok := e.cfg.Eraser.(attributedEraser); ok {
		return eraser.DeleteBy(ctx, s, httpkit.PrincipalOf(httpkit.GrantOf(ctx)))
	}
	return e.cfg.Eraser.Delete(ctx, s)
}

package sseedge

import (
	"context"
	"errors"
	"net/http"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// Eraser deletes sessions. It may be called by many requests at once.
type Eraser interface {
	// Delete takes a root session and its sub-agents away: log, snapshots, all that
	// belongs to them. Once more is no error. It is chunk.ErrUnknownSession when
	// there is nothing of it. After any other error some of it may be gone, and
	// the next Delete takes the rest.
	Delete(ctx context.Context, s chunk.Session) error
}

// erase serves DELETE /v1/sessions/{id}.
func (e *Edge) erase(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
	q, p := readQuery(r.URL, "root")
	if p == nil && q.values.Get("root") != "" {
		p = badRequest(codeBadParameter, "a sub-agent goes with its root", "root: want none")
	}
	if p == nil {
		p = e.eraseNow(r.Context(), e.session(id))
	}
	if p != nil {
		return p
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// eraseNow continues when the client has left: a session must not be deleted in part.
func (e *Edge) eraseNow(ctx context.Context, s chunk.Session) *httpkit.Problem {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.HistoryTimeout)
	defer cancel()
	err := e.cfg.Eraser.Delete(ctx, s)
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

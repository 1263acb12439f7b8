package httpedge

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/projector"
)

// Eraser deletes sessions. It may be called concurrently. *retention.Eraser implements it.
type Eraser interface {
	// DeleteBy deletes a root session and its sub-agents for a client: their log, their snapshots and all other data. It is idempotent. The error is
	// chunk.ErrUnknownSession if no data of the session is stored. After any other error a part may be deleted, and the next call deletes the rest.
	DeleteBy(ctx context.Context, s chunk.Session, by *chunk.Principal) error

	// Forks yields the forks of a root session that exist, with their owners, and at most one error. They are deleted before it.
	Forks(ctx context.Context, s chunk.Session) iter.Seq2[projector.SessionInfo, error]
}

// erase serves DELETE /v1/sessions/{id}.
func (e *Edge) erase(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
	q := readQuery(r.URL, "root", "forks")
	if q.values.Get("root") != "" {
		q.refuse(codeBadParameter, "a sub-agent goes with its root", "root: want none")
	}
	if !slices.Contains([]string{"", "0"}, q.values.Get("forks")) {
		q.refuse(codeBadParameter, "forks are deleted, or stay", "forks: want 0 to leave them")
	}
	s, p := chunk.RootSession("", id), q.problem
	if p == nil {
		p = e.permit(r.Context(), &s)
	}
	left := 0
	if p == nil {
		left, p = e.eraseNow(r.Context(), s, q.values.Get("forks") == "")
	}
	if p != nil {
		return p
	}
	if left > 0 {
		w.Header().Set("X-Forks-Left", strconv.Itoa(left))
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// eraseNow continues if the client disconnects: a session must not be deleted in part. It returns the number of forks that the client may not delete. The session is
// the last one, because its forks are found by it: a request after a crash deletes those that are left.
func (e *Edge) eraseNow(ctx context.Context, s chunk.Session, forks bool) (left int, p *httpkit.Problem) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.HistoryTimeout)
	defer cancel()
	d, err := forkDeletion{Edge: e, seen: map[chunk.Session]bool{s: true}}, error(nil)
	if forks {
		if err = d.of(ctx, s); err == nil && d.deleted {
			err = d.of(ctx, s) // those that were made meanwhile
		}
	}
	if err == nil {
		err = e.deleteSession(ctx, s)
	}
	switch {
	case err == nil:
		return d.left, nil
	case errors.Is(err, chunk.ErrUnknownSession):
		return 0, noStream
	}
	return 0, e.notDone(notErased, err, "session not deleted", "session", s.String())
}

func (e *Edge) deleteSession(ctx context.Context, s chunk.Session) error {
	err := e.cfg.Eraser.DeleteBy(ctx, s, httpkit.PrincipalOf(httpkit.GrantOf(ctx)))
	if err == nil {
		e.cfg.Log.Info("session deleted", "session", s.String())
	}
	return err
}

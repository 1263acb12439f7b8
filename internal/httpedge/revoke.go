package httpedge

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/revocation"
	"github.com/tailrace/tailrace/internal/wait"
)

// Revoker stores revocations for all edges. It may be called concurrently.
type Revoker interface {
	// Revoke stores a revocation of a token or of a subject. It is idempotent. The error wraps chunk.ErrInvalid for one that no credential can match.
	Revoke(ctx context.Context, r revocation.Revocation) error
}

// revokeToken serves DELETE /v1/tokens/{id}.
func (e *Edge) revokeToken(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
	return e.revoke(w, r, revocation.Revocation{TokenID: id})
}

// revokeSubject serves DELETE /v1/subjects/{id}/tokens.
func (e *Edge) revokeSubject(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
	return e.revoke(w, r, revocation.Revocation{Subject: id})
}

// revoke stores a revocation of the tenant of the client: an administrator of one tenant has no rights in another.
func (e *Edge) revoke(w http.ResponseWriter, r *http.Request, of revocation.Revocation) *httpkit.Problem {
	if q := readQuery(r.URL); q.problem != nil {
		return q.problem
	}
	g := httpkit.GrantOf(r.Context())
	of.Tenant, of.By = g.Tenant, httpkit.PrincipalOf(g)
	// It continues if the client disconnects: the client may not repeat the request.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), e.cfg.HistoryTimeout)
	defer cancel()
	switch err := e.cfg.Revoker.Revoke(ctx, of); {
	case errors.Is(err, chunk.ErrInvalid):
		return badToken
	case err != nil:
		return e.notDone(notRevoked, err, "credential not revoked", "tenant", of.Tenant)
	}
	e.cfg.Log.Info("credential revoked", "tenant", of.Tenant, "of", kindOf(of))
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func kindOf(r revocation.Revocation) string {
	if r.TokenID != "" {
		return "token"
	}
	return "subject"
}

// closeInterval is the shortest time between two searches for streams whose credentials are revoked. A search takes about 50 ns for each open stream.
const closeInterval = 100 * time.Millisecond

// closeRevoked closes the streams whose credentials are revoked, until ctx ends.
func (e *Edge) closeRevoked(ctx context.Context) {
	if e.cfg.Revocations == nil || e.cfg.LimitsOf != nil { // the Edge of LimitsOf does it: a change wakes one of them
		return
	}
	for {
		select {
		case <-e.cfg.Revocations.Changed():
		case <-ctx.Done():
			return
		}
		e.closeAllRevoked()
		if wait.Sleep(ctx, closeInterval) != nil {
			return
		}
	}
}

// closeAllRevoked closes the streams of the Edge, of its surfaces, and of the edges that share its limits.
func (e *Edge) closeAllRevoked() {
	e.streams.CloseRevoked()
	for _, s := range e.surfaces {
		s.Streams.CloseRevoked()
	}
	for _, other := range e.sharers {
		other.closeAllRevoked()
	}
}

package httpkit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/authn"
)

// authenticate returns the request with its Grant, or the problem.
func (rr *Router) authenticate(w http.ResponseWriter, r *http.Request, rt *Route) (*http.Request, *Problem) {
	g, err := (*auth.Grant)(nil), auth.ErrNoCredential
	if rt.Tickets && rr.o.Tickets != nil {
		g, err = rr.o.Tickets.Authenticate(r)
	}
	if errors.Is(err, auth.ErrNoCredential) {
		g, err = rr.o.Authenticator.Authenticate(r)
	}
	if err == nil && g != nil {
		return r.WithContext(rr.withAudit(r, rt, g)), nil
	}
	// The text of an error has neither a token nor a value of a claim.
	level := slog.LevelDebug
	if bad, ok := errors.AsType[*authn.InvalidError](err); ok && rr.refused.first(bad.Reason) {
		level = slog.LevelInfo
	}
	rr.o.Respond.Log.Log(r.Context(), level, "request not authenticated", "error", err)
	if busy, ok := errors.AsType[*authn.UnavailableError](err); ok || errors.Is(err, auth.ErrUnavailable) {
		p := NewProblem(http.StatusServiceUnavailable, CodeNoKeys, "the credential cannot be verified at present", "retry later")
		if ok {
			p.RetryAfter = busy.RetryAfter
		}
		return r, p
	}
	if errors.Is(err, authn.ErrCrossOrigin) {
		return r, CrossOrigin
	}
	w.Header().Set("WWW-Authenticate", authn.Challenge(err))
	return r, unauthenticated(err)
}

// refusals are the times of the last log lines about refused credentials. A client that sends bad ones makes one line a minute for each reason.
type refusals struct {
	mu   sync.Mutex // guards last
	last map[authn.Reason]time.Time
}

// first reports whether the last line with a reason is a minute old.
func (l *refusals) first(reason authn.Reason) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.last[reason]) < time.Minute {
		return false
	}
	if l.last == nil {
		l.last = map[authn.Reason]time.Time{}
	}
	l.last[reason] = time.Now()
	return true
}

// unauthenticated returns the problem of a request without a valid credential.
func unauthenticated(err error) *Problem {
	p := NewProblem(http.StatusUnauthorized, CodeNoCredential, "a credential is required", "")
	bad, isInvalid := errors.AsType[*authn.InvalidError](err)
	switch {
	case isInvalid && bad.Reason == authn.ReasonRevoked:
		p.Title, p.Detail = "the credential is revoked", string(bad.Reason)
	case isInvalid:
		p.Title, p.Detail = "the credential is refused", cmp.Or(bad.Detail, strings.TrimSpace(string(bad.Reason)+" "+bad.Member))
	case errors.Is(err, authn.ErrTokenInQuery):
		p.Title, p.Detail = "the credential is refused", "a token in a URL is known to all that have logged it: revoke it, and send the next one in the header Authorization"
	case errors.Is(err, auth.ErrInvalid):
		p.Title = "the credential is refused"
	}
	return p
}

// authorize returns the problem of a client that lacks a right. It is Forbidden where that tells the client nothing new: the path names no session, or one
// that the client may read.
func (rr *Router) authorize(r *http.Request, rt *Route, id string) *Problem {
	if rt.Public {
		return nil
	}
	g := GrantOf(r.Context())
	if g.Allows(rt.Scope) && (rt.AnyOf == 0 || g.Scopes&rt.AnyOf != 0) {
		return nil
	}
	if !rt.namesSession() || rr.o.Authorizer != nil && g.Allows(auth.ScopeRead) && rr.o.Authorizer.Allows(r.Context(), g, chunk.RootSession(g.Tenant, id)) {
		return Forbidden
	}
	return rr.o.Unknown
}

// GrantOf returns the Grant of a request that a Router serves. It panics in the handler of a public route, which has none.
func GrantOf(ctx context.Context) *auth.Grant {
	g, ok := authn.FromContext(ctx)
	if !ok {
		panic("httpkit: a public route asks for the Grant of its client")
	}
	return g
}

// PrincipalOf returns who makes the requests of a Grant.
func PrincipalOf(g *auth.Grant) *chunk.Principal {
	p := &chunk.Principal{Subject: g.Subject, TokenID: g.TokenID}
	if g.Issuer != "" {
		p.Issuer = &g.Issuer
	}
	return p
}

// Authorizer decides which sessions a client may know.
type Authorizer interface {
	// Allows reports whether a Grant covers a root session that exists or may be started by its id. It denies if that cannot be determined.
	Allows(ctx context.Context, g *auth.Grant, root chunk.Session) bool
}

package httpkit

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/conversation"
)

// authenticate returns the request with its Grant, or the problem. A request that a surface hands on to the edge has its Grant already.
func (rr *Router) authenticate(w http.ResponseWriter, r *http.Request) (*http.Request, *Problem) {
	if _, ok := auth.FromContext(r.Context()); ok {
		return r, nil
	}
	g, err := rr.o.Authenticator.Authenticate(r)
	if err == nil && g != nil {
		return r.WithContext(auth.NewContext(r.Context(), g)), nil
	}
	// The text of an error has neither a token nor a value of a claim.
	rr.o.Respond.Log.DebugContext(r.Context(), "request not authenticated", "error", err)
	if busy, ok := errors.AsType[*auth.UnavailableError](err); ok || errors.Is(err, auth.ErrUnavailable) {
		p := NewProblem(http.StatusServiceUnavailable, CodeNoKeys, "the credential cannot be verified at present", "retry later")
		if ok {
			p.RetryAfter = busy.RetryAfter
		}
		return r, p
	}
	w.Header().Set("WWW-Authenticate", auth.Challenge(err))
	return r, unauthenticated(err)
}

// unauthenticated returns the problem of a request without a valid credential.
func unauthenticated(err error) *Problem {
	p := NewProblem(http.StatusUnauthorized, CodeNoCredential, "a credential is required", "")
	bad, isInvalid := errors.AsType[*auth.InvalidError](err)
	switch {
	case isInvalid:
		p.Title, p.Detail = "the credential is refused", string(bad.Reason)
		if bad.Member != "" {
			p.Detail += " " + bad.Member
		}
	case errors.Is(err, auth.ErrTokenInQuery):
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
	if id == "" || rr.o.Access != nil && g.Allows(auth.ScopeRead) && rr.o.Access.allows(r.Context(), g, chunk.RootSession(g.Tenant, id)) {
		return Forbidden
	}
	return rr.o.Unknown
}

// GrantOf returns the Grant of a request that a Router serves. It panics in the handler of a public route, which has none.
func GrantOf(ctx context.Context) *auth.Grant {
	g, ok := auth.FromContext(ctx)
	if !ok {
		panic("httpkit: a public route asks for the Grant of its client")
	}
	return g
}

// PrincipalOf returns who makes the requests of a Grant, as the log has it.
func PrincipalOf(g *auth.Grant) *chunk.Principal {
	p := &chunk.Principal{Subject: g.Subject}
	if g.Issuer != "" {
		p.Issuer = &g.Issuer
	}
	return p
}

// Access decides which sessions the client of a request may use. It is the only source of sessions for handlers: the tenant is that of the Grant.
//
// A session that the client must not know is replaced by one that does not exist. So the handler does the same work for both, and its response has the same
// status, body and headers, whatever it does; it must not take the id for its response from the session.
type Access struct {
	// Owner returns the subject of the owner of a root session, "" if it is not known. The error may be chunk.ErrUnknownSession.
	Owner func(ctx context.Context, root chunk.Session) (string, error)
}

// Session returns the session id below a root, which is id itself for a root session. The error is that of Owner, never chunk.ErrUnknownSession.
func (a *Access) Session(ctx context.Context, root, id string) (chunk.Session, error) {
	g := GrantOf(ctx)
	s := chunk.Session{Tenant: g.Tenant, Root: root, ID: id}
	switch {
	case !g.AllowsSession(root, g.Subject):
		return absent(s), nil
	case g.AllowsSession(root, ""):
		return s, nil
	}
	owner, err := a.Owner(ctx, s.Tree())
	if errors.Is(err, chunk.ErrUnknownSession) {
		owner, err = "", nil
	}
	if err == nil && !g.AllowsSession(root, owner) {
		s = absent(s)
	}
	return s, err
}

// allows reports whether a Grant covers a root session that exists or may be started by its id. A failure of Owner denies.
func (a *Access) allows(ctx context.Context, g *auth.Grant, s chunk.Session) bool {
	if g.AllowsSession(s.Root, "") {
		return true
	}
	if !g.AllowsSession(s.Root, g.Subject) {
		return false
	}
	owner, err := a.Owner(ctx, s)
	return err == nil && g.AllowsSession(s.Root, owner)
}

// absent returns a session of the same kind that does not exist: its root has 128 random bits.
func absent(s chunk.Session) chunk.Session {
	root := "absent-" + rand.Text()
	if s.IsRoot() {
		return chunk.RootSession(s.Tenant, root)
	}
	return chunk.Session{Tenant: s.Tenant, Root: root, ID: s.ID}
}

// Conversation returns the root session with an id, and the Caller with which package conversation serves it. That package knows who has requested a session
// that no worker has started yet, so it compares the owner, and a client may start a session of its own with an id that is not in use.
func (a *Access) Conversation(ctx context.Context, id string) (chunk.Session, conversation.Caller) {
	g := GrantOf(ctx)
	s := chunk.RootSession(g.Tenant, id)
	c := conversation.Caller{By: PrincipalOf(g), NoChat: !g.Allows(auth.ScopeChat), NoAnswer: !g.Allows(auth.ScopeAnswer)}
	view, _ := g.View("")
	switch {
	case view != "", !g.AllowsSession(id, g.Subject):
		// A chat shows everything, so a client that may only see a view gets none.
		c.Sees = func(bool, string) bool { return false }
		return absent(s), c
	case !g.AllowsSession(id, ""):
		c.Sees = func(exists bool, owner string) bool { return !exists || g.AllowsSession(id, owner) }
	}
	return s, c
}

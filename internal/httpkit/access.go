package httpkit

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"net/http"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/sseedge/view"
	"github.com/tailrace/tailrace/subjects"
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
	rr.o.Respond.Log.DebugContext(r.Context(), "request not authenticated", "error", err)
	if busy, ok := errors.AsType[*auth.UnavailableError](err); ok || errors.Is(err, auth.ErrUnavailable) {
		p := NewProblem(http.StatusServiceUnavailable, CodeNoKeys, "the credential cannot be verified at present", "retry later")
		if ok {
			p.RetryAfter = busy.RetryAfter
		}
		return r, p
	}
	if errors.Is(err, auth.ErrCrossOrigin) {
		return r, CrossOrigin
	}
	w.Header().Set("WWW-Authenticate", auth.Challenge(err))
	return r, unauthenticated(err)
}

// unauthenticated returns the problem of a request without a valid credential.
func unauthenticated(err error) *Problem {
	p := NewProblem(http.StatusUnauthorized, CodeNoCredential, "a credential is required", "")
	bad, isInvalid := errors.AsType[*auth.InvalidError](err)
	switch {
	case isInvalid && bad.Reason == auth.ReasonRevoked:
		p.Title, p.Detail = "the credential is revoked", string(bad.Reason)
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
	if !rt.namesSession() || rr.o.Access != nil && g.Allows(auth.ScopeRead) && rr.o.Access.allows(r.Context(), g, chunk.RootSession(g.Tenant, id)) {
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

// PrincipalOf returns who makes the requests of a Grant.
func PrincipalOf(g *auth.Grant) *chunk.Principal {
	p := &chunk.Principal{Subject: g.Subject, TokenID: g.TokenID}
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

	// OwnedByOther, if not nil, finds the sessions of other owners in the time of unknown ones, see projector.OwnerIndex.
	OwnedByOther func(ctx context.Context, root chunk.Session, subject string) (bool, error)
}

// Session returns the session id below a root, which is id itself for a root session. The error is that of Owner, never chunk.ErrUnknownSession.
func (a *Access) Session(ctx context.Context, root, id string) (chunk.Session, error) {
	g := GrantOf(ctx)
	s := chunk.Session{Tenant: g.Tenant, Root: root, ID: id}
	switch {
	case !g.AllowsSession(root, g.Subject):
		audit.RefuseHidden(ctx, s)
		return absent(s), nil
	case g.AllowsSession(root, ""):
		return s, nil
	}
	owner, err := a.ownerFor(ctx, g, s.Tree())
	if errors.Is(err, chunk.ErrUnknownSession) {
		owner, err = "", nil
	}
	if err == nil && !g.AllowsSession(root, owner) {
		audit.RefuseHidden(ctx, s)
		s = absent(s)
	}
	return s, err
}

// Writable is Session for a client that writes: known is false for a session that the client must not know, and nothing must be written then. With starts, a client
// with own sessions may also use an id that no session has; fresh says that the id must still be unused when the session is started.
func (a *Access) Writable(ctx context.Context, root, id string, starts bool) (s chunk.Session, fresh, known bool, err error) {
	g := GrantOf(ctx)
	s = chunk.Session{Tenant: g.Tenant, Root: root, ID: id}
	if g.AllowsSession(root, "") {
		return s, false, true, nil
	}
	if starts && s.IsRoot() && g.AllowsSession(root, g.Subject) {
		other, err := a.ownedByOther(ctx, g, s)
		if err != nil {
			return s, false, false, err
		}
		if !other {
			if _, err := a.Owner(ctx, s); errors.Is(err, chunk.ErrUnknownSession) {
				return s, true, true, nil
			}
		}
	}
	permitted, err := a.Session(ctx, root, id)
	return s, false, permitted == s, err
}

// allows reports whether a Grant covers a root session that exists or may be started by its id. A failure of Owner denies.
func (a *Access) allows(ctx context.Context, g *auth.Grant, s chunk.Session) bool {
	if g.AllowsSession(s.Root, "") {
		return true
	}
	if !g.AllowsSession(s.Root, g.Subject) {
		return false
	}
	owner, err := a.ownerFor(ctx, g, s)
	return err == nil && g.AllowsSession(s.Root, owner)
}

// ownerFor is Owner for a client with own sessions. To find the owner of a session takes longer than to find that the session does not exist, and the client
// could measure that. Therefore a session of another owner is replaced before, and takes the time of an unknown one.
func (a *Access) ownerFor(ctx context.Context, g *auth.Grant, root chunk.Session) (string, error) {
	none := absent(root)
	other, err := a.ownedByOther(ctx, g, root)
	if err != nil {
		return "", err
	}
	if other {
		root = none
	}
	return a.Owner(ctx, root)
}

func (a *Access) ownedByOther(ctx context.Context, g *auth.Grant, root chunk.Session) (bool, error) {
	if a.OwnedByOther == nil {
		return false, nil
	}
	return a.OwnedByOther(ctx, root, g.Subject)
}

// absentKey is known to this process only.
var absentKey = []byte(rand.Text())

// absent returns a session of the same kind that does not exist: its root has at least 128 bits that only this process can compute. It is the same root each time,
// and has the length of that of s, if that is 29 or more: requests for longer subjects take longer, and so do those for subjects that the NATS server does
// not have in its caches.
func absent(s chunk.Session) chunk.Session {
	mac := hmac.New(sha512.New, absentKey)
	mac.Write([]byte(s.Tenant + "." + s.Root)) // neither has a dot
	root := ("absent-" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)))[:min(max(len(s.Root), 29), subjects.MaxToken)]
	if s.IsRoot() {
		return chunk.RootSession(s.Tenant, root)
	}
	return chunk.Session{Tenant: s.Tenant, Root: root, ID: s.ID}
}

// View returns the name of the view for a request, "" for none: the requested one, if the Grant and the edge allow it, or the default one. ok is false if there is
// no such view for the client; the response must not reveal whether it exists.
func View(g *auth.Grant, views *view.Views, requested string) (name string, ok bool) {
	if name, ok = g.View(requested); ok {
		name, ok = views.Select(name)
	}
	return name, ok
}

// Conversation returns the root session with an id, and the Caller with which package conversation serves it under a view. That package knows who has requested a
// session that no worker has started yet, so it compares the owner, and a client may start a session of its own with an id that is not in use. The error is that
// of OwnedByOther.
//
// starts says that the request starts a session if there is none. Its response tells whether the id is in use, so the time has nothing to hide, and the index of
// owners is not asked, which would delay the first byte of the answer.
func (a *Access) Conversation(ctx context.Context, id string, shows *view.Chat, starts bool) (chunk.Session, conversation.Caller, error) {
	g := GrantOf(ctx)
	s := chunk.RootSession(g.Tenant, id)
	c := conversation.Caller{By: PrincipalOf(g), View: shows, NoChat: !g.Allows(auth.ScopeChat), NoAnswer: !g.Allows(auth.ScopeAnswer)}
	none := absent(s)
	hidden, known := !g.AllowsSession(id, g.Subject), g.AllowsSession(id, "")
	if !hidden && !known && (!starts || c.NoChat) {
		var err error
		if hidden, err = a.ownedByOther(ctx, g, s); err != nil {
			return s, c, err
		}
	}
	switch {
	case hidden:
		audit.RefuseHidden(ctx, s)
		c.Sees = func(bool, string) bool { return false }
		return none, c, nil
	case !known:
		c.Sees = func(exists bool, owner string) bool {
			if exists && !g.AllowsSession(id, owner) {
				audit.RefuseHidden(ctx, s)
				return false
			}
			return true
		}
	}
	return s, c, nil
}

package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"errors"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/subjects"
)

// Shared is what the surfaces of one edge have in common, with the sessions and views of their clients. Views may be nil.
type Shared struct {
	httpkit.Shared

	Access *Access
	Views  *view.Views
}

// Chat returns the view of the chat for a request with the parameter view, nil for none, and its name.
func (s *Shared) Chat(ctx context.Context, requested string) (name string, shows *view.Chat, p *httpkit.Problem) {
	name, ok := View(httpkit.GrantOf(ctx), s.Views, requested)
	if !ok {
		return "", nil, httpkit.Invalid("there is no such view")
	}
	return name, s.Views.Get(name).Chat(), nil
}

// Access decides which sessions the client of a request may use. It is the only source of sessions for handlers: the tenant is that of the Grant.
//
// A session that the client must not know is replaced by one that does not exist. So the handler does the same work for both, and its response has the same
// status, body and headers, whatever it does; it must not take the id for its response from the session.
type Access struct {
	// Owner returns the subject of the owner of a root session, "" if it is not known. The error may be chunk.ErrUnknownSession.
	Owner func(ctx context.Context, root chunk.Session) (string, error)

	// OwnedByOther, if not nil, finds the sessions of other owners in the time of unknown ones, see projector.Store.
	OwnedByOther func(ctx context.Context, root chunk.Session, subject string) (bool, error)
}

// Session returns the session id below a root, which is id itself for a root session. The error is that of Owner, never chunk.ErrUnknownSession.
func (a *Access) Session(ctx context.Context, root, id string) (chunk.Session, error) {
	g := httpkit.GrantOf(ctx)
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
	g := httpkit.GrantOf(ctx)
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

// Allows implements httpkit.Authorizer. A failure of Owner denies.
func (a *Access) Allows(ctx context.Context, g *auth.Grant, s chunk.Session) bool {
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
	mac.Write([]byte(s.Tenant + "." + s.Root)) // the tenant has no dot
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

// Conversation returns the root session with an id, and the Caller with which package conversation serves it under a view, nil for everything. That package knows who has requested a
// session that no worker has started yet, so it compares the owner, and a client may start a session of its own with an id that is not in use. The error is that
// of OwnedByOther.
//
// starts says that the request starts a session if there is none. Its response tells whether the id is in use, so the time has nothing to hide, and the index of
// owners is not asked, which would delay the first byte of the answer.
func (a *Access) Conversation(ctx context.Context, id string, shows *view.Chat, starts bool) (chunk.Session, conversation.Caller, error) {
	g := httpkit.GrantOf(ctx)
	s := chunk.RootSession(g.Tenant, id)
	c := conversation.Caller{By: httpkit.PrincipalOf(g), Hides: conversation.Hidden(shows.Hidden()), NoChat: !g.Allows(auth.ScopeChat), NoAnswer: !g.Allows(auth.ScopeAnswer), NoStop: !g.Allows(auth.ScopeStop)}
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

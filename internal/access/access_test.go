package access

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/view"
)

// authenticator is a function as an auth.Authenticator.
type authenticator func(*http.Request) (*auth.Grant, error)

func (f authenticator) Authenticate(r *http.Request) (*auth.Grant, error) { return f(r) }

// owners are the owners of the sessions that exist.
type owners map[chunk.Session]string

func (o owners) of(_ context.Context, s chunk.Session) (string, error) {
	owner, ok := o[s]
	if !ok {
		return "", chunk.ErrUnknownSession
	}
	if owner == "error" {
		return "", errors.New("away")
	}
	return owner, nil
}

// A missing right is 403 where the client may read the session, or the path names none; otherwise it is the 404 of an unknown session, with the same bytes.
func TestMissingRight(t *testing.T) {
	acme := func(id string) chunk.Session { return chunk.RootSession("acme", id) }
	existing := owners{acme("anns"): "ann", acme("bobs"): "bob", acme("old"): "", acme("away"): "error"}
	serve := func(http.ResponseWriter, *http.Request, string) *httpkit.Problem { return nil }
	for _, tt := range []struct {
		name     string
		scopes   auth.Scope
		sessions auth.Sessions
		method   string
		path     string
		status   int
	}{
		{"a list", auth.ScopeChat, auth.Sessions{All: true}, "GET", "/x", 403},
		{"reads one", auth.ScopeRead, auth.Sessions{IDs: []string{"a"}}, "POST", "/x/a", 403},
		{"reads all", auth.ScopeRead, auth.Sessions{All: true}, "POST", "/x/none", 403},
		{"reads another one", auth.ScopeRead, auth.Sessions{IDs: []string{"b"}}, "POST", "/x/a", 404},
		{"reads nothing", auth.ScopeStop, auth.Sessions{All: true}, "POST", "/x/a", 404},
		{"its own", auth.ScopeRead, auth.Sessions{Own: true}, "POST", "/x/anns", 403},
		{"of another user", auth.ScopeRead, auth.Sessions{Own: true}, "POST", "/x/bobs", 404},
		{"without an owner", auth.ScopeRead, auth.Sessions{Own: true}, "POST", "/x/old", 404},
		{"unknown", auth.ScopeRead, auth.Sessions{Own: true}, "POST", "/x/none", 404},
		{"owner not available", auth.ScopeRead, auth.Sessions{Own: true}, "POST", "/x/away", 404},
		{"has the right", auth.ScopeChat, auth.Sessions{Own: true}, "POST", "/x/bobs", 200}, // the handler decides about the session
	} {
		rr, err := httpkit.NewRouter([]httpkit.Route{
			{Name: "list", Method: http.MethodGet, Path: "/x", Scope: auth.ScopeRead, Serve: serve},
			{Name: "post", Method: http.MethodPost, Path: "/x/{id}", Scope: auth.ScopeChat, Serve: serve},
		}, httpkit.Options{
			Respond: &httpkit.Responder{Log: slog.New(slog.DiscardHandler)}, BadID: httpkit.Invalid("bad id"), OtherName: "other",
			Authenticator: authenticator(func(*http.Request) (*auth.Grant, error) {
				return &auth.Grant{Tenant: "acme", Subject: "ann", Scopes: tt.scopes, Sessions: tt.sessions}, nil
			}),
			Authorizer: &Access{Owner: existing.of}, Unknown: httpkit.NewProblem(404, "NO_SESSION", "no such session", ""),
		})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		rr.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
		if w.Code != tt.status || tt.status == 404 && !bytes.Contains(w.Body.Bytes(), []byte(`"NO_SESSION"`)) {
			t.Errorf("%s: %d %s, want %d", tt.name, w.Code, w.Body, tt.status)
		}
	}
}

// A session that the Grant does not cover is replaced by one that does not exist, of the same kind and the same each time. The root and its owner decide for
// sub-agents.
func TestAccess(t *testing.T) {
	acme := func(id string) chunk.Session { return chunk.RootSession("acme", id) }
	a := &Access{Owner: owners{acme("anns"): "ann", acme("bobs"): "bob", acme("old"): ""}.of}
	for _, tt := range []struct {
		sessions auth.Sessions
		root, id string
		allowed  bool
	}{
		{auth.Sessions{All: true}, "bobs", "bobs", true},
		{auth.Sessions{All: true}, "none", "none", true},
		{auth.Sessions{IDs: []string{"bobs"}}, "bobs", "bobs", true},
		{auth.Sessions{IDs: []string{"bobs"}}, "bobs", "sub", true},
		{auth.Sessions{IDs: []string{"bobs"}}, "sub", "sub", false},
		{auth.Sessions{IDs: []string{"bobs"}}, "anns", "bobs", false},
		{auth.Sessions{Prefix: "b"}, "bobs", "bobs", true},
		{auth.Sessions{Prefix: "b"}, "anns", "bobs", false},
		{auth.Sessions{Own: true}, "anns", "anns", true},
		{auth.Sessions{Own: true}, "anns", "sub", true},
		{auth.Sessions{Own: true}, "bobs", "bobs", false},
		{auth.Sessions{Own: true}, "bobs", "anns", false},
		{auth.Sessions{Own: true}, "old", "old", false},
		{auth.Sessions{Own: true}, "none", "none", false},
		{auth.Sessions{Own: true, IDs: []string{"bobs"}}, "bobs", "bobs", true},
		{auth.Sessions{}, "anns", "anns", false},
	} {
		ctx := authn.NewContext(t.Context(), &auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.AllScopes, Sessions: tt.sessions})
		want := chunk.Session{Tenant: "acme", Root: tt.root, ID: tt.id}
		got, err := a.Session(ctx, tt.root, tt.id)
		if err != nil || (got == want) != tt.allowed || got.Tenant != "acme" || got.IsRoot() != want.IsRoot() {
			t.Errorf("%+v of %+v: got %v, %v", want, tt.sessions, got, err)
		}
		if again, _ := a.Session(ctx, tt.root, tt.id); again != got {
			t.Errorf("%+v: replaced by %v and then by %v", want, got, again)
		}
		if other, _ := a.Session(ctx, tt.root+"x", tt.id); !tt.allowed && other.Root == got.Root {
			t.Errorf("%+v: replaced by %v, as another session is", want, got)
		}
	}
	ctx := authn.NewContext(t.Context(), &auth.Grant{Tenant: "acme", Subject: "ann", Sessions: auth.Sessions{Own: true}})
	away := &Access{Owner: owners{acme("s"): "error"}.of}
	if s, err := away.Session(ctx, "s", "s"); err == nil {
		t.Errorf("owner not available: %v", s)
	}
}

// A session of another owner in the index is replaced before its owner is looked up. The index never allows: the owner is compared nevertheless.
func TestOwnedByOther(t *testing.T) {
	acme := func(id string) chunk.Session { return chunk.RootSession("acme", id) }
	index := map[chunk.Session]string{acme("anns"): "ann", acme("bobs"): "bob", acme("claimed"): "ann"}
	existing := owners{acme("anns"): "ann", acme("bobs"): "bob", acme("claimed"): "bob", acme("unindexed"): "bob"}
	var asked []chunk.Session
	a := &Access{
		Owner: func(ctx context.Context, root chunk.Session) (string, error) {
			asked = append(asked, root)
			return existing.of(ctx, root)
		},
		OwnedByOther: func(_ context.Context, root chunk.Session, subject string) (bool, error) {
			if root.Root == "away" {
				return false, errors.New("away")
			}
			owner, ok := index[root]
			return ok && owner != subject, nil
		},
	}
	ctx := authn.NewContext(t.Context(), &auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.AllScopes, Sessions: auth.Sessions{Own: true}})
	for id, want := range map[string]struct{ allowed, lookedUp bool }{
		"anns": {true, true}, "bobs": {false, false}, "claimed": {false, true}, "unindexed": {false, true}, "none": {false, true},
	} {
		asked = nil
		s, err := a.Session(ctx, id, "sub")
		if err != nil || (s.Root == id) != want.allowed || len(asked) != 1 || (asked[0] == acme(id)) != want.lookedUp {
			t.Errorf("%s: %v, %v, looked up %v", id, s, err, asked)
		}
		root, c, err := a.Conversation(ctx, id, nil, false)
		if isOpen := id != "bobs"; err != nil || (root == acme(id)) != isOpen || c.Sees(false, "") != isOpen || c.Sees(true, "bob") {
			t.Errorf("conversation %s: %v, %v", id, root, err)
		}
	}
	if s, err := a.Session(ctx, "away", "away"); err == nil {
		t.Errorf("the index is not available: %v", s)
	}
	if s, _, err := a.Conversation(ctx, "away", nil, false); err == nil {
		t.Errorf("the index is not available: %v", s)
	}
	// A request that may start the session does not ask the index. The owner is compared.
	if s, c, err := a.Conversation(ctx, "away", nil, true); err != nil || s != acme("away") || c.Sees(true, "bob") || !c.Sees(true, "ann") || !c.Sees(false, "") {
		t.Errorf("a request that starts a session: %v, %v", s, err)
	}
	reader := authn.NewContext(t.Context(), &auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead | auth.ScopeAnswer, Sessions: auth.Sessions{Own: true}})
	if s, _, err := a.Conversation(reader, "away", nil, true); err == nil {
		t.Errorf("a client that may start no session: %v", s)
	}
	for name, sessions := range map[string]auth.Sessions{"all": {All: true}, "id": {IDs: []string{"away"}}, "other id": {IDs: []string{"x"}}} {
		ctx := authn.NewContext(t.Context(), &auth.Grant{Tenant: "acme", Subject: "ann", Sessions: sessions})
		if _, err := a.Session(ctx, "away", "away"); err != nil {
			t.Errorf("%s: the index is used: %v", name, err)
		}
		if _, _, err := a.Conversation(ctx, "away", nil, false); err != nil {
			t.Errorf("%s: the index is used: %v", name, err)
		}
	}
}

// The caller of a conversation has the rights of the Grant, and the view of the request.
func TestConversationCaller(t *testing.T) {
	a := &Access{}
	for _, tt := range []struct {
		grant  auth.Grant
		isReal bool // the session is the one with the id
		sees   map[string]bool
	}{
		{auth.Grant{Sessions: auth.Sessions{All: true}, Views: []string{auth.AnyView}}, true, map[string]bool{"ann": true, "bob": true, "": true}},
		{auth.Grant{Sessions: auth.Sessions{Own: true}}, true, map[string]bool{"ann": true, "bob": false, "": false}},
		{auth.Grant{Sessions: auth.Sessions{IDs: []string{"s"}}}, true, map[string]bool{"ann": true, "bob": true, "": true}},
		{auth.Grant{Sessions: auth.Sessions{IDs: []string{"z"}}}, false, map[string]bool{"ann": false, "bob": false}},
		{auth.Grant{Sessions: auth.Sessions{All: true}, Views: []string{"customer"}}, true, map[string]bool{"ann": true, "bob": true}},
	} {
		g := tt.grant
		g.Tenant, g.Subject, g.Issuer, g.Scopes = "acme", "ann", "https://login.example", auth.ScopeRead|auth.ScopeAnswer
		shows := &view.Chat{}
		s, c, err := a.Conversation(authn.NewContext(t.Context(), &g), "s", shows, false)
		if err != nil {
			t.Fatal(err)
		}
		if c.Hides != conversation.Hidden(shows.Hidden()) || (s == chunk.RootSession("acme", "s")) != tt.isReal || !c.NoChat || c.NoAnswer || c.By.Subject != "ann" || *c.By.Issuer != g.Issuer {
			t.Errorf("%+v: session %v, caller %+v", g, s, c)
		}
		for owner, want := range tt.sees {
			if got := c.Sees == nil || c.Sees(true, owner); got != want {
				t.Errorf("%+v: sees a session of %q: %t, want %t", g, owner, got, want)
			}
		}
		if starts := c.Sees == nil || c.Sees(false, ""); starts != tt.isReal {
			t.Errorf("%+v: may start a session: %t", g, starts)
		}
	}
}

package httpkit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// authenticator is a function as an auth.Authenticator.
type authenticator func(*http.Request) (*auth.Grant, error)

func (f authenticator) Authenticate(r *http.Request) (*auth.Grant, error) { return f(r) }

// A request without a valid credential is 401 with a challenge, and the response has nothing of the credential; if the keys cannot be loaded it is 503. Routes
// are not called. The cross-origin check is before, and does not ask the authenticator; a bad id is after.
func TestAuthentication(t *testing.T) {
	for _, tt := range []struct {
		name      string
		err       error
		status    int
		code      string
		challenge string
		retry     string
	}{
		{"no credential", auth.ErrNoCredential, 401, "UNAUTHENTICATED", "Bearer", ""},
		{"expired", &auth.InvalidError{Reason: auth.ReasonExpired}, 401, "UNAUTHENTICATED", `Bearer error="invalid_token", error_description="expired"`, ""},
		{"in the query", auth.ErrTokenInQuery, 401, "UNAUTHENTICATED", `Bearer error="invalid_request", error_description="token in the query"`, ""},
		{"no keys", &auth.UnavailableError{RetryAfter: 7 * time.Second, Cause: errors.New("dial 10.0.0.1")}, 503, "AUTHENTICATION_UNAVAILABLE", "", "7"},
		{"no keys, no time", auth.ErrUnavailable, 503, "AUTHENTICATION_UNAVAILABLE", "", "1"},
		{"no grant and no error", nil, 401, "UNAUTHENTICATED", "Bearer", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := 0
			rr := newRouter(t, httpkit.Options{Authenticator: authenticator(func(*http.Request) (*auth.Grant, error) {
				asked++
				return nil, tt.err
			})})
			for _, path := range []string{"/x/a", "/x", "/x/a.b"} {
				r, w := httptest.NewRequest(http.MethodGet, path, nil), httptest.NewRecorder()
				r.Header.Set("Authorization", "Bearer secret-token")
				rr.ServeHTTP(w, r)
				h := w.Header()
				if w.Code != tt.status || !strings.Contains(w.Body.String(), `"code":"`+tt.code+`"`) || h.Get("WWW-Authenticate") != tt.challenge || h.Get("Retry-After") != tt.retry || h.Get("Id") != "" {
					t.Errorf("%s: %d %v %s", path, w.Code, h, w.Body)
				}
				if strings.Contains(w.Body.String(), "secret") || strings.Contains(w.Body.String(), "10.0.0.1") || strings.Contains(fmt.Sprint(h), "secret") {
					t.Errorf("%s: the response has the credential or the cause: %s", path, w.Body)
				}
			}
			if asked != 3 {
				t.Errorf("asked %d times for 3 requests", asked)
			}
			r, w := httptest.NewRequest(http.MethodPost, "/x/a", nil), httptest.NewRecorder()
			r.Header.Set("Origin", "https://evil.example")
			if rr.ServeHTTP(w, r); w.Code != 403 || asked != 3 {
				t.Errorf("another origin: %d, asked %d times", w.Code, asked)
			}
		})
	}
}

// The Grant is in the context of the handler, and a request that has one already is not authenticated again.
func TestGrantIsInTheContext(t *testing.T) {
	asked := 0
	var got *auth.Grant
	grant := &auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead}
	rr, err := httpkit.NewRouter([]httpkit.Route{{Name: "x", Method: http.MethodGet, Path: "/x", Scope: auth.ScopeRead,
		Serve: func(_ http.ResponseWriter, r *http.Request, _ string) *httpkit.Problem {
			got = httpkit.GrantOf(r.Context())
			return nil
		}}}, httpkit.Options{
		Authenticator: authenticator(func(*http.Request) (*auth.Grant, error) {
			asked++
			return grant, nil
		}), Respond: &httpkit.Responder{Log: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/x", nil)
	rr.ServeHTTP(httptest.NewRecorder(), r)
	if got != grant || asked != 1 {
		t.Errorf("grant %+v, asked %d times", got, asked)
	}
	if _, ok := auth.FromContext(r.Context()); ok {
		t.Error("the request of the caller was changed")
	}
	rr.ServeHTTP(httptest.NewRecorder(), r.WithContext(auth.NewContext(t.Context(), grant)))
	if asked != 1 {
		t.Errorf("asked %d times, want 1", asked)
	}
}

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
		rr := newRouter(t, httpkit.Options{
			Authenticator: authenticator(func(*http.Request) (*auth.Grant, error) {
				return &auth.Grant{Tenant: "acme", Subject: "ann", Scopes: tt.scopes, Sessions: tt.sessions}, nil
			}),
			Access: &httpkit.Access{Owner: existing.of}, Unknown: httpkit.NewProblem(404, "NO_SESSION", "no such session", ""),
		})
		w := httptest.NewRecorder()
		rr.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
		if w.Code != tt.status || tt.status == 404 && !bytes.Contains(w.Body.Bytes(), []byte(`"NO_SESSION"`)) {
			t.Errorf("%s: %d %s, want %d", tt.name, w.Code, w.Body, tt.status)
		}
	}
}

// A session that the Grant does not cover is replaced by one that does not exist, of the same kind and never the same twice. The root and its owner decide for
// sub-agents.
func TestAccess(t *testing.T) {
	acme := func(id string) chunk.Session { return chunk.RootSession("acme", id) }
	a := &httpkit.Access{Owner: owners{acme("anns"): "ann", acme("bobs"): "bob", acme("old"): ""}.of}
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
		ctx := auth.NewContext(t.Context(), &auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.AllScopes, Sessions: tt.sessions})
		want := chunk.Session{Tenant: "acme", Root: tt.root, ID: tt.id}
		got, err := a.Session(ctx, tt.root, tt.id)
		if err != nil || (got == want) != tt.allowed || got.Tenant != "acme" || got.IsRoot() != want.IsRoot() {
			t.Errorf("%+v of %+v: got %v, %v", want, tt.sessions, got, err)
		}
		if again, _ := a.Session(ctx, tt.root, tt.id); !tt.allowed && again == got {
			t.Errorf("%+v: replaced by %v twice", want, got)
		}
	}
	ctx := auth.NewContext(t.Context(), &auth.Grant{Tenant: "acme", Subject: "ann", Sessions: auth.Sessions{Own: true}})
	away := &httpkit.Access{Owner: owners{acme("s"): "error"}.of}
	if s, err := away.Session(ctx, "s", "s"); err == nil {
		t.Errorf("owner not available: %v", s)
	}
}

// The caller of a conversation has the rights of the Grant. A client that may only see a view gets no conversation, because that shows everything.
func TestConversationCaller(t *testing.T) {
	a := &httpkit.Access{}
	for _, tt := range []struct {
		grant  auth.Grant
		isReal bool // the session is the one with the id
		sees   map[string]bool
	}{
		{auth.Grant{Sessions: auth.Sessions{All: true}, Views: []string{auth.AnyView}}, true, map[string]bool{"ann": true, "bob": true, "": true}},
		{auth.Grant{Sessions: auth.Sessions{Own: true}}, true, map[string]bool{"ann": true, "bob": false, "": false}},
		{auth.Grant{Sessions: auth.Sessions{IDs: []string{"s"}}}, true, map[string]bool{"ann": true, "bob": true, "": true}},
		{auth.Grant{Sessions: auth.Sessions{IDs: []string{"z"}}}, false, map[string]bool{"ann": false, "bob": false}},
		{auth.Grant{Sessions: auth.Sessions{All: true}, Views: []string{"customer"}}, false, map[string]bool{"ann": false, "bob": false}},
	} {
		g := tt.grant
		g.Tenant, g.Subject, g.Issuer, g.Scopes = "acme", "ann", "https://login.example", auth.ScopeRead|auth.ScopeAnswer
		s, c := a.Conversation(auth.NewContext(t.Context(), &g), "s")
		if (s == chunk.RootSession("acme", "s")) != tt.isReal || !c.NoChat || c.NoAnswer || c.By.Subject != "ann" || *c.By.Issuer != g.Issuer {
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

package httpkit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// authenticator is a function as an auth.Authenticator.
type authenticator func(*http.Request) (*auth.Grant, error)

func (f authenticator) Authenticate(r *http.Request) (*auth.Grant, error) { return f(r) }

// authorizer is a function as an Authorizer.
type authorizer func(context.Context, *auth.Grant, chunk.Session) bool

func (f authorizer) Allows(ctx context.Context, g *auth.Grant, root chunk.Session) bool {
	return f(ctx, g, root)
}

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
		{"expired", &authn.InvalidError{Reason: authn.ReasonExpired}, 401, "UNAUTHENTICATED", `Bearer error="invalid_token", error_description="expired"`, ""},
		{"in the query", authn.ErrTokenInQuery, 401, "UNAUTHENTICATED", `Bearer error="invalid_request", error_description="token in the query"`, ""},
		{"no keys", &authn.UnavailableError{RetryAfter: 7 * time.Second, Cause: errors.New("dial 10.0.0.1")}, 503, "AUTHENTICATION_UNAVAILABLE", "", "7"},
		{"no keys, no time", auth.ErrUnavailable, 503, "AUTHENTICATION_UNAVAILABLE", "", "1"},
		{"no grant and no error", nil, 401, "UNAUTHENTICATED", "Bearer", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := 0
			rr := newRouter(t, httpkit.Options{Authenticator: authenticator(func(*http.Request) (*auth.Grant, error) {
				asked++
				return nil, tt.err
			})})
			for _, path := range []string{"/x/a", "/x", "/x/a%20b"} {
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

// A refused credential is logged once a minute for each reason, with what is wrong, and its client gets the same text.
func TestRefusedCredentialsAreLogged(t *testing.T) {
	var logged strings.Builder
	bad := &authn.InvalidError{Reason: authn.ReasonType, Detail: `header typ is "JWT", want "at+jwt"`}
	rr, err := httpkit.NewRouter([]httpkit.Route{{Name: "x", Method: http.MethodGet, Path: "/x", Scope: auth.ScopeRead,
		Serve: func(http.ResponseWriter, *http.Request, string) *httpkit.Problem { return nil }}}, httpkit.Options{
		Authenticator: authenticator(func(*http.Request) (*auth.Grant, error) { return nil, bad }), Respond: &httpkit.Responder{Log: slog.New(slog.NewTextHandler(&logged, nil))},
	})
	if err != nil {
		t.Fatal(err)
	}
	get := func() string {
		w := httptest.NewRecorder()
		rr.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/x", nil))
		return w.Body.String()
	}
	for range 3 {
		if text := get(); !strings.Contains(text, `"detail":"header typ is \"JWT\", want \"at+jwt\""`) {
			t.Errorf("response %s", text)
		}
	}
	bad = &authn.InvalidError{Reason: authn.ReasonExpired, Detail: "claim exp is in the past"}
	get()
	if text := logged.String(); strings.Count(text, "\n") != 2 || strings.Count(text, "want") != 1 || !strings.Contains(text, "claim exp is in the past") {
		t.Errorf("the log:\n%s", text)
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
	if _, ok := authn.FromContext(r.Context()); ok {
		t.Error("the request of the caller was changed")
	}
	rr.ServeHTTP(httptest.NewRecorder(), r.WithContext(authn.NewContext(t.Context(), grant)))
	if asked != 1 {
		t.Errorf("asked %d times, want 1", asked)
	}
}

// The memory of a token is released while its stream is open: the map of headers has no reference to it, and neither has the array of their values.
func TestDropCredential(t *testing.T) {
	values := []string{"text/event-stream", "Bearer token", "a=token", "7"}
	r := httptest.NewRequest(http.MethodGet, "/x", nil)
	for i, name := range []string{"Accept", "Authorization", "Cookie", "Last-Event-Id"} {
		r.Header[name] = values[i : i+1 : i+1]
	}
	httpkit.DropCredential(r)
	if want := []string{"text/event-stream", "", "", "7"}; !slices.Equal(values, want) || len(r.Header) != 2 {
		t.Errorf("values %q, header %v", values, r.Header)
	}
}

// A tenant that another handler serves is authenticated once and given to that handler with its Grant, before anything is found out about its session. What
// is refused before, and public routes, are of the router.
func TestTenantsOfAnotherHandler(t *testing.T) {
	asked, served := 0, 0
	other := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served++
		if g := httpkit.GrantOf(r.Context()); g.Tenant != "acme" {
			t.Errorf("it gets the tenant %s", g.Tenant)
		}
		w.WriteHeader(http.StatusTeapot)
	})
	rr, err := httpkit.NewRouter([]httpkit.Route{
		{Name: "x", Method: http.MethodGet, Path: "/x/{id}", Scope: auth.ScopeRead, Serve: serveID},
		{Name: "alive", Method: http.MethodGet, Path: "/alive", Public: true, Serve: serveID},
	}, httpkit.Options{
		BadID: httpkit.NotFound, Respond: &httpkit.Responder{Log: slog.New(slog.DiscardHandler)},
		Authorizer: authorizer(func(context.Context, *auth.Grant, chunk.Session) bool {
			t.Error("the session of another tenant is authorized")
			return false
		}),
		Authenticator: authenticator(func(r *http.Request) (*auth.Grant, error) {
			asked++
			tenant := r.Header.Get("Tenant")
			if tenant == "" {
				return nil, auth.ErrNoCredential
			}
			return &auth.Grant{Tenant: tenant, Subject: "ann"}, nil
		}),
		Tenants: func(tenant string) http.Handler {
			if tenant == "acme" {
				return other
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path, tenant          string
		status, asked, served int
	}{
		{"/x/a", "acme", http.StatusTeapot, 1, 1},
		{"/x/a%20b", "acme", http.StatusTeapot, 1, 1},
		{"/x/a", "globex", http.StatusNotFound, 1, 0}, // without a right
		{"/x/a", "", http.StatusUnauthorized, 1, 0},
		{"/y", "acme", http.StatusNotFound, 0, 0},
		{"/alive", "acme", http.StatusOK, 0, 0},
	} {
		asked, served = 0, 0
		r, w := httptest.NewRequest(http.MethodGet, tt.path, nil), httptest.NewRecorder()
		r.Header.Set("Tenant", tt.tenant)
		if rr.ServeHTTP(w, r); w.Code != tt.status || asked != tt.asked || served != tt.served {
			t.Errorf("%s of %q: status %d, authenticated %d times, served by the other %d times, want %+v", tt.path, tt.tenant, w.Code, asked, served, tt)
		}
	}
}

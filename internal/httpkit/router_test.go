package httpkit_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
)

func serveID(w http.ResponseWriter, _ *http.Request, id string) *httpkit.Problem {
	w.Header().Set("Id", id)
	return nil
}

func newRouter(t *testing.T, o httpkit.Options) *httpkit.Router {
	t.Helper()
	o.Respond = &httpkit.Responder{Log: slog.New(slog.DiscardHandler)}
	o.BadID, o.OtherName = httpkit.Invalid("bad id"), "other"
	if o.Authenticator == nil {
		o.Authenticator = authtest.None(t, "acme")
	}
	rr, err := httpkit.NewRouter([]httpkit.Route{
		{Name: "list", Method: http.MethodGet, Path: "/x", Scope: auth.ScopeRead, Serve: serveID},
		{Name: "one", Method: http.MethodGet, Path: "/x/{id}", Scope: auth.ScopeRead, Serve: serveID},
		{Name: "post", Method: http.MethodPost, Path: "/x/{id}", Scope: auth.ScopeChat, Serve: serveID},
		{Name: "leaf", Method: http.MethodGet, Path: "/x/{id}/leaf", Scope: auth.ScopeRead, Serve: serveID},
		{Name: "off", Method: http.MethodGet, Path: "/x/{id}/off", Scope: auth.ScopeRead, Serve: serveID, Disabled: true},
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	return rr
}

// Paths match exactly; ids are unescaped; disabled routes are named and not served.
func TestRouter(t *testing.T) {
	for _, tt := range []struct {
		o            httpkit.Options
		method, path string
		status       int
		id, allow    string
		name         string
	}{
		{httpkit.Options{}, "GET", "/x", 200, "", "", "list"},
		{httpkit.Options{}, "GET", "/x/", 400, "", "", "one"},
		{httpkit.Options{}, "GET", "/x/a", 200, "a", "", "one"},
		{httpkit.Options{}, "GET", "/x/%61", 200, "a", "", "one"},
		{httpkit.Options{}, "GET", "/x/a%2Fleaf", 200, "a/leaf", "", "one"},
		{httpkit.Options{}, "GET", "/x/a%2F..%2Fb", 400, "", "", "one"},
		{httpkit.Options{}, "GET", "/x/a/leaf", 200, "a", "", "leaf"},
		{httpkit.Options{}, "GET", "/x/a/leaf/", 404, "", "", "other"},
		{httpkit.Options{}, "GET", "/x//leaf", 400, "", "", "leaf"},
		{httpkit.Options{}, "GET", "//x/a", 404, "", "", "other"},
		{httpkit.Options{}, "GET", "/x/a/off", 404, "", "", "off"},
		{httpkit.Options{}, "PUT", "/x/a", 405, "", "GET, POST", "one"},
		{httpkit.Options{NameMethods: true}, "PUT", "/x/a", 405, "", "GET, POST", "other"},
		{httpkit.Options{NameMethods: true}, "POST", "/x/a", 200, "a", "", "post"},
		{httpkit.Options{}, "HEAD", "/x/a", 405, "", "GET, POST", "one"},
		{httpkit.Options{Head: true}, "HEAD", "/x/a", 200, "a", "", "one"},
		{httpkit.Options{Head: true}, "PUT", "/x/a/leaf", 405, "", "GET, HEAD", "leaf"},
		{httpkit.Options{Prefix: "/p"}, "GET", "/p/x/a", 200, "a", "", "one"},
		{httpkit.Options{Prefix: "/p"}, "GET", "/x/a", 404, "", "", "other"},
	} {
		rr := newRouter(t, tt.o)
		r, w := httptest.NewRequest(tt.method, tt.path, nil), httptest.NewRecorder()
		rr.ServeHTTP(w, r)
		if w.Code != tt.status || w.Header().Get("Id") != tt.id || w.Header().Get("Allow") != tt.allow || rr.Name(r) != tt.name {
			t.Errorf("%s %s: got %d, id %q, Allow %q, name %q; want %d, %q, %q, %q", tt.method, tt.path,
				w.Code, w.Header().Get("Id"), w.Header().Get("Allow"), rr.Name(r), tt.status, tt.id, tt.allow, tt.name)
		}
	}
}

// A page of another origin cannot use unsafe methods, unless the origin is trusted; safe methods always pass.
func TestRouterChecksOrigins(t *testing.T) {
	rr := newRouter(t, httpkit.Options{Origins: []string{"https://app.example"}})
	for _, tt := range []struct {
		method, origin string
		status         int
	}{
		{http.MethodPost, "https://evil.example", 403},
		{http.MethodPost, "https://app.example", 200},
		{http.MethodPost, "", 200},
		{http.MethodGet, "https://evil.example", 200},
	} {
		r, w := httptest.NewRequest(tt.method, "/x/a", nil), httptest.NewRecorder()
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		if rr.ServeHTTP(w, r); w.Code != tt.status {
			t.Errorf("%s from %q: got %d, want %d", tt.method, tt.origin, w.Code, tt.status)
		}
	}
}

// While the log is unreachable, a route that needs it gets the problem for that, and its OnProblem; routes that do not need it, and requests that are wrong in
// any case, get what they always get.
func TestUnreachableLog(t *testing.T) {
	var served, problems []string
	route := func(name string, scope auth.Scope, withoutLog bool) httpkit.Route {
		return httpkit.Route{Name: name, Method: http.MethodGet, Path: "/" + name + "/{id}", Scope: scope, Public: scope == 0, WithoutLog: withoutLog,
			Serve: func(http.ResponseWriter, *http.Request, string) *httpkit.Problem {
				served = append(served, name)
				return nil
			},
			OnProblem: func(_ *http.Request, p *httpkit.Problem) { problems = append(problems, name+" "+p.Code) }}
	}
	unreachable := true
	rr, err := httpkit.NewRouter([]httpkit.Route{
		route("page", auth.ScopeRead, false), route("events", auth.ScopeRead, true), route("healthz", 0, false),
	}, httpkit.Options{
		Unreachable: func() bool { return unreachable }, NoLog: httpkit.NewProblem(http.StatusServiceUnavailable, httpkit.CodeUnavailable, "away", ""),
		Authenticator: authtest.None(t, "acme"), BadID: httpkit.Invalid("bad id"), Respond: &httpkit.Responder{Log: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string, want int) {
		t.Helper()
		w := httptest.NewRecorder()
		if rr.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil)); w.Code != want {
			t.Errorf("%s: got %d, want %d", path, w.Code, want)
		}
	}
	get("/page/a", 503)
	get("/events/a", 200)
	get("/healthz/a", 200)
	get("/page/a%20b", 400)
	get("/other", 404)
	unreachable = false
	get("/page/a", 200)
	if !slices.Equal(served, []string{"events", "healthz", "page"}) || !slices.Equal(problems, []string{"page UNAVAILABLE"}) {
		t.Errorf("served %q, problems %q", served, problems)
	}
}

// Every route has a policy: the rights that a client needs, or that it is public.
func TestRoutesNeedAPolicy(t *testing.T) {
	o := httpkit.Options{Authenticator: authtest.None(t, "acme"), Respond: &httpkit.Responder{Log: slog.New(slog.DiscardHandler)}}
	for name, rt := range map[string]httpkit.Route{
		"none":                       {Serve: serveID},
		"one of some rights only":    {Serve: serveID, AnyOf: auth.ScopeChat},
		"public with a right":        {Serve: serveID, Public: true, Scope: auth.ScopeRead},
		"public with some rights":    {Serve: serveID, Public: true, AnyOf: auth.ScopeRead},
		"a right and no handler":     {Scope: auth.ScopeRead},
		"public and without handler": {Public: true},
	} {
		rt.Name, rt.Method, rt.Path = "x", http.MethodGet, "/x"
		if _, err := httpkit.NewRouter([]httpkit.Route{rt}, o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	rt := httpkit.Route{Name: "x", Method: http.MethodGet, Path: "/x", Public: true, Serve: serveID}
	if _, err := httpkit.NewRouter([]httpkit.Route{rt}, o); err != nil {
		t.Error(err)
	}
	o.Authenticator = nil
	if _, err := httpkit.NewRouter([]httpkit.Route{rt}, o); err == nil {
		t.Error("no authenticator: accepted")
	}
}

// The two forms of a problem, and the headers that all problems have.
func TestProblems(t *testing.T) {
	p := httpkit.NewProblem(http.StatusServiceUnavailable, httpkit.CodeDraining, "stopping", "wait")
	p.More = map[string]any{"first": 1}
	for form, want := range map[httpkit.Form]string{
		httpkit.RFC9457:   `{"type":"urn:tailrace:problem:draining","title":"stopping","status":503,"code":"DRAINING","detail":"wait","error":"stopping","first":1}`,
		httpkit.ErrorCode: `{"error":"stopping","code":"DRAINING","first":1}`,
	} {
		w := httptest.NewRecorder()
		(&httpkit.Responder{Form: form, Log: slog.New(slog.DiscardHandler)}).Problem(w, p)
		text, err := io.ReadAll(w.Body)
		if err != nil || string(text) != want+"\n" {
			t.Errorf("got %s, %v, want %s", text, err, want)
		}
		h := w.Header()
		if w.Code != 503 || h.Get("Retry-After") != "1" || h.Get("Connection") != "close" || h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("got %d %v", w.Code, h)
		}
	}
}

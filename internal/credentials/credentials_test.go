package credentials_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/internal/credentials"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
	"github.com/tailrace/tailrace/internal/testkit/openapitest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
)

// env is an edge over a log in memory with the session s1 of ann, which does not follow it.
type env struct {
	t      *testing.T
	issuer *authtest.Issuer
	edge   *httpedge.Edge
	logged *bytes.Buffer
}

func newEnv(t *testing.T, change func(*credentials.Config)) *env {
	t.Helper()
	e := &env{t: t, issuer: authtest.NewIssuer(t, "https://app.example"), logged: &bytes.Buffer{}}
	log := memlog.New()
	log.Append(chunk.RootSession("acme", "s1"), chunk.TypeRunStarted, `"runId":"r1","epoch":1,"mode":"execute","input":[],"by":{"subject":"ann"}`)
	cfg := credentials.Config{Minter: e.issuer.Minter(nil), Verify: e.issuer.Verify, Cookies: true, Tickets: authtest.NewTickets(t)}
	if change != nil {
		change(&cfg)
	}
	var err error
	e.edge, err = httpedge.New(log, projector.NewReader(storetest.NewMemory(), log), httpedge.Config{Rates: httpkit.Rates{Address: httpkit.Unlimited},
		Authenticator: e.issuer, Tickets: cfg.Tickets, Origins: []string{"https://app.example"},
		Log: slog.New(slog.NewTextHandler(e.logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := credentials.New(e.edge, cfg); err != nil {
		t.Fatal(err)
	}
	return e
}

// send sends a request with a bearer token, and further headers as pairs of name and value.
func (e *env) send(method, path, token, body string, header ...string) *httptest.ResponseRecorder {
	e.t.Helper()
	r := httptest.NewRequest(method, "https://edge.example"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for pair := range slices.Chunk(header, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	w := httptest.NewRecorder()
	e.edge.ServeHTTP(w, r)
	return w
}

// admin may mint what it has itself.
var admin = auth.Grant{Tenant: "acme", Subject: "backend", Scopes: auth.AllScopes, Sessions: auth.Sessions{All: true}, Views: []string{"customer", "staff"}}

func (e *env) token(g auth.Grant, lifetime time.Duration) string {
	return e.issuer.Token(g, lifetime, nil)
}

type minted struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expiresAt"`
	TokenID   string    `json:"tokenId"`
}

// mint returns the token of a request that is accepted, and its Grant.
func (e *env) mint(by, body string) (minted, *auth.Grant) {
	e.t.Helper()
	w := e.send(http.MethodPost, "/v1/tokens", by, body)
	var m minted
	if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil || w.Code != http.StatusOK {
		e.t.Fatalf("%s: %d %s", body, w.Code, w.Body)
	}
	if w.Header().Get("Cache-Control") != "no-store" {
		e.t.Errorf("header %v", w.Header())
	}
	g, err := e.issuer.Verify(e.t.Context(), m.Token)
	if err != nil {
		e.t.Fatal(err)
	}
	if m.TokenID == "" || m.TokenID != g.TokenID || !m.ExpiresAt.Equal(g.ExpiresAt.Add(-authn.Leeway)) {
		e.t.Errorf("%+v, %+v", m, g)
	}
	return m, g
}

func TestMint(t *testing.T) {
	e := newEnv(t, nil)
	by := e.token(admin, 24*time.Hour)
	for body, want := range map[string]auth.Grant{
		`{"subject":"ann","scopes":"read chat","view":"customer"}`:                                             {Sessions: auth.Sessions{Own: true}, Views: []string{"customer"}},
		`{"subject":"ann","scopes":"read chat","view":["staff","customer"],"sessions":"s1"}`:                   {Sessions: auth.Sessions{IDs: []string{"s1"}}, Views: []string{"staff", "customer"}},
		`{"subject":"ann","scopes":"read chat","view":"staff","sessions":["s1","s2"],"minutes":5}`:             {Sessions: auth.Sessions{IDs: []string{"s1", "s2"}}, Views: []string{"staff"}},
		`{"subject":"ann","scopes":"read chat","view":"staff","sessions":"p-*"}`:                               {Sessions: auth.Sessions{Prefix: "p-"}, Views: []string{"staff"}},
		`{"subject":"ann","scopes":"read chat","view":"staff","sessions":"*","minutes":60}`:                    {Sessions: auth.Sessions{All: true}, Views: []string{"staff"}},
		`{ "minutes" : 15, "view" : [ "staff" ], "sessions" : [ "*" ], "scopes":"read chat","subject":"ann" }`: {Sessions: auth.Sessions{All: true}, Views: []string{"staff"}},
	} {
		before := time.Now().Truncate(time.Second)
		m, g := e.mint(by, body)
		if g.Tenant != "acme" || g.Subject != "ann" || g.Scopes != auth.ScopeRead|auth.ScopeChat || !slices.Equal(g.Views, want.Views) || g.Sessions.All != want.Sessions.All ||
			g.Sessions.Own != want.Sessions.Own || g.Sessions.Prefix != want.Sessions.Prefix || !slices.Equal(g.Sessions.IDs, want.Sessions.IDs) {
			t.Errorf("%s: %+v", body, g)
		}
		minutes := 15 * time.Minute
		if strings.Contains(body, `"minutes":5}`) {
			minutes = 5 * time.Minute
		} else if strings.Contains(body, `"minutes":60}`) {
			minutes = time.Hour
		}
		if d := m.ExpiresAt.Sub(before); d < minutes || d > minutes+10*time.Second {
			t.Errorf("%s: expires after %s", body, d)
		}
		if strings.Contains(e.logged.String(), m.Token) || strings.Contains(e.logged.String(), by) {
			t.Error("a token was logged")
		}
	}
	if m, _ := e.mint(by, `{"subject":"ann","scopes":"read","view":"staff","minutes":1440}`); time.Until(m.ExpiresAt) > time.Hour {
		t.Errorf("longer than an hour: %v", m.ExpiresAt)
	}
}

// A minted token ends by the exp of the credential that minted it. With the leeway, a chain of tokens that mint each other would never end.
func TestMintedTokensDoNotOutliveTheirCredential(t *testing.T) {
	e := newEnv(t, nil)
	by := e.token(admin, time.Minute)
	limit, err := e.issuer.Verify(t.Context(), by)
	if err != nil {
		t.Fatal(err)
	}
	if m, _ := e.mint(by, `{"subject":"ann","scopes":"read","view":"staff"}`); m.ExpiresAt.After(limit.ExpiresAt.Add(-authn.Leeway)) {
		t.Errorf("expires at %v, the credential at %v", m.ExpiresAt, limit.ExpiresAt)
	}
	old := e.issuer.Token(admin, time.Minute, func(c *auth.MinterConfig) { c.Now = func() time.Time { return time.Now().Add(-70 * time.Second) } })
	w := e.send(http.MethodPost, "/v1/tokens", old, `{"subject":"ann","scopes":"read","view":"staff"}`)
	if w.Code != http.StatusUnauthorized || !strings.Contains(w.Header().Get("WWW-Authenticate"), `"expired"`) {
		t.Errorf("after exp, within the leeway: %d %v %s", w.Code, w.Header(), w.Body)
	}
}

// No request makes a token that allows more than the credential: random credentials and requests.
func TestMintIsNeverWider(t *testing.T) {
	e := newEnv(t, nil)
	const seed = 7
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	accepted, refused := 0, 0
	for range 2000 {
		g := auth.Grant{Tenant: "acme", Subject: pick("ann", "bob"), Scopes: auth.ScopeAdmin | auth.Scope(random.IntN(16))}
		g.Sessions = []auth.Sessions{{All: true}, {Own: true}, {IDs: []string{"s1", "s2"}}, {Prefix: "s"}}[random.IntN(4)]
		g.Views = [][]string{nil, {"a"}, {"a", "b"}, {auth.AnyView}}[random.IntN(4)]
		body := `{"subject":"` + pick("ann", "bob") + `","scopes":"` + pick("read", "read chat", "read chat answer", "stop", "admin", "read admin") + `"` +
			pick("", `,"sessions":"*"`, `,"sessions":"s1"`, `,"sessions":["s1","s3"]`, `,"sessions":"s*"`, `,"sessions":"x*"`) +
			pick("", `,"view":"a"`, `,"view":["b","a"]`, `,"view":"*"`) + pick("", `,"minutes":1440`) + `}`
		by := e.token(g, time.Hour)
		w := e.send(http.MethodPost, "/v1/tokens", by, body)
		switch w.Code {
		case http.StatusForbidden:
			refused++
			if strings.Contains(w.Body.String(), "eyJ") {
				t.Fatalf("refused with a token: %s", w.Body)
			}
			continue
		case http.StatusOK:
			accepted++
		default:
			t.Fatalf("%+v: %s: %d %s", g, body, w.Code, w.Body)
		}
		mine, err := e.issuer.Verify(t.Context(), by)
		if err != nil {
			t.Fatal(err)
		}
		var m minted
		if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		got, err := e.issuer.Verify(t.Context(), m.Token)
		if err != nil {
			t.Fatal(err)
		}
		if !authn.Covers(mine, got) || got.Scopes&auth.ScopeAdmin != 0 || got.Tenant != "acme" {
			t.Fatalf("seed %d: %+v minted %+v", seed, mine, got)
		}
	}
	if accepted < 50 || refused < 50 {
		t.Errorf("%d accepted, %d refused", accepted, refused)
	}
}

// A token that the configuration of the issuer would refuse is not handed out.
func TestMintedTokensAreVerified(t *testing.T) {
	e := newEnv(t, func(c *credentials.Config) {
		verify := c.Verify
		c.Verify = func(ctx context.Context, token string) (*auth.Grant, error) {
			if g, err := verify(ctx, token); err != nil || g.Scopes&auth.ScopeStop == 0 {
				return g, err
			}
			return nil, &authn.InvalidError{Reason: authn.ReasonForbidden, Member: "scope"}
		}
	})
	w := e.send(http.MethodPost, "/v1/tokens", e.token(admin, time.Hour), `{"subject":"ann","scopes":"read stop","view":"staff"}`)
	if w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "eyJ") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestMintBody(t *testing.T) {
	e := newEnv(t, nil)
	by := e.token(admin, time.Hour)
	ids := `"` + strings.Join(slices.Repeat([]string{"s"}, 17), `","`) + `"`
	for body, want := range map[string]int{
		``:                                       415,
		`null`:                                   400,
		`[]`:                                     400,
		`{}`:                                     400,
		`{"subject":"ann"}`:                      400,
		`{"scopes":"read"}`:                      400,
		`{"subject":"ann","scopes":""}`:          400,
		`{"subject":"ann","scopes":"read  "}`:    400,
		`{"subject":"ann","scopes":"root"}`:      400,
		`{"subject":"ann","scopes":["read"]}`:    400,
		`{"subject":7,"scopes":"read"}`:          400,
		`{"subject":"","scopes":"read"}`:         400,
		`{"subject":"a\nb","scopes":"read"}`:     400,
		`{"subject":"a\u202eb","scopes":"read"}`: 400,
		`{"subject":"` + strings.Repeat("a", 256) + `","scopes":"read"}`:     400,
		`{"subject":"ann","scopes":"read","tenant":"umbrella"}`:              400, // an unknown member: the tenant is not chosen
		`{"subject":"ann","scopes":"read","view":"staff","minutess":5}`:      400,
		`{"subject":"ann","subject":"bob","scopes":"read"}`:                  400,
		`{"subject":"ann","scopes":"read","scopes":"read"}`:                  400,
		`{"subject":"ann","scopes":"read","Scopes":"chat"}`:                  400,
		`{"subject":"ann","scopes":"read","minutes":0}`:                      400,
		`{"subject":"ann","scopes":"read","minutes":-1}`:                     400,
		`{"subject":"ann","scopes":"read","minutes":1441}`:                   400,
		`{"subject":"ann","scopes":"read","minutes":1.5}`:                    400,
		`{"subject":"ann","scopes":"read","minutes":1e300}`:                  400,
		`{"subject":"ann","scopes":"read","minutes":"5"}`:                    400,
		`{"subject":"ann","scopes":"read","sessions":[]}`:                    400,
		`{"subject":"ann","scopes":"read","sessions":""}`:                    400,
		`{"subject":"ann","scopes":"read","sessions":"a b"}`:                 400,
		`{"subject":"ann","scopes":"read","sessions":["a b","s1"]}`:          400,
		`{"subject":"ann","scopes":"read","sessions":[` + ids + `]}`:         400,
		`{"subject":"ann","scopes":"read","sessions":{"own":true}}`:          400,
		`{"subject":"ann","scopes":"read","view":""}`:                        400,
		`{"subject":"ann","scopes":"read","view":[["staff"]]}`:               400,
		`{"subject":"ann","scopes":"read"} {}`:                               400,
		`{"subject":"ann","scopes":"read","view":` + strings.Repeat("[", 99): 400,
		`{"subject":"` + strings.Repeat("a", 20<<10) + `"}`:                  413,
		"{\"subject\":\"\xff\",\"scopes\":\"read\"}":                         400,
	} {
		w := e.send(http.MethodPost, "/v1/tokens", by, body)
		if w.Code != want || strings.Contains(w.Body.String(), "eyJ") {
			t.Errorf("%.80s: %d %s, want %d", body, w.Code, w.Body, want)
		}
	}
	for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1"} {
		if w := e.send(http.MethodPost, "/v1/tokens", by, `{"subject":"ann","scopes":"read"}`, "Content-Type", media); w.Code != http.StatusUnsupportedMediaType {
			t.Errorf("%s: %d", media, w.Code)
		}
	}
}

// The cookie has the bearer token, all attributes, and a shorter life than the token.
func TestSessionCookie(t *testing.T) {
	e := newEnv(t, nil)
	user := auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead, Sessions: auth.Sessions{Own: true}}
	token := e.token(user, 16*time.Minute)
	aboutToExpire := func(c *auth.MinterConfig) {
		c.Now = func() time.Time { return time.Now().Add(-authn.Leeway - time.Second) }
	}
	w := e.send(http.MethodPost, "/v1/session-cookie", token, "")
	cookies := w.Result().Cookies()
	if w.Code != http.StatusOK || len(cookies) != 1 || w.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	c := cookies[0]
	if c.Name != "__Host-tailrace" || c.Value != token || c.Path != "/" || c.Domain != "" || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode {
		t.Errorf("%s", c)
	}
	const limit = (16*time.Minute + authn.Leeway) * 7 / 8
	if age := time.Duration(c.MaxAge) * time.Second; age > limit || age < limit-5*time.Second {
		t.Errorf("Max-Age is %s of 16 minutes", age)
	}
	var body struct {
		ExpiresAt time.Time `json:"expiresAt"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || time.Until(body.ExpiresAt) > limit {
		t.Errorf("%s, %v", w.Body, err)
	}
	cookie := c.Name + "=" + c.Value
	if w := e.send(http.MethodGet, "/v1/sessions/s1/snapshot", "", "", "Cookie", cookie); w.Code != http.StatusOK {
		t.Errorf("with the cookie: %d %s", w.Code, w.Body)
	}
	if w := e.send(http.MethodGet, "/v1/sessions/s1/snapshot", "", "", "Cookie", cookie+"x"); w.Code != http.StatusUnauthorized {
		t.Errorf("with a bad cookie: %d %s", w.Code, w.Body)
	}
	for name, w := range map[string]*httptest.ResponseRecorder{
		"nothing":               e.send(http.MethodPost, "/v1/session-cookie", "", ""),
		"the cookie alone":      e.send(http.MethodPost, "/v1/session-cookie", "", "", "Cookie", cookie, "Sec-Fetch-Site", "same-origin"),
		"a bad token":           e.send(http.MethodPost, "/v1/session-cookie", token+"x", "", "Cookie", cookie),
		"a token in the query":  e.send(http.MethodPost, "/v1/session-cookie?token="+token, token, ""),
		"a page of another one": e.send(http.MethodPost, "/v1/session-cookie", token, "", "Origin", "https://evil.example"),
		"a body":                e.send(http.MethodPost, "/v1/session-cookie", token, "{}"),
		"no right to read":      e.send(http.MethodPost, "/v1/session-cookie", e.token(auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.ScopeChat, Sessions: user.Sessions}, time.Hour), ""),
		"about to expire":       e.send(http.MethodPost, "/v1/session-cookie", e.issuer.Token(user, 2*time.Second, aboutToExpire), ""),
	} {
		if w.Code < 400 || w.Header().Get("Set-Cookie") != "" {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
		if w.Code == http.StatusUnauthorized && !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s: %v", name, w.Header())
		}
	}
	user.Views = slices.Repeat([]string{strings.Repeat("v", 64)}, 16)
	user.Sessions = auth.Sessions{IDs: slices.Repeat([]string{strings.Repeat("s", 64)}, 16)}
	for subject, want := range map[string]int{"ann": http.StatusOK, strings.Repeat("<", 255): http.StatusBadRequest} { // six characters each in JSON
		user.Subject = subject
		long := e.token(user, time.Hour)
		w := e.send(http.MethodPost, "/v1/session-cookie", long, "")
		if w.Code != want || (want == http.StatusOK) != (len(c.Name)+len(long) <= 4096) {
			t.Errorf("a token of %d bytes: %d %s", len(long), w.Code, w.Body)
		}
	}
	for name, w := range map[string]*httptest.ResponseRecorder{
		"without a credential": e.send(http.MethodDelete, "/v1/session-cookie", "", ""),
		"with a bad cookie":    e.send(http.MethodDelete, "/v1/session-cookie", "", "", "Cookie", cookie+"x"),
	} {
		got := w.Result().Cookies()
		if w.Code != http.StatusNoContent || len(got) != 1 || got[0].MaxAge != -1 || got[0].Value != "" || got[0].Name != c.Name || got[0].Path != "/" || !got[0].Secure {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
	}
	if w := e.send(http.MethodDelete, "/v1/session-cookie", "", "", "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"); w.Code != http.StatusForbidden {
		t.Errorf("a page of another origin logs the user out: %d", w.Code)
	}
}

// A ticket opens one stream of one session, with the view that was asked for.
func TestTickets(t *testing.T) {
	e := newEnv(t, nil)
	user := auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead, Sessions: auth.Sessions{Own: true}, Views: []string{"customer"}}
	token := e.token(user, time.Hour)
	w := e.send(http.MethodPost, "/v1/tickets", token, `{"session":"s1","view":"customer"}`)
	var issued struct {
		Ticket    string    `json:"ticket"`
		ExpiresAt time.Time `json:"expiresAt"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &issued); err != nil || w.Code != http.StatusOK || len(issued.Ticket) != 26 || w.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if d := time.Until(issued.ExpiresAt); d > authn.TicketTTL || d < authn.TicketTTL-5*time.Second {
		t.Errorf("expires in %s", d)
	}
	// HEAD does not spend it; what GET does is tested with a server.
	if w := e.send(http.MethodHead, "/v1/sessions/s1/events?ticket="+issued.Ticket, "", ""); w.Code != http.StatusUnauthorized {
		t.Errorf("HEAD: %d", w.Code)
	}
	for body, want := range map[string]int{
		`{"session":"s1"}`:                   200,
		`{"session":"s1","view":"staff"}`:    400,
		`{"session":"s1","view":""}`:         200,
		`{"session":"other"}`:                404,
		`{"session":"a b"}`:                  400,
		`{"session":""}`:                     400,
		`{"session":["s1","s2"]}`:            400,
		`{"session":"s1","sessions":["s2"]}`: 400,
		`{"session":"s2","session":"s1"}`:    400,
		`{}`:                                 400,
		``:                                   415,
		`{"session":"s1","ttl":86400}`:       400,
		`{"session":"` + strings.Repeat("s", 17<<10): 413,
	} {
		if w := e.send(http.MethodPost, "/v1/tickets", token, body); w.Code != want {
			t.Errorf("%.60s: %d %s, want %d", body, w.Code, w.Body, want)
		}
	}
	user.Subject = "bob"
	hidden := e.send(http.MethodPost, "/v1/tickets", e.token(user, time.Hour), `{"session":"s1"}`)
	unknown := e.send(http.MethodPost, "/v1/tickets", e.token(user, time.Hour), `{"session":"s9"}`)
	if hidden.Code != http.StatusNotFound || hidden.Body.String() != unknown.Body.String() {
		t.Errorf("hidden %d %s, unknown %d %s", hidden.Code, hidden.Body, unknown.Code, unknown.Body)
	}
	if strings.Contains(e.logged.String(), issued.Ticket) {
		t.Error("the ticket was logged")
	}
}

// A route without its part is not served.
func TestPartsAreOptional(t *testing.T) {
	e := newEnv(t, func(c *credentials.Config) { *c = credentials.Config{} })
	token := e.token(admin, time.Hour)
	for _, path := range []string{"/v1/tokens", "/v1/session-cookie", "/v1/tickets"} {
		if w := e.send(http.MethodPost, path, token, `{"session":"s1","subject":"ann","scopes":"read"}`); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if _, err := credentials.New(nil, credentials.Config{}); err == nil {
		t.Error("no edge")
	}
	if _, err := credentials.New(e.edge, credentials.Config{Minter: e.issuer.Minter(nil)}); err == nil {
		t.Error("a Minter without Verify")
	}
	if _, err := credentials.New(e.edge, credentials.Config{MaxLifetime: -1}); err == nil {
		t.Error("a negative lifetime")
	}
}

// Every route is in the document, every operation of the document is a route, and its responses match.
func TestEveryRouteIsDocumented(t *testing.T) {
	e := newEnv(t, nil)
	doc := openapitest.Load(t)
	var routes []string
	for _, p := range e.edge.Policies() {
		if !strings.HasPrefix(p.Path, "/v1/sessions") && p.Path != "/v1/events" && p.Path != "/healthz" {
			routes = append(routes, p.Method+" "+p.Path)
		}
	}
	slices.Sort(routes)
	if documented := doc.Operations("credentials"); !slices.Equal(routes, documented) {
		t.Errorf("the service has\n%q, the document\n%q", routes, documented)
	}
	token := e.token(admin, time.Hour)
	for _, ask := range []struct{ method, path, token, body string }{
		{"POST", "/v1/tokens", token, `{"subject":"ann","scopes":"read","view":"staff"}`},
		{"POST", "/v1/tokens", token, `{}`},
		{"POST", "/v1/tokens", token, `{"subject":"ann","scopes":"admin","view":"staff"}`},
		{"POST", "/v1/tokens", "", `{}`},
		{"POST", "/v1/session-cookie", token, ``},
		{"POST", "/v1/session-cookie", "", ``},
		{"DELETE", "/v1/session-cookie", "", ``},
		{"POST", "/v1/tickets", token, `{"session":"s1"}`},
		{"POST", "/v1/tickets", token, `{"session":"s9"}`},
		{"POST", "/v1/tickets", token, `{}`},
	} {
		w := e.send(ask.method, ask.path, ask.token, ask.body)
		resp := w.Result()
		resp.Request = httptest.NewRequest(ask.method, ask.path, nil)
		doc.Check(t, resp, w.Body.Bytes())
	}
	for _, what := range doc.Unseen("credentials") {
		t.Errorf("%s was never tried", what)
	}
}

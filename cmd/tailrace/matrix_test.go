package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/credentials"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/internal/values"
	"github.com/tailrace/tailrace/producers"
)

// matrix is an edge with all surfaces and an issuer of tokens. No worker runs.
type matrix struct {
	*stack.Stack

	t      *testing.T
	issuer *authtest.Issuer
	edge   *httpServer
	url    string
	writer *producers.Producer
}

// newMatrix returns a matrix whose issuer accepts cookies from pages of these origins.
func newMatrix(t *testing.T, origins ...string) *matrix {
	t.Helper()
	m := &matrix{Stack: stack.Start(t, stack.Options{}), t: t, issuer: authtest.NewIssuer(t, origins...)}
	m.edge, m.url = m.newEdge(origins...)
	m.writer = m.NewWriter(producers.Config{Pace: producers.Off})
	return m
}

// newEdge starts an edge with a connection of its own.
func (m *matrix) newEdge(origins ...string) (edge *httpServer, url string) {
	m.t.Helper()
	args := []string{"--nats-url", m.Server.URL, "--listen", "127.0.0.1:0", "--ops-listen", "", "--allow-delete", "--agent-server", "/agents", "--ingest", "on", "--drain", "0s", "--heartbeat", "1h", "--memory", "67108864"}
	if len(origins) > 0 {
		args = append(args, "--cors-origins", strings.Join(origins, ","))
	}
	cfg, _, err := load(args, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	b, err := connect(natsauth.Edge, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(b.close)
	b.refusals = 10_000
	edge, err = b.newHTTPServerWith(m.t.Context(), &authenticators{Authenticator: m.issuer, revocations: m.issuer.Revocations, routes: &credentials.Config{
		Minter: m.issuer.Minter(nil), Verify: m.issuer.Verify, Cookies: true,
	}})
	if err != nil {
		m.t.Fatal(err)
	}
	url = edge.url() // before it serves: net/http changes the configuration that this reads
	ctx, cancel := context.WithCancel(m.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- edge.run(ctx) }()
	m.t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			m.t.Error(err)
		}
	})
	return edge, url
}

// session writes a complete session of ann, which has a large value, and returns its id.
func (m *matrix) session(id string) string {
	m.t.Helper()
	return m.complete(id, chunk.Custom{EventName: "rows", Data: largeValue()})
}

// largeKey is the key of the value of session.
var largeKey = sync.OnceValue(func() string { return values.NewKey(1, chunk.TypeCustom, "data", largeValue()).String() })

// sessionFor writes a complete session of ann for one route. Only a route of values needs the large one, which takes the race detector long.
func (m *matrix) sessionFor(p httpkit.Policy, id string) string {
	m.t.Helper()
	if strings.Contains(p.Path, "{value}") {
		return m.session(id)
	}
	return m.complete(id, chunk.Custom{EventName: "rows", Data: chunk.Value("1")})
}

func (m *matrix) complete(id string, body chunk.Body) string {
	m.t.Helper()
	run, err := m.writer.Start(m.t.Context(), chunk.RootSession("acme", id), chunk.RunStarted{
		Mode: "execute", Input: []chunk.InputMessage{{Content: "the secret of ann"}}, By: &chunk.Principal{Subject: "ann"}, RunID: "r1",
	}, producers.AgentType("demo"), producers.InputAt(codec.InputPosition{Run: "r1"}))
	if err != nil {
		m.t.Fatal(err)
	}
	if err := run.EmitBody(m.t.Context(), body); err != nil {
		m.t.Fatal(err)
	}
	if err := run.End(m.t.Context(), nil); err != nil {
		m.t.Fatal(err)
	}
	return id
}

// reply is a response. The id of the session is replaced by ID in it.
type reply struct {
	status int
	header string
	body   string
}

// request returns a request of a route for a session.
func (m *matrix) request(ctx context.Context, p httpkit.Policy, id, token string) *http.Request {
	m.t.Helper()
	address := m.url + strings.NewReplacer("{id}", url.PathEscape(id), "{run}", "r1", "{value}", largeKey()).Replace(p.Path)
	if strings.Contains(p.Path, "/runs/{run}") {
		address += "?epoch=1"
	}
	body := strings.NewReader("")
	switch {
	case p.Method == http.MethodPost:
		body = strings.NewReader(bodyOf(p.Path, id))
	case p.Path == "/v1/events":
		address += "?session=" + url.QueryEscape(id)
	case strings.HasPrefix(p.Path, "/agents/"):
		address += "?sessionId=" + url.QueryEscape(id)
	}
	req, err := http.NewRequestWithContext(ctx, p.Method, address, body)
	if err != nil {
		m.t.Fatal(err)
	}
	if p.Method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		for name, value := range map[string]string{"Specversion": "1.0", "Id": "e1", "Source": "test", "Type": "text_delta"} {
			req.Header.Set("Ce-"+name, value)
		}
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req
}

// send sends a request of a route for a session. Of a stream it reads the header alone.
func (m *matrix) send(t *testing.T, p httpkit.Policy, id, token string) reply {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp, err := http.DefaultClient.Do(m.request(ctx, p, id, token))
	if err != nil {
		t.Fatalf("%s %s: %v", p.Method, p.Path, err)
	}
	defer resp.Body.Close()
	r := reply{status: resp.StatusCode}
	resp.Header.Del("Date")
	var header []string
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		header = append(header, name+": "+strings.Join(resp.Header[name], ", "))
	}
	hide := strings.NewReplacer(id, "ID", url.PathEscape(id), "ID")
	r.header = hide.Replace(strings.Join(header, "\n"))
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") && resp.StatusCode == http.StatusOK {
		return r
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", p.Method, p.Path, err)
	}
	r.body = hide.Replace(string(text))
	return r
}

// bodyOf returns the body of a POST that has an effect on a session.
func bodyOf(path, id string) string {
	switch path {
	case "/api/chat", "/api/chat/{id}":
		return fmt.Sprintf(`{"id":%q,"trigger":"submit-message","messages":[{"id":"u1","role":"user","parts":[{"type":"text","text":"hi"}]}]}`, id)
	case "/api/agui":
		return fmt.Sprintf(`{"threadId":%q,"runId":"r1","messages":[{"id":"u1","role":"user","content":"hi"}],"tools":[],"context":[]}`, id)
	case "/api/chat/{id}/answers":
		return `{"toolCallId":"c1","result":1}`
	case "/api/chat/{id}/withdraw":
		return `{"messageId":"u1"}`
	case "/api/chat/{id}/stop":
		return `{}`
	case "/api/langgraph/threads/{id}/commands":
		return `{"id":1,"method":"run.start","params":{"assistant_id":"demo","input":{"messages":[{"type":"human","id":"u1","content":"hi"}]}}}`
	case "/api/langgraph/threads/{id}/stream/events":
		return `{"channels":["messages"]}`
	case "/v1/sessions/{id}/fork":
		return fmt.Sprintf(`{"at":"9000000000","session":%q}`, id)
	case "/v1/tokens":
		return `{"subject":"bob","scopes":"read"}`
	case "/v1/session-cookie":
		return ""
	case "/v1/tickets":
		return fmt.Sprintf(`{"session":%q}`, id)
	case "/v1/sessions/{id}/runs":
		return `{"runId":"r1"}`
	case "/v1/sessions/{id}/runs/{run}/chunks", "/v1/sessions/{id}/runs/{run}/events":
		return `{"type":"text_delta","delta":"hi"}`
	case "/v1/sessions/{id}/runs/{run}/end", "/v1/sessions/{id}/runs/{run}/pause":
		return `{}`
	case "/v1/sessions/{id}/runs/{run}/fail":
		return `{"error":"failed"}`
	case "/v1/sessions/{id}/runs/{run}/cleanup":
		return `{"step":1}`
	case "/agents/start":
		return fmt.Sprintf(`{"sessionId":%q,"agentType":"demo","message":"hi"}`, id)
	}
	return fmt.Sprintf(`{"sessionId":%q,"toolCallId":"c1","result":1}`, id) // the other routes of agents
}

// starts reports whether a route starts a session with an id that is not in use.
func starts(p httpkit.Policy) bool {
	return slices.Contains([]string{"/api/agui", "/api/chat", "/api/chat/{id}", "/api/langgraph/threads/{id}/commands", "/agents/start", "/v1/sessions/{id}/runs"}, p.Path) && p.Method == http.MethodPost
}

// ofSession reports whether a request of a route is for one session.
func ofSession(p httpkit.Policy) bool {
	return p.NamesSessions || p.Path == "/v1/events" || strings.HasPrefix(p.Path, "/agents/") || p.Path == "/api/chat" || p.Path == "/api/agui" || p.Path == "/v1/tickets"
}

// TestCrossMatrix sends each request of the route tables with each kind of credential. A session that the client must not know gives the response of one that
// does not exist: status, headers and body.
func TestCrossMatrix(t *testing.T) {
	m := newMatrix(t)
	ann := auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.AllScopes, Sessions: auth.Sessions{All: true}}
	token := func(change func(*auth.Grant)) string {
		g := ann
		change(&g)
		return m.issuer.Token(g, time.Hour, nil)
	}
	all := token(func(*auth.Grant) {})
	expired := m.issuer.Token(ann, time.Minute, func(c *auth.MinterConfig) { c.Now = func() time.Time { return time.Now().Add(-time.Hour) } })
	audience := m.issuer.Token(ann, time.Hour, func(c *auth.MinterConfig) { c.Audience = "another service" })
	key := authtest.NewIssuer(t).Token(ann, time.Hour, nil)
	revoked := m.revoked(t, all, ann)
	otherTenant := token(func(g *auth.Grant) { g.Tenant = "umbrella" })
	otherSession := token(func(g *auth.Grant) { g.Sessions = auth.Sessions{IDs: []string{"another"}} })
	otherPrefix := token(func(g *auth.Grant) { g.Sessions = auth.Sessions{Prefix: "z-"} })
	otherOwner := token(func(g *auth.Grant) { g.Subject, g.Sessions = "bob", auth.Sessions{Own: true} })
	own := token(func(g *auth.Grant) { g.Sessions = auth.Sessions{Own: true} })

	policies := m.edge.edge.Policies()
	if len(policies) < 25 {
		t.Fatalf("%d routes", len(policies))
	}
	for i, p := range policies {
		t.Run(p.Method+" "+p.Path, func(t *testing.T) {
			known, unknown := fmt.Sprintf("s:known%d/a@b", i), fmt.Sprintf("s:other%d/a@b", i)
			if p.Public {
				logout := p.Method == http.MethodDelete && p.Path == "/v1/session-cookie" // removes a cookie of the browser that asks
				if r := m.send(t, p, unknown, ""); r.status != http.StatusOK && (!logout || r.status != http.StatusNoContent) {
					t.Errorf("public: %d %s", r.status, r.body)
				}
				if !logout && !strings.HasPrefix(p.Path, "/healthz") && !strings.HasPrefix(p.Path, "/inspect/") && !strings.HasPrefix(p.Path, "/docs/") && strings.Contains(p.Path[1:], "/") {
					t.Error("only the liveness page, files of the page and documents may be public")
				}
				return
			}
			m.sessionFor(p, known)
			before := m.Snapshot(chunk.RootSession("acme", known)).Position
			for name, bad := range map[string]string{"no credential": "", "expired": expired, "wrong audience": audience, "wrong key": key, "revoked": revoked} {
				r := m.send(t, p, known, bad)
				if r.status != http.StatusUnauthorized || !strings.Contains(r.body, "UNAUTHENTICATED") || !strings.Contains(r.header, "Www-Authenticate: Bearer") {
					t.Errorf("%s: %+v", name, r)
				}
				if again := m.send(t, p, unknown, bad); again != r {
					t.Errorf("%s: unknown session %+v, known %+v", name, again, r)
				}
				if strings.Contains(r.body, "revoked") != (name == "revoked") {
					t.Errorf("%s: the reason is %s", name, r.body)
				}
				if bad != "" && strings.Contains(r.body+r.header, bad[:20]) {
					t.Errorf("%s: the response has the token", name)
				}
			}
			m.missingScopes(t, p, known, unknown, token)
			if !ofSession(p) {
				if r := m.send(t, p, known, all); r.status != http.StatusOK && r.status != http.StatusAccepted && r.status != http.StatusNoContent {
					t.Errorf("right: %+v", r)
				}
				return
			}
			for name, other := range map[string]string{"other tenant": otherTenant, "other session": otherSession, "other prefix": otherPrefix, "other owner": otherOwner} {
				if starts(p) && (name == "other tenant" || name == "other owner") {
					continue // below
				}
				r := m.send(t, p, known, other)
				if again := m.send(t, p, unknown, other); again != r {
					t.Errorf("%s: unknown session\n%+v\nknown\n%+v", name, again, r)
				}
				waits := p.Path == "/api/langgraph/threads/{id}/stream/events" // also for a thread that does not exist
				if strings.Contains(r.body, "secret") || r.status < 300 && r.status != http.StatusNoContent && name != "other tenant" && !waits {
					t.Errorf("%s: %+v", name, r)
				}
			}
			if starts(p) {
				if r := m.send(t, p, known, otherOwner); r.status != http.StatusNotFound {
					t.Errorf("other owner: %+v", r)
				}
				if a, b := m.send(t, p, known, otherTenant), m.send(t, p, unknown, otherTenant); a.status != b.status || a.status > 299 {
					t.Errorf("other tenant: %+v and %+v", a, b)
				}
			}
			if after := m.Snapshot(chunk.RootSession("acme", known)).Position; after != before {
				t.Errorf("the session has changed: %v, before %v", after, before)
			}
			for name, right := range map[string]string{"all": all, "own": own, "by id": token(func(g *auth.Grant) { g.Sessions = auth.Sessions{IDs: []string{m.sessionFor(p, known+"-id")}} })} {
				id := known
				if name == "by id" {
					id = known + "-id"
				} else if p.Method == http.MethodDelete || p.Method == http.MethodPost {
					id = m.sessionFor(p, known+"-"+name) // one request must not change what the next one finds
				}
				if r := m.send(t, p, id, right); !isRight(p, r) {
					t.Errorf("right (%s): %+v", name, r)
				}
			}
		})
	}
}

// revoked returns a token that was revoked with another one.
func (m *matrix) revoked(t *testing.T, admin string, g auth.Grant) string {
	t.Helper()
	g.TokenID = "revoked-token"
	token, list := m.issuer.Token(g, time.Hour, nil), httpkit.Policy{Method: http.MethodGet, Path: "/v1/sessions"}
	if r := m.send(t, list, "", token); r.status != http.StatusOK {
		t.Fatalf("before the revocation: %+v", r)
	}
	if r := m.send(t, httpkit.Policy{Method: http.MethodDelete, Path: "/v1/tokens/{id}"}, g.TokenID, admin); r.status != http.StatusNoContent {
		t.Fatalf("the revocation: %+v", r)
	}
	natstest.Eventually(t, "the revocation", func(context.Context) error {
		if r := m.send(t, list, "", token); r.status != http.StatusUnauthorized {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	return token
}

// isRight reports whether a response to a request with all rights shows that the session was found.
func isRight(p httpkit.Policy, r reply) bool {
	want, code := http.StatusOK, ""
	switch p.Path {
	case "/v1/sessions/{id}":
		want = http.StatusNoContent
	case "/v1/sessions/{id}/events", "/v1/events":
		want = http.StatusOK
	case "/api/chat/{id}", "/api/chat/{id}/stream":
		if p.Method == http.MethodGet {
			want = http.StatusNoContent // no answer is in flight
		}
	case "/api/chat/{id}/stop":
		want = http.StatusNoContent
	case "/api/langgraph/threads/{id}/runs/{run}/cancel":
		want = http.StatusAccepted
	case "/v1/sessions/{id}/fork": // the fork would be the session itself
		want, code = http.StatusConflict, "SESSION_EXISTS"
	case "/api/chat/{id}/withdraw":
		want, code = http.StatusConflict, "NOT_QUEUED"
	case "/api/chat/{id}/answers":
		want, code = http.StatusNotFound, "CALL_NOT_FOUND"
	case "/agents/submit-tool-result":
		want, code = http.StatusNotFound, "NOT_FOUND"
	case "/agents/start", "/agents/resume", "/agents/interrupt", "/agents/abort":
		want, code = http.StatusConflict, "ALREADY_COMPLETED"
	case "/v1/sessions/{id}/runs/{run}/chunks", "/v1/sessions/{id}/runs/{run}/events", "/v1/sessions/{id}/runs/{run}/fail", "/v1/sessions/{id}/runs/{run}/pause", "/v1/sessions/{id}/runs/{run}/cleanup":
		want, code = http.StatusConflict, "RUN_ENDED"
	}
	return r.status == want && strings.Contains(r.body, code)
}

// missingScopes sends a request with all rights but those of the route. The response is 403 where the client knows that the session exists, or the path names
// none; otherwise it is the 404 of a session that does not exist.
func (m *matrix) missingScopes(t *testing.T, p httpkit.Policy, known, unknown string, token func(func(*auth.Grant)) string) {
	t.Helper()
	for _, missing := range []auth.Scope{p.Scope, p.AnyOf} {
		if missing == 0 {
			continue
		}
		for name, sessions := range map[string]auth.Sessions{"all": {All: true}, "own": {Own: true}, "others": {IDs: []string{"another"}}} {
			lacks := token(func(g *auth.Grant) { g.Scopes, g.Sessions = auth.AllScopes&^missing, sessions })
			want := http.StatusForbidden
			if p.NamesSessions && (missing&auth.ScopeRead != 0 || name == "others") {
				want = http.StatusNotFound
			}
			if r := m.send(t, p, known, lacks); r.status != want {
				t.Errorf("without %s, sessions %s: %+v, want %d", missing, name, r, want)
			}
			other := auth.ScopeAdmin
			if missing == other {
				other = auth.ScopeIngest
			}
			nothing := token(func(g *auth.Grant) { g.Scopes, g.Sessions = other, sessions })
			if a, b := m.send(t, p, known, nothing), m.send(t, p, unknown, nothing); a != b || a.status != cmp.Or(map[bool]int{true: http.StatusNotFound}[p.NamesSessions], http.StatusForbidden) {
				t.Errorf("without rights, sessions %s: unknown\n%+v\nknown\n%+v", name, b, a)
			}
		}
	}
}

// A client that may write runs, and not delete, takes over a conversation of a user: it removes nothing of what was there.
func TestIngestIsNotDelete(t *testing.T) {
	m := newMatrix(t)
	writes := func(change func(*auth.Grant)) string {
		g := auth.Grant{Tenant: "acme", Subject: "agent", Scopes: auth.ScopeIngest, Sessions: auth.Sessions{All: true}}
		change(&g)
		return m.issuer.Token(g, time.Hour, nil)
	}
	for name, token := range map[string]string{
		"all": writes(func(*auth.Grant) {}), "by-id": writes(func(g *auth.Grant) { g.Sessions = auth.Sessions{IDs: []string{"chat-by-id"}} }),
		"own": writes(func(g *auth.Grant) { g.Subject, g.Sessions = "ann", auth.Sessions{Own: true} }),
	} {
		s := chunk.RootSession("acme", "chat-"+name)
		run, err := m.writer.Start(t.Context(), s, chunk.RunStarted{RunID: "chat", Input: []chunk.InputMessage{{Content: "hi"}}, By: &chunk.Principal{Subject: "ann"}})
		if err != nil {
			t.Fatal(err)
		}
		run.SetStep(1)
		if err := run.EmitBody(t.Context(), chunk.TextDelta{Delta: "an answer"}); err != nil {
			t.Fatal(err)
		}
		if _, err := run.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := m.Records(s)
		runs := "/v1/sessions/" + s.ID + "/runs"
		if status := m.do(t, httpkit.Policy{Method: http.MethodPost, Path: runs}, "", token, `{"runId":"i1","takeOver":true}`); status != http.StatusCreated {
			t.Errorf("%s: takeover: %d", name, status)
		}
		for _, body := range []string{`{"step":0}`, `{"step":0,"after":"1"}`} {
			if status := m.do(t, httpkit.Policy{Method: http.MethodPost, Path: runs + "/i1/cleanup?epoch=2"}, "", token, body); status != http.StatusOK {
				t.Errorf("%s: cleanup: %d", name, status)
			}
		}
		if status := m.do(t, httpkit.Policy{Method: http.MethodDelete, Path: "/v1/sessions/" + s.ID}, "", token, ""); status != http.StatusNotFound && status != http.StatusForbidden {
			t.Errorf("%s: deletion: %d", name, status)
		}
		after := m.Records(s)
		if len(after) != len(before)+1 {
			t.Errorf("%s: %d records, want %d and the run_started", name, len(after), len(before))
			continue
		}
		for i, rec := range before {
			if after[i].Position() != rec.Position() {
				t.Errorf("%s: record %d is %v, before %v", name, i, after[i].Position(), rec.Position())
			}
		}
	}
}

// A list has the sessions that the Grant covers and no others, also for clients that ask at the same time.
func TestListsShowWhatTheGrantCovers(t *testing.T) {
	m := newMatrix(t)
	for _, id := range []string{"a:1", "a:2", "b:1"} {
		m.session(id)
		run := m.Snapshot(chunk.RootSession("acme", id))
		if run.Owner == nil || run.Owner.Subject != "ann" {
			t.Fatalf("owner of %s: %+v", id, run.Owner)
		}
	}
	p := httpkit.Policy{Method: http.MethodGet, Path: "/v1/sessions"}
	m.project("acme", "a:1", "a:2", "b:1")
	for _, tt := range []struct {
		grant auth.Grant
		want  []string
	}{
		{auth.Grant{Subject: "ann", Sessions: auth.Sessions{All: true}}, []string{"a:1", "a:2", "b:1"}},
		{auth.Grant{Subject: "ann", Sessions: auth.Sessions{Own: true}}, []string{"a:1", "a:2", "b:1"}},
		{auth.Grant{Subject: "bob", Sessions: auth.Sessions{Own: true}}, nil},
		{auth.Grant{Subject: "bob", Sessions: auth.Sessions{Prefix: "a:"}}, []string{"a:1", "a:2"}},
		{auth.Grant{Subject: "bob", Sessions: auth.Sessions{IDs: []string{"a:2", "c"}}}, []string{"a:2"}},
		{auth.Grant{Tenant: "umbrella", Subject: "ann", Sessions: auth.Sessions{All: true}}, nil},
	} {
		g := tt.grant
		g.Tenant, g.Scopes = cmp.Or(g.Tenant, "acme"), auth.ScopeRead
		r := m.send(t, p, "none", m.issuer.Token(g, time.Hour, nil))
		if r.status != http.StatusOK {
			t.Fatalf("%+v: %+v", g, r)
		}
		for _, id := range []string{"a:1", "a:2", "b:1"} {
			if shown := strings.Contains(r.body, `"id":"`+id+`"`); shown != slices.Contains(tt.want, id) {
				t.Errorf("%s %+v: %s shown: %t", g.Subject, g.Sessions, id, shown)
			}
		}
		if len(tt.want) > 0 && !strings.Contains(r.body, `"owner":"ann"`) {
			t.Errorf("the owner is not shown: %s", r.body)
		}
	}
}

// project saves the snapshots of sessions, as the projector does.
func (m *matrix) project(tenant string, ids ...string) {
	m.t.Helper()
	store, err := jssnapshots.New(m.JS, jssnapshots.Config{})
	if err != nil {
		m.t.Fatal(err)
	}
	for _, id := range ids {
		if _, err := store.Save(m.t.Context(), m.Snapshot(chunk.RootSession(tenant, id)), 0); err != nil {
			m.t.Fatal(err)
		}
	}
}

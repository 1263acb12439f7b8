package chat

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/revocation"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
)

// granting gives the rights of a user, for a time that the test can change.
type granting struct {
	grant    auth.Grant
	lifetime *atomic.Int64 // in nanoseconds; 0 is without expiry
}

func (g granting) Authenticate(*http.Request) (*auth.Grant, error) {
	grant := g.grant
	if d := time.Duration(g.lifetime.Load()); d > 0 {
		grant.ExpiresAt = time.Now().Add(d)
	}
	return &grant, nil
}

// A response is aborted after a complete event before the credential of its client expires. The page comes back with its cursor and a fresh credential, and gets
// the rest. The owner of the chat gets it with a credential for own sessions, and another user does not.
func TestResponseEndsBeforeTheCredential(t *testing.T) {
	w := newEnv(t)
	var lifetime atomic.Int64
	const valid = 2 * time.Second
	lifetime.Store(int64(valid))
	as := func(subject string) *edge {
		return w.newEdge(func(cfg *edgeConfig) {
			cfg.edge.Heartbeat = time.Hour
			cfg.edge.Authenticator = granting{
				auth.Grant{Tenant: "acme", Subject: subject, Scopes: auth.ScopeRead | auth.ScopeChat, Sessions: auth.Sessions{Own: true}}, &lifetime,
			}
		})
	}
	ann, bob := as("ann"), as("bob")
	gate := make(chan struct{})
	w.work(slowly(gate))
	began := time.Now()
	page := ann.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
	page.until("text-delta(Hello )")
	if err := page.broken(); err == nil {
		t.Error("the response ended cleanly in the middle of an answer")
	}
	if took := time.Since(began); took < valid*7/8 || took > valid+time.Second {
		t.Errorf("the response ended after %s, the credential is valid for %s", took, valid)
	}
	lifetime.Store(0)
	want(t, bob.get("/stream", nil), "204")
	want(t, bob.get("/snapshot", nil), `404 {"error":"there is no such chat","code":"STREAM_NOT_FOUND"}`)
	back := ann.open(http.MethodGet, "/stream", "", http.Header{"X-Resume-From-Sequence": {page.id}})
	close(gate)
	want(t, back.rest(), "text-delta(world) text-end finish-step finish(stop) DONE")
	want(t, bob.post("", chatBody("", user("u1", "hi"))), `404 {"error":"there is no such chat","code":"STREAM_NOT_FOUND"}`)
	want(t, ann.post("/answers", `{"toolCallId":"c1","result":1}`), `403 {"error":"the credential does not have this right","code":"FORBIDDEN"}`)
	w.handledAre("execute")
}

// A response of a revoked token is aborted at once after a complete event, and the page gets 401. With another token it gets the rest.
func TestResponseOfRevokedToken(t *testing.T) {
	w := newEnv(t)
	issuer := authtest.NewIssuer(t)
	ann := w.newEdge(func(cfg *edgeConfig) {
		cfg.edge.Heartbeat, cfg.edge.Authenticator, cfg.edge.Revocations = time.Hour, issuer, issuer.Revocations
	})
	bearer := func(id string) http.Header {
		grant := auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead | auth.ScopeChat, Sessions: auth.Sessions{Own: true}, TokenID: id}
		return http.Header{"Authorization": {"Bearer " + issuer.Token(grant, time.Hour, nil)}}
	}
	gate := make(chan struct{})
	w.work(slowly(gate))
	page := ann.open(http.MethodPost, "", chatBody("", user("u1", "hi")), bearer("t1"))
	page.until("text-delta(Hello )")
	began := time.Now()
	issuer.Revocations.Apply(revocation.Revocation{Tenant: "acme", TokenID: "t1", At: began, Until: began.Add(time.Hour)})
	if err := page.broken(); err == nil {
		t.Error("the response ended cleanly in the middle of an answer")
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("the response ended after %s", took)
	}
	want(t, ann.get("/stream", bearer("t1")), `401 {"error":"the credential is revoked","code":"UNAUTHENTICATED"}`)
	second := bearer("t2")
	second.Set("X-Resume-From-Sequence", page.id)
	back := ann.open(http.MethodGet, "/stream", "", second)
	close(gate)
	want(t, back.rest(), "text-delta(world) text-end finish-step finish(stop) DONE")
}

// A response that has reached the largest age of a stream is aborted after a complete event, although the credential does not expire, and resumes.
func TestResponseHasALargestAge(t *testing.T) {
	w := newEnv(t)
	const age = 2 * time.Second
	e, registry := w.newEdgeWithMetrics(func(cfg *edgeConfig) { cfg.edge.Heartbeat, cfg.edge.MaxStreamAge = time.Hour, age })
	gate := make(chan struct{})
	w.work(slowly(gate))
	began := time.Now()
	page := e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
	page.until("text-delta(Hello )")
	if err := page.broken(); err == nil {
		t.Error("the response ended cleanly in the middle of an answer")
	}
	if took := time.Since(began); took < age*7/8 || took > age+time.Second {
		t.Errorf("the response ended after %s, its largest age is %s", took, age)
	}
	back := e.open(http.MethodGet, "/stream", "", http.Header{"X-Resume-From-Sequence": {page.id}})
	close(gate)
	want(t, back.rest(), "text-delta(world) text-end finish-step finish(stop) DONE")
	if got := nonzeroMetrics(t, registry); !strings.Contains(got, `disconnects_total{reason="age"} 1`) {
		t.Errorf("the metrics are\n%s", got)
	}
}

package chat

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
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

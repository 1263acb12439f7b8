package agentserver

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
)

// A client with own sessions starts a session with an id that is free, its own again, and none of another user.
func TestStartOfAnothersSession(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	w := newEnv(t, func(cfg *edgeConfig) { cfg.edge.Authenticator = issuer })
	for _, step := range []struct {
		subject, session string
		want             int
	}{
		{"ann", "s1", http.StatusOK}, {"ann", "s1", http.StatusOK}, {"bob", "s1", http.StatusNotFound}, {"bob", "s2", http.StatusOK}, {"ann", "s2", http.StatusNotFound},
	} {
		grant := auth.Grant{Tenant: tenant, Subject: step.subject, Scopes: auth.ScopeChat, Sessions: auth.Sessions{Own: true}}
		header := http.Header{"Authorization": {"Bearer " + issuer.Token(grant, time.Hour, nil)}}
		resp, err := w.try(t.Context(), http.MethodPost, "/agents/start", `{"agentType":"helper","sessionId":"`+step.session+`","message":"hi"}`, header)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != step.want {
			t.Errorf("%s starts %s: %d %s, %v, want %d", step.subject, step.session, resp.StatusCode, text, err, step.want)
		}
	}
}

package agentserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/revocation"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// A request to /sse ends within a second when its token is revoked: while it waits for the start of a run, and while it gets events, after a complete one. Later
// requests with the token get 401.
func TestStreamsOfRevokedTokensEnd(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	w := newEnv(t, func(cfg *edgeConfig) {
		cfg.edge.Authenticator, cfg.edge.Revocations, cfg.edge.Heartbeat = issuer, issuer.Revocations, time.Hour
	})
	bearer := func(id string) http.Header {
		grant := auth.Grant{Tenant: tenant, Subject: "ann", Scopes: auth.ScopeRead | auth.ScopeChat, Sessions: auth.Sessions{Own: true}, TokenID: id}
		return http.Header{"Authorization": {"Bearer " + issuer.Token(grant, time.Hour, nil)}}
	}
	send := func(method, path, body, token string) *http.Response {
		t.Helper()
		resp, err := w.try(t.Context(), method, "/agents"+path, body, bearer(token))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	revoke := func(id string) (at time.Time) {
		at = time.Now()
		issuer.Revocations.Apply(revocation.Revocation{Tenant: tenant, TokenID: id, At: at, Until: at.Add(time.Hour)})
		return at
	}
	refused := func(id string) {
		t.Helper()
		for _, path := range []string{"/sse?sessionId=s1", "/status?sessionId=s1"} {
			if resp := send(http.MethodGet, path, "", id); resp.StatusCode != http.StatusUnauthorized { //nolint:bodyclose // send closes it
				t.Errorf("%s with the revoked token %s: %d", path, id, resp.StatusCode)
			}
		}
	}
	if resp := send(http.MethodPost, "/start", `{"agentType":"helper","sessionId":"s1","message":"hi"}`, "other"); resp.StatusCode >= 300 { //nolint:bodyclose // send closes it
		text, err := io.ReadAll(resp.Body)
		t.Fatalf("start: %d %s, %v", resp.StatusCode, text, err)
	}
	waited := make(chan string, 1)
	go func() {
		resp, err := w.try(t.Context(), http.MethodGet, "/agents/sse?sessionId=s1", "", bearer("waiting"))
		if err != nil {
			waited <- err.Error()
			return
		}
		resp.Body.Close()
		waited <- resp.Status
	}()
	natstest.Eventually(t, "the request to wait", func(context.Context) error {
		if n := w.server.surface.Streams.Len(); n != 1 {
			return fmt.Errorf("%d requests wait", n)
		}
		return nil
	})
	at := revoke("waiting")
	if got := <-waited; strings.HasPrefix(got, "200") || time.Since(at) > time.Second {
		t.Errorf("the request that waited got %s after %s", got, time.Since(at))
	}
	refused("waiting")

	begun, held := make(chan string, 1), make(chan struct{})
	defer close(held)
	w.work(holding(begun, held))
	stream := send(http.MethodGet, "/sse?sessionId=s1", "", "reading") //nolint:bodyclose // send closes it
	if stream.StatusCode != http.StatusOK {
		t.Fatalf("status %d", stream.StatusCode)
	}
	<-begun
	at = revoke("reading")
	text, err := io.ReadAll(stream.Body)
	if err == nil || !strings.HasSuffix(string(text), "\n\n") || time.Since(at) > time.Second {
		t.Errorf("the end is %v, %q after %s", err, text[max(0, len(text)-80):], time.Since(at))
	}
	refused("reading")
	if resp := send(http.MethodGet, "/status?sessionId=s1", "", "other"); resp.StatusCode != http.StatusOK { //nolint:bodyclose // send closes it
		t.Errorf("with another token: %d", resp.StatusCode)
	}
}

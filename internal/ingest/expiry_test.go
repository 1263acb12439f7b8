package ingest

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
)

// expiring gives all rights, to the credential "short" for a moment.
type expiring struct{}

func (expiring) Authenticate(r *http.Request) (*auth.Grant, error) {
	lifetime := time.Hour
	if r.Header.Get("Authorization") == "short" {
		lifetime = 300 * time.Millisecond
	}
	return &auth.Grant{Tenant: tenant, Subject: "agent", Scopes: auth.AllScopes, Sessions: auth.Sessions{All: true}, ExpiresAt: time.Now().Add(lifetime)}, nil
}

// A credential expires in the middle of a body, which has no end: the client learns why the request ends, and what is stored. With another credential it continues
// after that.
func TestExpiryDuringABody(t *testing.T) {
	w := newEnv(t, func(cfg *envConfig) { cfg.edge.Authenticator = expiring{} })
	w.open(openS1)
	line := func(n int) string { return fmt.Sprintf(`{"type":"custom","eventName":"n","data":%d}`, n) }
	s := w.stream(chunksS1, "Authorization", "short")
	var last map[string]any
	for sent := 1; last["code"] == nil; sent++ {
		if _, err := io.WriteString(s.body, line(sent)+"\n"); err != nil {
			sent-- // the request has ended
		}
		last = s.await("progress", func(m map[string]any) bool { return m["code"] != nil || m["stored"] == float64(sent) })
	}
	if last["code"] != codeExpired || last["status"] != 401.0 || last["error"] == nil && last["title"] == nil {
		t.Errorf("the last line is %v", last)
	}
	acknowledged, _ := last["stored"].(float64)
	stored := int(acknowledged)
	if n := len(w.notes("s1")); n != stored {
		t.Fatalf("%d lines are stored, the client was informed of %d", n, stored)
	}
	if a := w.append(chunksS1, line(stored+1), "Authorization", "long", "Tailrace-First-Line", fmt.Sprint(stored+1)); a.members()["done"] != true || a.number("stored") != int64(stored+1) {
		t.Errorf("with another credential: %s %s", a, a.body)
	}
	for i, n := range w.notes("s1") {
		if n != fmt.Sprint(i+1) {
			t.Errorf("line %d is %s", i+1, n)
		}
	}
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/producers"
)

// revocable is a deployment whose edges accept the tokens of one application.
type revocable struct {
	*stack.Stack

	t      *testing.T
	issuer *authtest.Issuer
	file   string // of authenticators
}

func newRevocable(t *testing.T) *revocable {
	t.Helper()
	issuer := authtest.NewIssuer(t)
	return &revocable{Stack: stack.Start(t, stack.Options{}), t: t, issuer: issuer, file: issuer.File()}
}

func (d *revocable) token(subject, id string) string {
	d.t.Helper()
	return d.issuer.Token(auth.Grant{Tenant: "acme", Subject: subject, Scopes: auth.ScopeRead | auth.ScopeAdmin, Sessions: auth.Sessions{All: true}, TokenID: id}, time.Hour, nil)
}

func (d *revocable) edge() running {
	d.t.Helper()
	return startEdge(d.t, "--nats-url", d.Server.URL, "--auth", d.file, "--heartbeat", "1h")
}

// command runs a command that must succeed, and returns its output.
func (d *revocable) command(args ...string) string {
	d.t.Helper()
	return tailrace(d.t, exitOK, append(args, "--nats-url", d.Server.URL)...)
}

// send sends a request with a token.
func (e running) send(t *testing.T, method, path, token string) (int, string) {
	t.Helper()
	status, _, text := sendAs(t, method, e.url+path, "", bearer(token))
	return status, text
}

// follow opens a stream of the session s1. The channel gets the time at which it ended.
func (e running) follow(t *testing.T, token string) <-chan time.Time {
	t.Helper()
	resp, err := do(t.Context(), http.MethodGet, e.url+"/v1/sessions/s1/events", "", bearer(token)) //nolint:bodyclose // closed by the goroutine below
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the stream: %d", resp.StatusCode)
	}
	ended := make(chan time.Time, 1)
	go func() {
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); err == nil || !bytes.HasSuffix(body, []byte("\n\n")) {
			t.Errorf("the stream ended with %q, %v", body[max(0, len(body)-40):], err)
		}
		ended <- time.Now()
	}()
	return ended
}

// A credential that is revoked on one edge, or by the command, ends its streams on all edges within a second, and is refused there, also by edges that start
// later and while NATS is away. Other credentials keep their streams.
func TestRevokeOnAllEdges(t *testing.T) {
	d := newRevocable(t)
	if _, err := d.NewWriter(producers.Config{Pace: producers.Off}).Start(t.Context(), chunk.RootSession("acme", "s1"), chunk.RunStarted{Mode: "execute"}, producers.AgentType("demo")); err != nil {
		t.Fatal(err)
	}
	edges := []running{d.edge(), d.edge()}
	for _, e := range edges {
		awaitReady(t, e.ops)
	}
	root, one, two := d.token("root", "t0"), d.token("ann", "t1"), d.token("ann", "t2")
	streams := func(token string) (all []<-chan time.Time) {
		for _, e := range edges {
			all = append(all, e.follow(t, token))
		}
		return all
	}
	others, first, second := streams(root), streams(one), streams(two)
	ends := func(what string, began time.Time, streams []<-chan time.Time, token string) {
		t.Helper()
		for i, ended := range streams {
			if took := natstest.Receive(t, what, ended).Sub(began); took > time.Second {
				t.Errorf("%s: the stream of edge %d ended after %s", what, i, took)
			} else {
				t.Logf("%s: the stream of edge %d ended after %s", what, i, took)
			}
		}
		for i, e := range edges {
			if status, body := e.send(t, http.MethodGet, "/v1/sessions", token); status != http.StatusUnauthorized || !strings.Contains(body, "revoked") {
				t.Errorf("%s: edge %d: %d %s", what, i, status, body)
			}
		}
	}
	began := time.Now()
	if status, body := edges[0].send(t, http.MethodDelete, "/v1/tokens/t1", root); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, body)
	}
	ends("a token", began, first, one)
	if len(second[0])+len(second[1]) > 0 {
		t.Error("the streams of another token of the subject ended")
	}
	began = time.Now()
	d.command("revoke", "--tenant", "acme", "--subject", "ann")
	ends("a subject", began, second, two)
	if len(others[0])+len(others[1]) > 0 {
		t.Error("the streams of another subject ended")
	}
	if list := d.command("revoke", "--tenant", "acme", "--list"); !strings.Contains(list, `token    "t1"`) || !strings.Contains(list, `"root"`) || !strings.Contains(list, `subject  "ann"`) {
		t.Errorf("the list is %s", list)
	}
	if list := d.command("revoke", "--list"); strings.Contains(list, "ann") {
		t.Errorf("the list of another tenant is %s", list)
	}
	if _, metrics := get(t, edges[1].ops+"/metrics", ""); !strings.Contains(metrics, `tailrace_edge_disconnects_total{reason="revoked"} 2`) {
		t.Error("the metrics do not count the revoked streams")
	}

	d.Server.Shutdown()
	for name, token := range map[string]string{"token": one, "subject": two} {
		if status, body := edges[0].send(t, http.MethodGet, "/v1/sessions", token); status != http.StatusUnauthorized {
			t.Errorf("a revoked %s while NATS is away: %d %s", name, status, body)
		}
	}
	third := d.edge() // an edge that has not seen the revocations yet
	for name, token := range map[string]string{"a revoked token": one, "a right one": root} {
		if status, body := third.send(t, http.MethodGet, "/v1/sessions", token); status != http.StatusServiceUnavailable {
			t.Errorf("%s on an edge that starts while NATS is away: %d %s", name, status, body)
		}
	}
	if status, body := get(t, third.ops+"/readyz", ""); status == http.StatusOK || !strings.Contains(body, "revocations") {
		t.Errorf("readyz: %d %s", status, body)
	}
	d.Server.Restart(t)
	awaitReady(t, third.ops)
	for name, token := range map[string]string{"token": one, "subject": two} {
		if status, body := third.send(t, http.MethodGet, "/v1/sessions", token); status != http.StatusUnauthorized || !strings.Contains(body, "revoked") {
			t.Errorf("a revoked %s after the restart: %d %s", name, status, body)
		}
	}
	d.command("revoke", "--tenant", "acme", "--subject", "ann", "--undo")
	for _, e := range append(edges, third) {
		natstest.Eventually(t, "the end of the revocation", func(context.Context) error {
			if status, body := e.send(t, http.MethodGet, "/v1/sessions", two); status != http.StatusOK {
				return fmt.Errorf("%d %s", status, body)
			}
			return nil
		})
	}
	if status, _ := third.send(t, http.MethodGet, "/v1/sessions", one); status != http.StatusUnauthorized {
		t.Errorf("the revoked token: %d", status)
	}
}

// The command refuses what it cannot revoke.
func TestRevokeArguments(t *testing.T) {
	for _, args := range [][]string{
		{}, {"--token", "t", "--subject", "s"}, {"--list", "--token", "t"}, {"--list", "--undo"}, {"--undo"}, {"--token", "t", "more"},
		{"--token", strings.Repeat("x", 129)}, {"--subject", "\xff"}, {"--token", "t", "--tenant", "a.b"},
	} {
		err := runRevoke(t.Context(), terminal{in: strings.NewReader(""), out: io.Discard, err: io.Discard}, append(args, "--nats-url", "nats://127.0.0.1:1"))
		var usage usageError
		if err == nil || !errors.As(err, &usage) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

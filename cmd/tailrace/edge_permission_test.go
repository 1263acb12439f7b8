package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// The NATS user of an edge with TAILRACE_ALLOW_DELETE has the permissions of one without it, and later not even those for commands. The responses to a deletion and to a message do not ask for
// a retry: they say that the edge lacks a permission. The log names the subject.
func TestEdgeLacksPermission(t *testing.T) {
	users := roletest.New(t, natsauth.Config{})
	server := streamtest.Start(t, users.Server())
	edge := startEdge(t, "--nats-url", server.URL, "--nats-nkey", users.Seed(natsauth.Edge), "--allow-delete", "--chat-agent", "demo", "--drain", "0s")
	publishCustom(t, server.URL, "written", 3, "--nats-nkey", users.Seed(natsauth.Worker))
	refused := func(method, path, body string) {
		t.Helper()
		if status, header, text := sendAs(t, method, edge.url+path, body, nil); status != http.StatusInternalServerError || header.Get("Retry-After") != "" || !strings.Contains(text, `"code":"EDGE_PERMISSION"`) {
			t.Errorf("%s %s: %d, Retry-After %q, %s", method, path, status, header.Get("Retry-After"), text)
		}
	}
	refused(http.MethodDelete, "/v1/sessions/written", "")
	edge.await(t, `(session not deleted.*publish to \$JS\.API\.STREAM\.PURGE\.\w+: not permitted)`)

	subject := "tr.commands.*.*.*"
	server.Reload(t, strings.ReplaceAll(users.Conf, `"`+subject+`"`, `"none"`))
	refused(http.MethodPost, "/api/chat", chatPost)
	edge.await(t, `(request failed.*publish to tr\.commands\.[\w.]+: not permitted)`)
}

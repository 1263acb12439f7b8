package main

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

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

// A command with the key of another role ends with the first subject that the key lacks and the role that has it. So does one whose key has old permissions.
func TestCommandsNameTheMissingRole(t *testing.T) {
	users := roletest.New(t, natsauth.Config{})
	server := streamtest.Start(t, users.Server())
	publishCustom(t, server.URL, "s1", 3, "--nats-nkey", users.Seed(natsauth.Worker))
	ends := func(key natsauth.Role, wants string, args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var errs strings.Builder
		code := run(ctx, terminal{in: strings.NewReader(strings.Repeat("{}\n", 3)), out: &errs, err: &errs}, append(args, "--nats-url", server.URL, "--nats-nkey", users.Seed(key)))
		last := errs.String()[strings.LastIndex(strings.TrimSpace(errs.String()), "\n")+1:]
		if code != exitError || ctx.Err() != nil || !strings.Contains(last, "tailrace "+args[0]+": nats: permissions violation") || !strings.Contains(last, wants) {
			t.Errorf("%q with the key of %s: exit code %d, %s", args, key, code, &errs)
		}
	}
	for role, commands := range map[natsauth.Role][][]string{
		natsauth.Analytics: {{"tail", "s1"}, {"firehose"}},
		natsauth.Edge:      {{"fork", "s1", "--at", "2"}},
		natsauth.Worker:    {{"publish", "--session", "s2"}},
		natsauth.Setup:     {{"setup"}},
		natsauth.Operator:  {{"sessions"}, {"snapshot", "s1"}, {"audit"}, {"usage"}, {"epoch"}, {"verify", "--all"}, {"rebuild", "--all"}, {"deadletters", "list"}, {"revoke", "--list"}},
	} {
		for _, args := range commands {
			ends(natsauth.Projector, "want the key of the role "+string(role)+",", args...)
		}
	}
	subject := "$JS.API.STREAM.INFO.TR_CHUNKS_0"
	server.Reload(t, strings.ReplaceAll(users.Conf, `"`+subject+`"`, `"none"`))
	ends(natsauth.Analytics, subject+"\": want the key of the role analytics, with what `tailrace nats-auth print --role analytics` prints", "tail", "s1")
}

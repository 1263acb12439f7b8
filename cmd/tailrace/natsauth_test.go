package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
)

// Each role does its work with the permissions of its role and no others: on one server, on a cluster with three replicas, and with a JetStream domain, which
// all requests name, on the server of the domain and on a leaf node without JetStream. The server refuses nothing, and without streams a role names the
// command that creates them.
func TestRolesHaveTheirPermissions(t *testing.T) {
	const domain = `jetstream: {domain: "hub"}` + "\n"
	for name, start := range map[string]func(*testing.T, *roletest.Users, ...natstest.Option) (url string){
		"R1": func(t *testing.T, _ *roletest.Users, options ...natstest.Option) string {
			t.Helper()
			return natstest.Start(t, options...).URL
		},
		"R3": func(t *testing.T, _ *roletest.Users, options ...natstest.Option) string {
			t.Helper()
			return natstest.StartCluster(t, 3, options...).URL()
		},
		"domain": func(t *testing.T, users *roletest.Users, options ...natstest.Option) string {
			t.Helper()
			return natstest.Start(t, append(options, natstest.ServerConfig(domain+users.Conf))...).URL
		},
		"leaf": func(t *testing.T, users *roletest.Users, options ...natstest.Option) string {
			t.Helper()
			port := natstest.ReservePort(t)
			hub := natstest.Start(t, append(options, natstest.ServerConfig(fmt.Sprintf("%sleafnodes: {host: 127.0.0.1, port: %d}\n%s", domain, port, users.Conf)))...)
			leaf := natstest.Start(t, append(options, natstest.WithoutJetStream(),
				natstest.ServerConfig(fmt.Sprintf("leafnodes: {remotes: [{url: \"nats://127.0.0.1:%d\"}]}\n%s", port, users.Conf)))...)
			hub.AwaitLeafNode(t)
			return leaf.URL
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := natsauth.Config{AllowDelete: true}
			settings := []string{"--replicas", "1"}
			switch name {
			case "R3":
				settings[1] = "3"
			case "domain", "leaf":
				cfg.Domain = "hub"
				settings = append(settings, "--nats-context", contextFile(t, map[string]string{"jetstream_domain": cfg.Domain}))
			}
			users := roletest.New(t, cfg)
			url := start(t, users, users.Server(), natstest.FailOnViolation())
			as := func(role natsauth.Role, args ...string) []string {
				return append(append(args, "--nats-url", url, "--nats-nkey", users.Seed(role)), settings...)
			}
			for _, role := range []natsauth.Role{natsauth.Edge, natsauth.Projector, natsauth.Worker} {
				if out := tailrace(t, exitError, as(role, string(role), "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--demo", "0")...); !strings.Contains(out, "is missing") || !strings.Contains(out, "run `tailrace setup`") {
					t.Errorf("%s without streams: %s", role, out)
				}
			}
			for range 2 {
				tailrace(t, exitOK, as(natsauth.Setup, "setup")...)
			}
			startProcess(t, as(natsauth.Projector, "projector", "--ops-listen", "")...)
			startProcess(t, as(natsauth.Worker, "worker", "--ops-listen", "", "--demo", "0")...)
			workAsRoles(t, startEdge(t, as(natsauth.Edge, "--allow-delete", "--agent-server", "/agents")...).url, as)
		})
	}
}

// workAsRoles uses a deployment in all ways that need NATS.
func workAsRoles(t *testing.T, edge string, as func(natsauth.Role, ...string) []string) {
	t.Helper()
	wantAnswer(t, edge, "chat") // an answer, and its saved snapshot in the list
	line := `{"type":"text_delta","agentId":"a","agentType":"t","timestamp":1,"step":0,"delta":"published"}` + "\n"
	if code, _, errs := runCommand(t, line, as(natsauth.Worker, "publish", "--session", "s1")...); code != exitOK {
		t.Fatalf("publish: exit code %d: %s", code, errs)
	}
	natstest.Eventually(t, "the saved session", func(context.Context) error {
		if _, list := get(t, edge+"/v1/sessions", ""); !strings.Contains(list, `"s1"`) {
			return fmt.Errorf("list: %s", list)
		}
		return nil
	})
	for _, path := range []string{"events", "snapshot", "messages", "tree"} {
		if status, body := get(t, edge+"/v1/sessions/s1/"+path, ""); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := get(t, edge+"/agents/status?sessionId=chat", ""); status != http.StatusOK {
		t.Errorf("status of the chat: %d %s", status, body)
	}
	for name, args := range map[string][]string{"tail": {"tail", "s1"}, "firehose": {"firehose", "--from-start", "--durable", "lake", "--ack", "written", "--tenant", "default"}} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		out := &lineCount{want: 1, ended: cancel}
		if code := run(ctx, terminal{in: strings.NewReader(""), out: out, err: io.Discard}, as(natsauth.Analytics, args...)); code != exitOK || out.text.Len() == 0 {
			t.Errorf("%s: exit code %d: %s", name, code, out.text.String())
		}
		cancel()
	}
	for _, args := range [][]string{{"sessions"}, {"snapshot", "s1"}, {"verify", "--all"}, {"rebuild", "--all"}, {"rebuild", "--all", "--to", "OTHER"}, {"rebuild", "--drop", "OTHER"}, {"deadletters", "list"}, {"doctor"}, {"epoch", "--new", "TR_AUDIT"}} {
		tailrace(t, exitOK, as(natsauth.Operator, args...)...)
	}
	if status, _, text := sendAs(t, http.MethodDelete, edge+"/v1/sessions/s1", "", nil); status != http.StatusNoContent {
		t.Errorf("delete: %d %s", status, text)
	}
}

// nats-auth print creates missing seeds, keeps those that exist, and prints a configuration that nats-server reads and whose users may connect.
func TestNATSAuthPrint(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	printed := func(want int, args ...string) string {
		t.Helper()
		return tailrace(t, want, append([]string{"nats-auth", "print"}, args...)...)
	}
	conf := printed(exitOK, "--role", "all", "--keys", dir)
	if again := printed(exitOK, "--role", "all", "--keys", dir); again != conf {
		t.Errorf("the second time it prints\n%s", again)
	}
	file := filepath.Join(t.TempDir(), "users.conf")
	if out := printed(exitOK, "--role", "all", "--keys", dir, "--out", file); out != "" {
		t.Errorf("with a file it prints\n%s", out)
	}
	printed(exitUsage, "--role", "edge", "--keys", dir, "--inbox-prefix", "_INBOX.>", "--out", file)
	if text, err := os.ReadFile(file); err != nil || string(text) != conf {
		t.Errorf("the file after an error: %v\n%s", err, text)
	}
	for _, role := range natsauth.Roles() {
		info, err := os.Stat(filepath.Join(dir, natsauth.UserName(role, "")+".nk"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("seed of %s: %v, %v, want a file that only its owner reads", role, info, err)
		}
	}
	if err := new(server.Options).ProcessConfigString(conf); err != nil {
		t.Errorf("nats-server: %v", err)
	}
	srv := natstest.Start(t, natstest.ServerConfig(conf), natstest.FailOnViolation())
	tailrace(t, exitOK, "setup", "--nats-url", srv.URL, "--nats-nkey", filepath.Join(dir, "tailrace-setup.nk"))

	acme := printed(exitOK, "--role", "worker", "--tenant", "acme", "--agent-type", "support,search", "--format", "nsc", "--account", "APP")
	for _, want := range []string{
		"# tailrace-worker-acme: TAILRACE_NATS_CREDS=tailrace-worker-acme.creds\n",
		"nsc add user --account 'APP' --name 'tailrace-worker-acme'", "'tr.chunks.0.*.*.*'", "agent-search",
	} {
		if !strings.Contains(acme, want) {
			t.Errorf("the commands of nsc lack %q:\n%s", want, acme)
		}
	}
	ofTenant := printed(exitOK, "--tenant", "acme", "--account", "ACME", "--keys", dir)
	for _, want := range []string{
		fmt.Sprintf("# in the file TAILRACE_ACCOUNTS of the edge: {\"acme\": {\"nkey\": %q}}\n", filepath.Join(dir, "tailrace-edge-acme.nk")),
		"{ # tailrace-setup-acme\n", "{ # tailrace-operator-acme\n", `"tr.chunks.0.*.*.*"`, `"_INBOX_edge.>"`, `"_INBOX_projector.>"`,
	} {
		if !strings.Contains(ofTenant, want) {
			t.Errorf("the account of a tenant lacks %q:\n%s", want, ofTenant)
		}
	}
	for want, args := range map[string][]string{
		"want one of setup, edge":   {"--role", "admin"},
		"want conf or nsc":          {"--role", "edge", "--format", "yaml"},
		"want --keys DIR":           {"--role", "edge"},
		"begins with U":             {"--role", "edge", "--public-key", "x"},
		"want one role":             {"--role", "all", "--agent-type", "support", "--keys", dir},
		"want --account too":        {"--role", "worker", "--tenant", "acme", "--keys", dir},
		`tenant "a.>"`:              {"--tenant", "a.>", "--account", "ACME", "--keys", dir},
		"are both set":              {"--role", "edge", "--nats-nkey", "a", "--nats-creds", "b"},
		"without wildcards":         {"--role", "edge", "--format", "nsc", "--inbox-prefix", "_INBOX.>"},
		"keys and public-key are b": {"--role", "edge", "--keys", dir, "--public-key", "x"},
	} {
		if got := printed(exitUsage, args...); !strings.Contains(got, want) {
			t.Errorf("%v: %s, want %q", args, got, want)
		}
	}
}

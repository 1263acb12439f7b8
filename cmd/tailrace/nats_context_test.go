package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// contextFile writes a file of a context.
func contextFile(t *testing.T, members map[string]string) string {
	t.Helper()
	text, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "context.json", string(text))
}

// A context of the nats CLI is found by its name and by the path of its file. The URL and the user of the settings replace those of the context, and the inboxes
// of the role are the default.
func TestNATSContext(t *testing.T) {
	server := natstest.Start(t, natstest.ServerConfig(`authorization { users: [{user: good, password: p}, {user: other, password: q}] }
		jetstream { domain: hub }`))
	at := func(user string) string { return strings.Replace(server.URL, "://", "://"+user+"@", 1) }
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	dir := filepath.Join(home, "nats", "context")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	text := `{"description": "of the CLI", "url": "` + server.URL + `", "user": "good", "password": "p", "jetstream_domain": "hub", "inbox_prefix": "_MINE"}`
	if err := os.WriteFile(filepath.Join(dir, "prod.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	bare := contextFile(t, map[string]string{"url": "nats://127.0.0.1:1"})
	t.Chdir(filepath.Dir(bare))
	for name, tt := range map[string]struct {
		args                  []string
		domain, inbox, server string
	}{
		"by name":          {[]string{"--nats-context", "prod"}, "hub", "_MINE", server.URL},
		"by path":          {[]string{"--nats-context", filepath.Join(dir, "prod.json")}, "hub", "_MINE", server.URL},
		"with another URL": {[]string{"--nats-context", "./context.json", "--nats-url", at("other:q")}, "", "_INBOX_edge", at("other:q")},
	} {
		t.Run(name, func(t *testing.T) {
			b, logged := natsApp(t, tt.args...)
			if err := b.nc.Flush(); err != nil {
				t.Fatalf("%v: %s", err, logged.String())
			}
			if b.domain != tt.domain || b.nc.Opts.InboxPrefix != tt.inbox || string(natsServer(b.nc)) != tt.server {
				t.Errorf("domain %q, inboxes %q, server %s", b.domain, b.nc.Opts.InboxPrefix, natsServer(b.nc))
			}
			if _, err := b.js.AccountInfo(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	for args, want := range map[string]string{
		"--nats-context nowhere":         `nats-context nowhere: unknown context "nowhere"`,
		"--nats-context /does/not/exist": "nats-context /does/not/exist: open",
	} {
		if out := tailrace(t, exitUsage, append([]string{"setup"}, strings.Fields(args)...)...); !strings.Contains(out, want) {
			t.Errorf("%s: %s, want %q", args, out, want)
		}
	}
}

// A user of the settings replaces every user of a context, also one in its URL.
func TestUserOverContext(t *testing.T) {
	o := nats.GetDefaultOptions()
	o.Servers, o.User, o.Password, o.Token, o.Nkey = []string{"nats://a:secret@one:4222", "tls://two:4222"}, "u", "p", "t", "n"
	o.UserJWT = func() (string, error) { return "", nil }
	if err := (config{NATSNkey: "seed.nk"}).overContext(&o); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(o.Servers, ","); got != "nats://one:4222,tls://two:4222" || o.User+o.Password+o.Token+o.Nkey != "" || o.UserJWT != nil {
		t.Errorf("servers %s, user %q, token %q, nkey %q", got, o.User, o.Token, o.Nkey)
	}
	o.User = "u"
	if err := (config{NATSURL: "nats://x, nats://y"}).overContext(&o); err != nil || strings.Join(o.Servers, ",") != "nats://x,nats://y" || o.User != "u" {
		t.Errorf("servers %q, user %q, %v", o.Servers, o.User, err)
	}
}

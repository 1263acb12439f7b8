package natsauth_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/subjects"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// goldenKey is the public key of the users in the golden files.
const goldenKey = "UDVEU3DD4KOFECV66VIHWEZOYX4ZKR3WV27L464SIIPOU2IUI3JCYSJF"

// The permissions of each role, for review: a change of a package that uses JetStream shows here.
func TestGolden(t *testing.T) {
	for name, c := range map[string]struct {
		role    natsauth.Role
		cfg     natsauth.Config
		account string
	}{
		"setup":        {role: natsauth.Setup, cfg: natsauth.Config{Layout: subjects.Layout{Partitions: 2}}},
		"edge":         {role: natsauth.Edge},
		"edge-deletes": {role: natsauth.Edge, cfg: natsauth.Config{AllowDelete: true}},
		"edge-ingest":  {role: natsauth.Edge, cfg: natsauth.Config{AllowIngest: true}},
		"projector":    {role: natsauth.Projector, cfg: natsauth.Config{Layout: subjects.Layout{Partitions: 2, SnapshotBucket: "NEW"}}},
		"worker":       {role: natsauth.Worker, account: "TAILRACE"},
		"worker-types": {role: natsauth.Worker, cfg: natsauth.Config{
			AgentTypes: []string{"support", "search"}, Domain: "hub", Layout: subjects.Layout{Prefix: "a.b"},
		}},
		"analytics": {role: natsauth.Analytics},
		"operator":  {role: natsauth.Operator},
	} {
		t.Run(name, func(t *testing.T) {
			permissions, err := natsauth.Of(c.role, c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			users := []natsauth.User{{Name: natsauth.UserName(c.role, ""), PublicKey: goldenKey, Permissions: permissions}}
			conf, err := natsauth.Conf(c.account, users)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".conf", conf)
			if err := new(server.Options).ProcessConfigString(conf); err != nil {
				t.Errorf("nats-server: %v", err)
			}
			users[0].PublicKey = ""
			golden(t, name+".nsc", natsauth.NSC(c.account, users))
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is out of date: run this test with -update and review the difference\n%s", path, got)
	}
}

// A server accepts the users of a printed account, with JetStream in it, and refuses another key.
func TestConfOfAccount(t *testing.T) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	permissions, err := natsauth.Of(natsauth.Setup, natsauth.Config{})
	if err != nil {
		t.Fatal(err)
	}
	conf, err := natsauth.Conf("TAILRACE", []natsauth.User{{Name: "tailrace-setup", PublicKey: public, Permissions: permissions}})
	if err != nil {
		t.Fatal(err)
	}
	srv := natstest.Start(t, natstest.ServerConfig(conf))
	js := srv.JetStream(t, natsOptions(public, pair.Sign, natsauth.InboxPrefix(natsauth.Setup))...)
	if _, err := js.AccountInfo(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestInvalidConfig(t *testing.T) {
	for want, c := range map[string]struct {
		role natsauth.Role
		cfg  natsauth.Config
	}{
		`role is "admin", want one of setup, edge`: {"admin", natsauth.Config{}},
		"agent type":                   {natsauth.Worker, natsauth.Config{AgentTypes: []string{"*"}}},
		"want no agent types":          {natsauth.Edge, natsauth.Config{AgentTypes: []string{"support"}}},
		"domain":                       {natsauth.Edge, natsauth.Config{Domain: "a.b"}},
		`inbox prefix is "_INBOX.>"`:   {natsauth.Edge, natsauth.Config{InboxPrefix: "_INBOX.>"}},
		"Layout: Partitions is 100000": {natsauth.Edge, natsauth.Config{Layout: subjects.Layout{Partitions: 100_000}}},
	} {
		if _, err := natsauth.Of(c.role, c.cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	if _, err := natsauth.Conf("", []natsauth.User{{Name: "x", PublicKey: "SUABC"}}); err == nil || strings.Contains(err.Error(), "permissions") {
		t.Errorf("without a public key: %v", err)
	}
}

// A name with a quotation mark stays one argument of the shell that runs the commands.
func TestNSCQuotes(t *testing.T) {
	const account = `a'; touch x; '$HOME`
	printed := natsauth.NSC(account, []natsauth.User{{Name: "u", PublicKey: "UX"}})
	out, err := exec.CommandContext(t.Context(), "sh", "-euc", `nsc() { printf '%s\n' "$@"; }; `+printed).CombinedOutput()
	if want := "add\nuser\n--account\n" + account + "\n--name\nu\n--public-key\nUX\n"; err != nil || string(out) != want {
		t.Errorf("%v: got %q, want %q", err, out, want)
	}
}

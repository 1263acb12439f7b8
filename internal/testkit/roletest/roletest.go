// Package roletest starts NATS servers on which each role of Tailrace has the permissions of natsauth and no others.
package roletest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// Users are the users of a server: one for each role, and one with all rights for connections without credentials, which are those of the test.
type Users struct {
	conf  string
	seeds map[natsauth.Role]string // files
	cfg   natsauth.Config
}

// New creates the users. A tenant and agent types apply to the roles that may have them.
func New(tb testing.TB, cfg natsauth.Config) *Users {
	tb.Helper()
	u := &Users{seeds: make(map[natsauth.Role]string), cfg: cfg}
	dir := tb.TempDir()
	test, _ := newKey(tb)
	users := []natsauth.User{{Name: "test", PublicKey: test}}
	for _, role := range natsauth.Roles() {
		permissions, err := natsauth.Of(role, u.config(role))
		if err != nil {
			tb.Fatal(err)
		}
		key, seed := newKey(tb)
		u.seeds[role] = filepath.Join(dir, string(role)+".nk")
		if err := os.WriteFile(u.seeds[role], seed, 0o600); err != nil {
			tb.Fatal(err)
		}
		users = append(users, natsauth.User{Name: natsauth.UserName(role, ""), PublicKey: key, Permissions: permissions})
	}
	conf, err := natsauth.Conf("", users)
	if err != nil {
		tb.Fatal(err)
	}
	u.conf = conf + "no_auth_user: " + test + "\n"
	return u
}

// config returns the configuration of a role.
func (u *Users) config(role natsauth.Role) natsauth.Config {
	cfg := u.cfg
	if role != natsauth.Edge && role != natsauth.Worker && role != natsauth.Analytics {
		cfg.Tenant = ""
	}
	if role != natsauth.Worker {
		cfg.AgentTypes = nil
	}
	return cfg
}

func newKey(tb testing.TB) (public string, seed []byte) {
	tb.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		tb.Fatal(err)
	}
	if public, err = pair.PublicKey(); err == nil {
		seed, err = pair.Seed()
	}
	if err != nil {
		tb.Fatal(err)
	}
	return public, seed
}

// Server returns the option of a server that has the users.
func (u *Users) Server() natstest.Option { return natstest.ServerConfig(u.conf) }

// Options returns the options of a connection of a role.
func (u *Users) Options(tb testing.TB, role natsauth.Role) []nats.Option {
	tb.Helper()
	key, err := nats.NkeyOptionFromSeed(u.seeds[role])
	if err != nil {
		tb.Fatal(err)
	}
	return []nats.Option{key, nats.CustomInboxPrefix(natsauth.InboxPrefix(role, u.config(role).Tenant)), nats.Name(natsauth.UserName(role, ""))}
}

// Seed returns the file with the seed of a role, the value of TAILRACE_NATS_NKEY.
func (u *Users) Seed(role natsauth.Role) string { return u.seeds[role] }

// Server is a *natstest.Server, *natstest.Process or *natstest.Cluster.
type Server interface{ Violations() []string }

// Check fails the test at its end if the server has refused a request or a subscription for lack of a permission.
func Check(tb testing.TB, server Server) {
	tb.Helper()
	tb.Cleanup(func() {
		for _, line := range server.Violations() {
			tb.Errorf("permission missing: %s", line)
		}
	})
}

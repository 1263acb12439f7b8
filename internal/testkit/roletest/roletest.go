// Package roletest starts NATS servers on which each role of Tailrace has the permissions of natsauth and no others.
package roletest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"go.uber.org/goleak"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/subjects"
)

// Users are the users of a server: one for each role, and one with all rights for connections without credentials, which are those of the test.
type Users struct {
	Conf        string // of the server
	RevokedConf string // of the server, without the users of the roles

	seeds map[natsauth.Role]string // files
	cfg   natsauth.Config
}

// shared are the users of all servers of the test binary, see Main.
var shared *Users

// Shared returns the users of Main, nil without it.
func Shared() *Users { return shared }

// Main is natstest.Main for a package whose servers all have the same users: of one deployment with the default names and up to eight partitions. A test fails
// if one of its servers refuses a request for lack of a permission.
func Main(m *testing.M, opts ...goleak.Option) {
	dir, err := os.MkdirTemp("", "roletest")
	if err != nil {
		panic(err)
	}
	if shared, err = newUsers(dir, natsauth.Config{Layout: subjects.Layout{Partitions: 8}}); err != nil {
		panic(err)
	}
	natstest.SetDefaults(shared.Server(), natstest.FailOnViolation())
	natstest.Main(m, append(opts, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir) // a file that stays is in the directory for temporary files
		os.Exit(code)
	}))...)
}

// New creates the users. Agent types are those of the worker.
func New(tb testing.TB, cfg natsauth.Config) *Users {
	tb.Helper()
	u, err := newUsers(tb.TempDir(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return u
}

func newUsers(dir string, cfg natsauth.Config) (*Users, error) {
	u := &Users{seeds: make(map[natsauth.Role]string), cfg: cfg}
	test, _, err := newKey()
	if err != nil {
		return nil, err
	}
	users := []natsauth.User{{Name: "test", PublicKey: test}}
	for _, role := range natsauth.Roles() {
		permissions, err := natsauth.Of(role, u.config(role))
		if err != nil {
			return nil, err
		}
		key, seed, err := newKey()
		if err != nil {
			return nil, err
		}
		u.seeds[role] = filepath.Join(dir, string(role)+".nk")
		if err := os.WriteFile(u.seeds[role], seed, 0o600); err != nil {
			return nil, err
		}
		users = append(users, natsauth.User{Name: natsauth.UserName(role, ""), PublicKey: key, Permissions: permissions})
	}
	conf, err := natsauth.Conf("", users)
	if err != nil {
		return nil, err
	}
	noRoles, err := natsauth.Conf("", users[:1])
	if err != nil {
		return nil, err
	}
	forTest := "no_auth_user: " + test + "\n"
	u.Conf, u.RevokedConf = conf+forTest, noRoles+forTest
	return u, nil
}

// config returns the configuration of a role.
func (u *Users) config(role natsauth.Role) natsauth.Config {
	cfg := u.cfg
	if role != natsauth.Worker {
		cfg.AgentTypes = nil
	}
	return cfg
}

func newKey() (public string, seed []byte, err error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return "", nil, err
	}
	if public, err = pair.PublicKey(); err != nil {
		return "", nil, err
	}
	seed, err = pair.Seed()
	return public, seed, err
}

// Server returns the option of a server that has the users.
func (u *Users) Server() natstest.Option { return natstest.ServerConfig(u.Conf) }

// Options returns the options of a connection of a role.
func (u *Users) Options(tb testing.TB, role natsauth.Role) []nats.Option {
	tb.Helper()
	key, err := nats.NkeyOptionFromSeed(u.seeds[role])
	if err != nil {
		tb.Fatal(err)
	}
	return []nats.Option{
		key, nats.CustomInboxPrefix(natsauth.InboxPrefix(role)), nats.Name(natsauth.UserName(role, "")),
		nats.IgnoreAuthErrorAbort(), // as programs of a role have it: a test revokes the credentials, and its writer must outlast that
	}
}

// Seed returns the file with the seed of a role, the value of TAILRACE_NATS_NKEY.
func (u *Users) Seed(role natsauth.Role) string { return u.seeds[role] }

// Env returns the variables with which a process of a role connects: a command of the binary, whose name is that of its role, or a program with the role of a
// worker.
func (u *Users) Env(role natsauth.Role) []string {
	return []string{"TAILRACE_NATS_NKEY=" + u.seeds[role]}
}

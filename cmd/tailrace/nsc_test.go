package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// nscTool is the tool nsc with an operator and an account APP, in a directory of its own.
type nscTool struct{ dir, bin string }

// newNSC builds nsc from the version and the checksums of testdata/nsc. It downloads the modules that are not in the cache.
func newNSC(t *testing.T) *nscTool {
	t.Helper()
	n := &nscTool{dir: t.TempDir(), bin: t.TempDir()}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(n.bin, "nsc"), "github.com/nats-io/nsc/v2")
	build.Dir = filepath.Join("testdata", "nsc")
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false -trimpath")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build nsc: %v\n%s", err, out)
	}
	n.run(t, `nsc add operator --name O --sys
nsc add account --name APP
nsc edit account --name APP --js-enable 0`)
	return n
}

// run runs commands as they are printed, with a shell.
func (n *nscTool) run(t *testing.T, commands string) {
	t.Helper()
	shell := exec.CommandContext(t.Context(), "sh", "-eu")
	shell.Dir, shell.Stdin = n.dir, strings.NewReader(commands)
	shell.Env = append(os.Environ(), "PATH="+n.bin+string(filepath.ListSeparator)+os.Getenv("PATH"),
		"HOME="+n.dir, "XDG_CONFIG_HOME="+filepath.Join(n.dir, "config"), "XDG_DATA_HOME="+filepath.Join(n.dir, "data"))
	if out, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, commands, out)
	}
}

// serverConfig returns the configuration of a server with the operator and its accounts.
func (n *nscTool) serverConfig(t *testing.T) string {
	t.Helper()
	n.run(t, "nsc generate config --mem-resolver --config-file server.conf")
	conf, err := os.ReadFile(filepath.Join(n.dir, "server.conf"))
	if err != nil {
		t.Fatal(err)
	}
	return string(conf)
}

// creds returns the credentials file of a role.
func (n *nscTool) creds(role natsauth.Role) string {
	return filepath.Join(n.dir, natsauth.UserName(role, "")+".creds")
}

// nsc runs the commands that nats-auth prints for it: the users get exactly the permissions of their roles, each role does its work with its credentials file
// on a server with that operator, and the server refuses what other roles may do.
func TestNSCRunsThePrintedCommands(t *testing.T) {
	nsc := newNSC(t)
	commands := tailrace(t, exitOK, "nats-auth", "print", "--role", "all", "--format", "nsc", "--account", "APP", "--allow-delete")
	nsc.run(t, commands)
	limit := regexp.MustCompile(`max_control_line: \d+\n`).FindString(commands)
	if limit == "" {
		t.Fatalf("no limit for the credentials in\n%s", commands)
	}
	for _, role := range natsauth.Roles() {
		text, err := os.ReadFile(nsc.creds(role))
		if err != nil {
			t.Fatal(err)
		}
		token, err := jwt.ParseDecoratedJWT(text)
		if err != nil {
			t.Fatal(err)
		}
		claims, err := jwt.DecodeUserClaims(token)
		if err != nil {
			t.Fatal(err)
		}
		want, err := natsauth.Of(role, natsauth.Config{AllowDelete: true})
		if err != nil {
			t.Fatal(err)
		}
		got := claims.Permissions
		for _, list := range []jwt.StringList{got.Pub.Allow, got.Pub.Deny, got.Sub.Allow, got.Sub.Deny} {
			slices.Sort(list)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: nsc gives the user\n%+v\nwant\n%+v", role, got, want)
		}
	}
	conf := natstest.ServerConfig(limit + nsc.serverConfig(t))

	srv := natstest.Start(t, conf, natstest.FailOnViolation())
	as := func(role natsauth.Role, args ...string) []string {
		return append(args, "--nats-url", srv.URL, "--nats-creds", nsc.creds(role))
	}
	tailrace(t, exitOK, as(natsauth.Setup, "setup")...)
	startProcess(t, as(natsauth.Projector, "projector", "--ops-listen", "")...)
	startProcess(t, as(natsauth.Worker, "worker", "--ops-listen", "", "--demo", "0")...)
	workAsRoles(t, startEdge(t, as(natsauth.Edge, "--allow-delete", "--agent-server", "/agents")...).url, as)

	strict := natstest.Start(t, conf)
	for role, subjects := range map[natsauth.Role][]string{
		natsauth.Setup:     {"$JS.API.STREAM.DELETE.TR_CHUNKS_0", "tr.chunks.0.acme.s1.s1"},
		natsauth.Edge:      {"$JS.API.STREAM.CREATE.TR_CHUNKS_0", "$JS.API.CONSUMER.MSG.NEXT.TR_COMMANDS.agent-support", "tr.deadletters.acme.s1.s1.1"},
		natsauth.Projector: {"$JS.API.STREAM.UPDATE.TR_CHUNKS_0", "tr.deadlines.set.acme.support.s1.r1.1"},
		natsauth.Worker:    {"$JS.API.STREAM.PURGE.TR_CHUNKS_0", "$JS.API.CONSUMER.DELETE.TR_CHUNKS_0.projector", "$KV.TR_SNAPSHOTS.h.acme.s1.s1"},
		natsauth.Analytics: {"tr.chunks.0.acme.s1.s1", "tr.commands.acme.support.s1", "$JS.ACK.TR_CHUNKS_0.projector.1.1.1.1.0"},
		natsauth.Operator:  {"orders.created", "$SYS.REQ.SERVER.PING"},
	} {
		nc := strict.Conn(t, nats.UserCredentials(nsc.creds(role)), nats.CustomInboxPrefix(natsauth.InboxPrefix(role)),
			nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		for _, subject := range subjects {
			before := nc.LastError()
			if err := errors.Join(nc.Publish(subject, nil), nc.FlushTimeout(30*time.Second)); err != nil {
				t.Fatal(err)
			}
			if err := nc.LastError(); err == before || !errors.Is(err, nats.ErrPermissionViolation) { //nolint:errorlint // a new error value is a new event
				t.Errorf("%s may publish to %s: %v", role, subject, err)
			}
		}
	}
}

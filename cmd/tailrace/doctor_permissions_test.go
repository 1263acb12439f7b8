package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// The doctor finds nothing wrong with the user of each role, and finds a right that is taken from it.
func TestDoctorChecksPermissions(t *testing.T) {
	users := roletest.New(t, natsauth.Config{})
	server := streamtest.Start(t, users.Server())
	for _, role := range natsauth.Roles() {
		permissions := func(wantCode int) (found []string) {
			t.Helper()
			for _, f := range examine(t, wantCode, "--nats-url", server.URL, "--nats-nkey", users.Seed(role), "--role", string(role)) {
				if strings.Contains(f, " permissions ") {
					found = append(found, f)
				}
			}
			return found
		}
		if found := permissions(exitOK); len(found) > 0 {
			t.Errorf("%s: %q", role, found)
		}
		without := func(subject string) { server.Reload(t, strings.ReplaceAll(users.Conf, `"`+subject+`"`, `"none"`)) }
		taken := "$JS.API.STREAM.INFO.TR_COMMANDS"
		if role == natsauth.Operator {
			taken = "tr.commands.*.*.*"
		}
		without(taken)
		if found, want := permissions(exitError), "problem permissions "+string(role)+" may not publish to "+taken; !slices.Equal(found, []string{want}) {
			t.Errorf("got %q, want %s", found, want)
		}
		without(natsauth.UserInfoSubject)
		found := permissions(exitOK)
		if len(found) != 1 || !strings.HasPrefix(found[0], "warning permissions  the server does not return them") {
			t.Errorf("%s without the right to ask: %q", role, found)
		}
		server.Reload(t, users.Conf)
	}
}

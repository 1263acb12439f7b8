//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/certtest"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
)

// The binary uses an external NATS server with TLS and a credentials file, each
// role in a separate process. NATS is unavailable when they start, and again
// later: they report it, wait, and continue without a restart.
func TestExternalNATSBecomesUnavailable(t *testing.T) {
	dir := t.TempDir()
	security := newSecurity(t, dir)
	server := natstest.StartProcess(t, natstest.ServerConfig(security.server))
	env := func(role natsauth.Role) []string {
		return append(os.Environ(),
			"TAILRACE_NATS_URL="+strings.Replace(server.URL, "nats://", "tls://", 1),
			"TAILRACE_NATS_CREDS="+security.creds[role], "TAILRACE_NATS_CONTEXT="+security.context, "TAILRACE_LOG_LEVEL=warn")
	}
	setup := exec.CommandContext(t.Context(), binary(t), "setup")
	setup.Env = env(natsauth.Setup)
	if out, err := setup.CombinedOutput(); err != nil {
		t.Fatalf("setup: %v: %s", err, out)
	}
	server.Shutdown(t)

	listen, ops := fmt.Sprintf("127.0.0.1:%d", freePort(t)), fmt.Sprintf("127.0.0.1:%d", freePort(t))
	edge := startRole(t, env(natsauth.Edge), "edge", "--listen", listen, "--ops-listen", ops)
	projector := startRole(t, env(natsauth.Projector), "projector")

	awaitStatusCode(t, "http://"+listen+"/healthz", http.StatusOK)
	awaitStatusCode(t, "http://"+ops+"/startupz", http.StatusServiceUnavailable)
	awaitStatusCode(t, "http://"+ops+"/readyz", http.StatusOK)
	server.Start(t)
	roletest.AwaitStarted(t, ops)

	publish := exec.CommandContext(t.Context(), binary(t), "publish", "--session", "s1")
	publish.Env = env(natsauth.Worker)
	publish.Stdin = strings.NewReader(`{"type":"text_delta","agentId":"a","agentType":"t","timestamp":1,"step":0,"delta":"over TLS"}`)
	if out, err := publish.CombinedOutput(); err != nil {
		t.Fatalf("publish: %v: %s", err, out)
	}
	if _, _, body := get(t, "http://"+listen+"/v1/sessions/s1/events"); !strings.Contains(body, "over TLS") || !strings.Contains(body, `"type":"end"`) {
		t.Errorf("the stream lacks the chunk or the end: %s", body)
	}

	server.Kill(t)
	awaitDependency(t, ops, "nats", "failed")
	awaitStatusCode(t, "http://"+listen+"/healthz", http.StatusOK)
	server.Start(t)
	awaitDependency(t, ops, "nats", "ok")
	awaitDependency(t, ops, "feeds", "ok")
	if _, _, body := get(t, "http://"+listen+"/v1/sessions/s1/snapshot"); !strings.Contains(body, "over TLS") {
		t.Errorf("the snapshot lacks the text: %s", body)
	}
	for name, role := range map[string]*exec.Cmd{"edge": edge, "projector": projector} {
		if err := role.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := role.Wait(); err != nil {
			t.Errorf("%s: %v: %s", name, err, role.Stderr)
		}
	}
}

// awaitDependency waits until the process with this ops listener reports the state of a
// dependency. It must be ready all the time.
func awaitDependency(t *testing.T, ops, name, want string) {
	t.Helper()
	natstest.Eventually(t, fmt.Sprintf("%s to be %s on %s", name, want, ops), func(context.Context) error {
		status, _, body := get(t, "http://"+ops+"/readyz")
		var report struct {
			Dependencies map[string]string `json:"dependencies"`
		}
		if err := json.Unmarshal([]byte(body), &report); err != nil || status != http.StatusOK {
			t.Fatalf("readyz of %s: %d %s", ops, status, body)
		}
		if got := report.Dependencies[name]; got != want {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}

func startRole(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	return startCommand(t, env, binary(t), args...)
}

func startCommand(t *testing.T, env []string, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, args...)
	var log bytes.Buffer
	cmd.Env, cmd.Stderr = asUser(env, args[0]), &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // the process was killed
		}
		if t.Failed() {
			t.Logf("log of %s %v:\n%s", filepath.Base(name), args, &log)
		}
	})
	return cmd
}

// asUser adds the NATS user of a role of the binary to the environment of its process, unless the environment has credentials or the role runs on its own
// server.
func asUser(env []string, role string) []string {
	own := func(v string) bool { return strings.HasPrefix(v, "TAILRACE_NATS_CREDS=") }
	url := func(v string) bool { return strings.HasPrefix(v, "TAILRACE_NATS_URL=") }
	known, err := natsauth.ParseRole(role)
	if err != nil || slices.ContainsFunc(env, own) || !slices.ContainsFunc(env, url) {
		return env
	}
	return append(slices.Clone(env), roletest.Shared().Env(known)...)
}

func awaitStatusCode(t *testing.T, url string, want int) {
	t.Helper()
	natstest.Eventually(t, fmt.Sprintf("%d of %s", want, url), func(ctx context.Context) error {
		status, err := roletest.Status(ctx, url)
		if err == nil && status != want {
			err = fmt.Errorf("status %d", status)
		}
		return err
	})
}

// security is the configuration of a server and the credentials of its clients.
type security struct {
	server  string                   // fragment of the server's configuration
	creds   map[natsauth.Role]string // credentials files
	context string                   // file of the NATS context with the authority
}

func newSecurity(t *testing.T, dir string) security {
	t.Helper()
	ca := certtest.New(t)
	s, pair := security{creds: make(map[natsauth.Role]string), context: filepath.Join(dir, "context.json")}, ca.Server()
	if err := os.WriteFile(s.context, fmt.Appendf(nil, `{"ca": %q}`, ca.File), 0o600); err != nil {
		t.Fatal(err)
	}

	operator, system, account := newKey(t, nkeys.CreateOperator), newKey(t, nkeys.CreateAccount), newKey(t, nkeys.CreateAccount)
	operatorClaims := jwt.NewOperatorClaims(public(t, operator))
	accountClaims := jwt.NewAccountClaims(public(t, account))
	accountClaims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
	for _, role := range natsauth.Roles() {
		s.creds[role] = filepath.Join(dir, string(role)+".creds")
		writeCredentials(t, s.creds[role], role, account)
	}
	s.server = fmt.Sprintf(`
tls { cert_file: %q, key_file: %q }
operator: %q
resolver: MEMORY
system_account: %s
resolver_preload: { %s: %q, %s: %q }
`, pair.Cert, pair.Key, encode(t, operatorClaims, operator), public(t, system),
		public(t, system), encode(t, jwt.NewAccountClaims(public(t, system)), operator),
		public(t, account), encode(t, accountClaims, operator))
	return s
}

// writeCredentials writes the credentials of a user with the permissions of a role.
func writeCredentials(t *testing.T, file string, role natsauth.Role, account nkeys.KeyPair) {
	t.Helper()
	user := newKey(t, nkeys.CreateUser)
	claims := jwt.NewUserClaims(public(t, user))
	permissions, err := natsauth.Of(role, natsauth.Config{})
	if err != nil {
		t.Fatal(err)
	}
	claims.Permissions = permissions
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	creds, err := jwt.FormatUserConfig(encode(t, claims, account), seed)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, creds, 0o600); err != nil {
		t.Fatal(err)
	}
}

func newKey(t *testing.T, create func() (nkeys.KeyPair, error)) nkeys.KeyPair {
	t.Helper()
	pair, err := create()
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func public(t *testing.T, pair nkeys.KeyPair) string {
	t.Helper()
	key, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func encode(t *testing.T, claims interface {
	Encode(pair nkeys.KeyPair) (string, error)
}, pair nkeys.KeyPair,
) string {
	t.Helper()
	token, err := claims.Encode(pair)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

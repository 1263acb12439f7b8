//go:build e2e

package httpagent

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailrace/tailrace/agents/httpagent"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/outputtest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/workers"
)

// npmTimeout is the timeout of an installation.
const npmTimeout = 5 * time.Minute

// env is a server with the streams of Tailrace and a worker whose agent is an endpoint.
type env struct {
	*stack.Stack

	t *testing.T
}

// newEnv starts the server of a dialect, <dialect>.mjs, and a worker with it.
func newEnv(t *testing.T, dialect string) *env {
	t.Helper()
	return newEnvOf(t, dialect, httpagent.Config{Dialect: dialect})
}

// newEnvOf starts a server, <name>.mjs, and a worker with it.
func newEnvOf(t *testing.T, name string, cfg httpagent.Config) *env {
	t.Helper()
	w := &env{Stack: stack.Start(t, stack.Options{}), t: t}
	cfg.URL = startServer(t, name)
	a, err := httpagent.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := w.NewProcess(natsauth.Worker)
	made, err := workers.New(p.JS, workers.Config{
		Agents: map[string]workers.Agent{"helper": a}, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Go(made.Run)
	return w
}

// ask starts a run.
func (w *env) ask(s chunk.Session, run, text string) {
	w.t.Helper()
	w.request(control.Command{
		Kind: control.Execute, Session: s, AgentType: "helper", RunID: run, Input: []chunk.InputMessage{{Content: text}}, Issued: time.Now(),
	})
}

// request publishes a command. The command of the previous run may still be on the queue.
func (w *env) request(c control.Command) {
	w.t.Helper()
	err := w.Queue.Request(w.t.Context(), c, 0)
	if busy, ok := errors.AsType[*control.BusyError](err); ok {
		err = w.Queue.Request(w.t.Context(), c, busy.Revision)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// startServer runs a server in Node.js until the test ends, and returns the URL that it prints.
func startServer(t *testing.T, dialect string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), npmTimeout)
	defer cancel()
	node, dir := findNode(ctx, t), t.TempDir()
	script, err := os.ReadFile(dialect + ".mjs")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "server.mjs"), script, 0o600), os.Symlink(install(ctx, t, dialect), filepath.Join(dir, "node_modules"))); err != nil {
		t.Fatal(err)
	}
	var log outputtest.Buffer
	server := exec.Command(node, "server.mjs")
	server.Dir, server.Stderr = dir, &log
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait() // the process was killed
		if t.Failed() {
			t.Logf("log of the server:\n%s", log.String())
		}
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%s server: %v\n%s", dialect, err, log.String())
	}
	return strings.TrimSpace(url)
}

// findNode returns the path of a Node.js that the packages accept.
func findNode(ctx context.Context, t *testing.T) string {
	t.Helper()
	script := exec.CommandContext(ctx, filepath.Join("..", "..", "scripts", "node.sh"))
	script.Stderr = os.Stderr
	out, err := script.Output()
	if err != nil {
		t.Fatalf("scripts/node.sh: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// install installs the packages of a dialect into .tools and returns their node_modules. An existing directory is used as it is: its name contains the hash of the lock
// file, and an incomplete installation never has this name.
func install(ctx context.Context, t *testing.T, dialect string) string {
	t.Helper()
	tools, err := filepath.Abs(filepath.Join("..", "..", ".tools"))
	if err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join("packages", dialect)
	lock, err := os.ReadFile(filepath.Join(manifest, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	home := filepath.Join(tools, fmt.Sprintf("httpagent-%s-%x", dialect, sum[:6]))
	modules := filepath.Join(home, "node_modules")
	if _, err := os.Stat(home); err == nil {
		return modules
	}
	if err := os.MkdirAll(tools, 0o755); err != nil {
		t.Fatal(err)
	}
	half, err := os.MkdirTemp(tools, "httpagent-half-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(half)
	for _, name := range []string{"package.json", "package-lock.json"} {
		data, err := os.ReadFile(filepath.Join(manifest, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(half, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	npm := exec.CommandContext(ctx, "npm", "ci", "--prefix", half, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm ci for %s (it needs the npm registry): %v\n%s", dialect, err, out)
	}
	if err := os.Rename(half, home); err != nil {
		if _, statErr := os.Stat(home); statErr != nil {
			t.Fatal(err)
		}
	}
	return modules
}

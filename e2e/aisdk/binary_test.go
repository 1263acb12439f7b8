//go:build e2e

package aisdk

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	dialect "github.com/tailrace/tailrace/codec/aisdk"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
)

// newBinaryEnv returns an env of the built command: `up`, which includes the NATS server, and one more `edge`. Only
// the workers run in this process.
func newBinaryEnv(t *testing.T) *env {
	t.Helper()
	w := prepareEnv(t, dialect.Options{})
	port := fmt.Sprint(natstest.ReservePort(t))
	env := append(os.Environ(),
		"TAILRACE_NATS_PORT="+port, "TAILRACE_LISTEN=127.0.0.1:0", "TAILRACE_OPS_LISTEN=127.0.0.1:0", "TAILRACE_DRAIN=1s", "TAILRACE_LOG_LEVEL=warn",
		"TAILRACE_DATA_DIR="+t.TempDir(), "TAILRACE_DEMO=off", "TAILRACE_CHAT_AGENT=actor", "TAILRACE_CHAT_CLIENT_TOOLS=page_where",
	)
	first, _ := start(t, "up", env)
	w.Stack = stack.Start(t, stack.Options{On: address("nats://127.0.0.1:" + port)})
	// An edge ends if a stream is missing. The URL of `up` is printed before its streams exist, and Start returns afterwards.
	second, kill := start(t, "edge", env)
	w.edges, w.killEdge = []string{first, second}, kill
	return w
}

// address is the URL of the server that the built command includes.
type address string

func (a address) Conn(tb testing.TB, opts ...nats.Option) *nats.Conn {
	tb.Helper()
	return natstest.Connect(tb, string(a), opts...)
}

func (a address) JetStream(tb testing.TB, opts ...nats.Option) jetstream.JetStream {
	tb.Helper()
	return natstest.JetStream(tb, string(a), opts...)
}

var urlLine = regexp.MustCompile(`http://[0-9.:]+`)

// start runs a role of the command until the end of the test or until kill is called, and returns its URL.
func start(t *testing.T, role string, env []string) (url string, kill func()) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", "tailrace"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run `make build` first", err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, role) // the workers stop first
	cmd.Env, cmd.Stderr = env, t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found, done := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if url := urlLine.FindString(lines.Text()); url != "" && len(found) == 0 {
				found <- url
			}
		}
		_ = cmd.Wait() // the process was killed
	}()
	kill = func() {
		_ = cmd.Process.Kill()
		<-done
	}
	t.Cleanup(kill)
	select {
	case url = <-found:
		return url, kill
	case <-done:
		t.Fatalf("tailrace %s exited before it printed its URL", role)
	case <-time.After(time.Minute):
		t.Fatalf("tailrace %s printed no URL", role)
	}
	return "", nil
}

package natstest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// SIGKILL loses no acknowledged message, and the same connection continues to
// work.
func TestProcessIsKilledAndRestarted(t *testing.T) {
	p := natstest.StartProcess(t)
	js := p.JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s.1", []byte("one")); err != nil {
		t.Fatal(err)
	}
	url, pid := p.URL, p.PID(t)
	p.Restart(t)
	if p.URL != url || p.PID(t) == pid {
		t.Errorf("after the restart URL %s, pid %d; want %s and another pid than %d", p.URL, p.PID(t), url, pid)
	}
	if msg := lastMessage(t, js, "S", "s.1"); string(msg.Data) != "one" {
		t.Errorf("after the kill s.1 is %q, want %q", msg.Data, "one")
	}
	p.Shutdown(t)
	p.Start(t)
	if msg := lastMessage(t, js, "S", "s.1"); string(msg.Data) != "one" {
		t.Errorf("after the shutdown s.1 is %q, want %q", msg.Data, "one")
	}
}

// A process that reads a new configuration closes the connections of a user that
// it no longer has, and keeps the configuration over a restart.
func TestProcessReloads(t *testing.T) {
	const users = `authorization { users = [ {user: a, password: %s}, {user: b, password: b} ] }, no_auth_user: b`
	p := natstest.StartProcess(t, natstest.ServerConfig(fmt.Sprintf(users, "one")))
	url := strings.Replace(p.URL, "://", "://a:one@", 1)
	closed := make(chan struct{})
	natstest.Connect(t, url, nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	p.Reload(t, fmt.Sprintf(users, "other"))
	natstest.Receive(t, "the end of the connection", closed)
	p.Conn(t)
	p.Restart(t)
	if _, err := nats.Connect(url); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("the old password after a restart: %v", err)
	}
	p.Reload(t, fmt.Sprintf(users, "one"))
	natstest.Connect(t, url)
}

// A test binary that is killed leaves no server running, not even a stopped
// one.
func TestServersEndWithTheirParent(t *testing.T) {
	if os.Getenv(parentVariable) != "" {
		runParent(t)
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.CommandContext(t.Context(), exe, "-test.run=^TestServersEndWithTheirParent$")
	parent.Env = append(os.Environ(), parentVariable+"=1")
	stdin, err := parent.StdinPipe() // kept open
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscanf(stdout, "pid %d\n", &pid); err != nil {
		t.Fatalf("read the process id from the parent: %v", err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed
	natstest.Eventually(t, "the server to die with its parent", func(context.Context) error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if errors.Is(err, os.ErrNotExist) || strings.Contains(string(stat), ") Z ") {
			return nil // gone, or a zombie that init has not reaped yet
		}
		return fmt.Errorf("process %d still exists: %s", pid, stat)
	})
}

// runParent starts a server, stops it, prints its process id and waits to be
// killed.
func runParent(t *testing.T) {
	t.Helper()
	p := natstest.StartProcess(t)
	pid := p.PID(t)
	p.Stop(t)
	fmt.Fprintf(os.Stdout, "pid %d\n", pid)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		t.Error(err)
	}
}

// A stopped server keeps its connections and does not answer until it is
// resumed.
func TestProcessStopsAndResumes(t *testing.T) {
	p := natstest.StartProcess(t)
	nc := p.Conn(t)
	p.Stop(t)
	if err := nc.FlushTimeout(100 * time.Millisecond); !errors.Is(err, nats.ErrTimeout) {
		t.Errorf("flush to a stopped server: %v, want a timeout", err)
	}
	p.Cont(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := nc.FlushWithContext(ctx); err != nil {
		t.Errorf("flush to a resumed server: %v", err)
	}
}

//go:build e2e

package ingest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/outputtest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
)

// edgeProcess is an edge that can be killed. Its methods are called by one goroutine, but for url.
type edgeProcess struct {
	url, ops, program string
	args, env         []string

	cmd  *exec.Cmd
	done chan struct{} // closed after the exit
	log  outputtest.Buffer
}

// startEdgeProcess starts an edge of the binary from `make build` with the ingest, on the addresses that it keeps, until the test ends.
func startEdgeProcess(t *testing.T, users *roletest.Users, server *natstest.Process) *edgeProcess {
	t.Helper()
	addr, ops := fmt.Sprintf("127.0.0.1:%d", natstest.ReservePort(t)), fmt.Sprintf("127.0.0.1:%d", natstest.ReservePort(t))
	e := &edgeProcess{
		url: "http://" + addr, ops: ops, program: roletest.Program(t, filepath.Join("..", "..", "bin", "tailrace")),
		args: []string{"edge", "--listen", addr, "--ops-listen", ops, "--ingest", "on"},
		env:  append(append(os.Environ(), users.Env(natsauth.Edge)...), "TAILRACE_NATS_URL="+server.URL, "TAILRACE_LOG_LEVEL=warn"),
	}
	if err := e.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.kill()
		if t.Failed() {
			t.Logf("log of the edge on %s:\n%s", addr, e.log.String())
		}
	})
	roletest.AwaitStarted(t, ops)
	return e
}

// start starts the process, and does not wait until it serves.
func (e *edgeProcess) start() error {
	e.cmd = exec.Command(e.program, e.args...)
	e.cmd.Env = e.env
	e.cmd.Stdout, e.cmd.Stderr = &e.log, &e.log
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := e.cmd.Start(); err != nil {
		return err
	}
	e.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		defer close(done)
		_ = cmd.Wait() // the process is killed
	}(e.cmd, e.done)
	return nil
}

// kill sends SIGKILL and waits for the exit.
func (e *edgeProcess) kill() {
	_ = e.cmd.Process.Kill() // fails if it has ended already
	<-e.done
}

// awaitServing waits until the process serves again.
func (e *edgeProcess) awaitServing(ctx context.Context) error {
	for {
		status, err := roletest.Status(ctx, "http://"+e.ops+"/startupz")
		switch {
		case err == nil && status == http.StatusOK:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		select {
		case <-e.done:
			return fmt.Errorf("the edge on %s has ended", e.url)
		case <-ctx.Done():
			return ctx.Err()
		case <-retryLater():
		}
	}
}

//go:build e2e

package create

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/outputtest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
)

// startTimeout is the timeout of the page and the route, each of which is compiled when it is requested.
const startTimeout = 3 * time.Minute

// project is a created project.
type project struct {
	t    *testing.T
	npm  npm
	dir  string
	pid  string // file with the id of the process of Tailrace
	port int    // of the page

	cmd  *exec.Cmd // npm run dev
	log  *outputtest.Buffer
	done chan struct{}
}

// newProject returns a project whose development server uses the binary of `make build`.
func newProject(t *testing.T, n npm, dir string) *project {
	t.Helper()
	p := &project{t: t, dir: dir, pid: filepath.Join(t.TempDir(), "pid"), port: natstest.ReservePort(t)}
	program := filepath.Join(t.TempDir(), "tailrace")
	script := fmt.Sprintf("#!/bin/sh\necho $$ >'%s'\nexec '%s' \"$@\"\n", p.pid, roletest.Program(t, filepath.Join("..", "..", "bin", "tailrace")))
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	p.npm = n.with("TAILRACE_BIN="+program, fmt.Sprintf("PORT=%d", p.port), "NEXT_TELEMETRY_DISABLED=1")
	t.Cleanup(func() {
		p.interrupt()
		if t.Failed() {
			t.Logf("log of npm run dev:\n%s", p.log.String())
		}
	})
	return p
}

func (p *project) url() string { return fmt.Sprintf("http://localhost:%d", p.port) }

// start runs npm run dev, and waits for the page and the route.
func (p *project) start() {
	p.t.Helper()
	_ = os.Remove(p.pid)
	p.cmd = p.npm.command(context.WithoutCancel(p.t.Context()), p.dir, "run", "dev")
	p.log, p.done = &outputtest.Buffer{}, make(chan struct{})
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a shell does
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func(cmd *exec.Cmd, done chan struct{}) {
		defer close(done)
		_ = cmd.Wait() // it is interrupted
	}(p.cmd, p.done)
	client := http.Client{Timeout: startTimeout}
	natstest.Within(p.t, startTimeout, "the page", func(context.Context) error {
		if p.ended() {
			p.t.Fatalf("npm run dev has ended:\n%s", p.log.String())
		}
		for path, status := range map[string]int{"/": http.StatusOK, "/api/agent": http.StatusMethodNotAllowed} {
			res, err := client.Get(p.url() + path)
			if err != nil {
				return err
			}
			_ = res.Body.Close()
			if res.StatusCode != status {
				return fmt.Errorf("%s: status %d", path, res.StatusCode)
			}
		}
		return nil
	})
}

func (p *project) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// killTailrace sends SIGKILL to Tailrace.
func (p *project) killTailrace() {
	p.t.Helper()
	text, err := os.ReadFile(p.pid)
	if err != nil {
		p.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		p.t.Fatal(err)
	}
}

// interrupt does what Ctrl-C does.
func (p *project) interrupt() {
	if p.cmd != nil && p.cmd.Process != nil && !p.ended() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT) // fails if it has ended
		p.awaitEnd()
	}
}

// awaitEnd waits until npm run dev has ended, and with it the server of the page.
func (p *project) awaitEnd() {
	p.t.Helper()
	natstest.Eventually(p.t, "the end of npm run dev", func(ctx context.Context) error {
		if !p.ended() {
			return fmt.Errorf("it runs:\n%s", p.log.String())
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("localhost:%d", p.port))
		if err != nil {
			return nil //nolint:nilerr // it does not listen
		}
		_ = conn.Close()
		return fmt.Errorf("port %d is in use", p.port)
	})
}

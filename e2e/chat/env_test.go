//go:build e2e

package chat

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/outputtest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
)

// env is a NATS server, a projector, two edges and an agent, each a process. Tests that kill
// one restart it.
type env struct {
	*stack.Stack

	nats      *natstest.Process
	edges     [2]*process
	projector *process
	agent     *process
	holds     string // directory: an answer continues when the file of its chat exists
}

// newEnv starts an env with the example's agent, whose edges use the dialect of a major version
// of the AI SDK, with further arguments.
func newEnv(t *testing.T, words int, args ...string) *env {
	t.Helper()
	return newEnvWith(t, words, exampleAgent, args...)
}

// newEnvWith is newEnv with another agent.
func newEnvWith(t *testing.T, words int, agent func(*testing.T, *env) *process, args ...string) *env {
	t.Helper()
	w := &env{nats: natstest.StartProcess(t), holds: t.TempDir()}
	w.Stack = stack.Start(t, stack.Options{On: w.nats})
	w.projector = w.tailrace(t, "projector", "--ops-listen", "")
	w.projector.start(t)
	for i := range w.edges {
		addr, ops := fmt.Sprintf("127.0.0.1:%d", natstest.ReservePort(t)), fmt.Sprintf("127.0.0.1:%d", natstest.ReservePort(t))
		w.edges[i] = w.tailrace(t, append([]string{"edge", "--listen", addr, "--ops-listen", ops, "--chat-major", fmt.Sprint(words), "--chat-agent", "assistant"}, args...)...)
		w.edges[i].addr, w.edges[i].ops = addr, ops
		w.edges[i].start(t)
	}
	w.agent = agent(t, w)
	w.agent.start(t)
	for _, e := range w.edges {
		roletest.AwaitStarted(t, e.ops)
	}
	return w
}

// exampleAgent returns the example's agent. Its lease is short, so that another worker takes over soon.
func exampleAgent(t *testing.T, w *env) *process {
	t.Helper()
	return &process{name: "agent", path: buildProgram(t, "agent"), env: roletest.Shared().Env(natsauth.Worker), args: []string{
		"-nats", w.nats.URL, "-pace", "2ms", "-lease", "1s", "-hold", w.holds,
	}}
}

// tailrace returns a role of the binary from `make build`.
func (w *env) tailrace(t *testing.T, args ...string) *process {
	t.Helper()
	path := roletest.Program(t, filepath.Join("..", "..", "bin", "tailrace"))
	return &process{name: strings.Join(args, " "), path: path, args: args, env: append(roletest.Shared().Env(natsauth.Role(args[0])), "TAILRACE_NATS_URL="+w.nats.URL)}
}

// release continues the answer of a chat that has stopped in the middle.
func (w *env) release(t *testing.T, chat string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.holds, url.QueryEscape(chat)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// process is a program that can be killed.
type process struct {
	name, path, addr, ops, dir string
	args, env                  []string

	cmd  *exec.Cmd
	log  outputtest.Buffer
	done chan struct{}
	once sync.Once
}

func (p *process) start(t *testing.T) {
	t.Helper()
	p.cmd = exec.Command(p.path, p.args...)
	p.cmd.Dir = p.dir
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		defer close(done)
		_ = cmd.Wait() // the process was killed
	}(p.cmd, p.done)
	p.once.Do(func() {
		t.Cleanup(func() {
			p.kill()
			if t.Failed() {
				t.Logf("log of %s:\n%s", p.name, p.log.String())
			}
		})
	})
}

// kill sends SIGKILL.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

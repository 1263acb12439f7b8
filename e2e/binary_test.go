//go:build e2e

package e2e

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/outputtest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
)

// built is the path of the command from `make build`; `make e2e` builds it
// first.
var built = filepath.Join("..", "bin", "tailrace")

// binary returns the command.
func binary(t *testing.T) string {
	t.Helper()
	return roletest.Program(t, built)
}

// up is a running `tailrace up` with reserved ports and its files in dir.
type up struct {
	bin, dir, listen string
	natsPort         int
	args             []string
	cmd              *exec.Cmd
	url              string
	log              *outputtest.Buffer
	done             chan struct{}

	environment []string             // of the process; that of the test if it is nil
	isolate     *syscall.SysProcAttr // of the process; nil to run it as the test
}

func newUp(t *testing.T, args ...string) *up {
	t.Helper()
	u := &up{
		bin: binary(t), dir: t.TempDir(), args: args,
		listen: "127.0.0.1:" + strconv.Itoa(freePort(t)), natsPort: freePort(t),
	}
	t.Cleanup(func() {
		u.kill(t)
		if t.Failed() {
			t.Logf("log of tailrace up:\n%s", u.log)
		}
	})
	return u
}

// freePort returns a port that is reserved for the test, also while no process
// listens on it.
func freePort(t *testing.T) int {
	t.Helper()
	return natstest.ReservePort(t)
}

var urlLine = regexp.MustCompile(`http://[0-9.:]+`)

// start runs the binary and waits for the line with its URL.
func (u *up) start(t *testing.T) {
	t.Helper()
	if u.log == nil {
		u.log = new(outputtest.Buffer)
	}
	args := append([]string{
		"up", "--data-dir", u.dir, "--listen", u.listen, "--nats-port", strconv.Itoa(u.natsPort), "--drain", "2s",
	}, u.args...)
	u.cmd = exec.Command(u.bin, args...)
	u.cmd.Stderr = u.log
	u.cmd.Env, u.cmd.SysProcAttr = u.environment, cmp.Or(u.isolate, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL})
	out, err := u.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := u.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found := make(chan string, 1)
	u.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		defer close(done)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			_, _ = io.WriteString(u.log, lines.Text()+"\n")
			if url := urlLine.FindString(lines.Text()); url != "" {
				select {
				case found <- url:
				default:
				}
			}
		}
		_ = cmd.Wait() // the process was killed
	}(u.cmd, u.done)
	select {
	case u.url = <-found:
	case <-u.done:
		t.Fatalf("tailrace up exited before it printed its URL:\n%s", u.log)
	case <-time.After(30 * time.Second):
		t.Fatalf("tailrace up printed no URL in 30 s:\n%s", u.log)
	}
}

// kill sends SIGKILL.
func (u *up) kill(t *testing.T) {
	t.Helper()
	u.signal(syscall.SIGKILL)
}

// stop sends SIGTERM and returns the exit code.
func (u *up) stop(t *testing.T) int {
	t.Helper()
	u.signal(syscall.SIGTERM)
	return u.cmd.ProcessState.ExitCode()
}

func (u *up) signal(sig syscall.Signal) {
	if u.cmd == nil || u.cmd.Process == nil {
		return
	}
	_ = u.cmd.Process.Signal(sig)
	<-u.done
}

// env returns the environment that connects other commands to this server.
func (u *up) env() []string {
	return append(os.Environ(), "TAILRACE_NATS_PORT="+strconv.Itoa(u.natsPort))
}

// result of one command.
type result struct {
	out, err string
	code     int
}

// tailrace runs one command of the binary against u and waits for its exit.
func (u *up) tailrace(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, u.bin, args...)
	cmd.Env = u.env()
	cmd.Stdin = strings.NewReader(stdin)
	var out, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("tailrace %v did not exit:\n%s", args, stderr.String())
	}
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return result{out: out.String(), err: stderr.String(), code: cmd.ProcessState.ExitCode()}
}

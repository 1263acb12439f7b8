package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/outputtest"
)

// runCommand runs one command to its end.
func runCommand(t *testing.T, stdin string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), terminal{in: strings.NewReader(stdin), out: &o, err: &e}, args)
	return code, o.String(), e.String()
}

// tailrace runs one command to its end, and returns all of its output.
func tailrace(t *testing.T, want int, args ...string) string {
	t.Helper()
	code, out, errs := runCommand(t, "", args...)
	if code != want {
		t.Errorf("tailrace %q ended with %d, want %d: %s\n%s", args, code, want, errs, out)
	}
	return out + errs
}

// process is a command in this process.
type process struct {
	out  outputtest.Buffer // stdout and stderr
	stop context.CancelFunc

	ended   chan struct{}
	code    int  // once ended is closed
	checked bool // the test has asked for the code
}

// startProcess starts a command and stops it when the test ends. A test that does not ask for the exit code fails if it is not 0.
func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &process{stop: cancel, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		p.code = run(ctx, terminal{in: strings.NewReader(""), out: &p.out, err: &p.out}, args)
	}()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		<-p.ended
		if p.code != exitOK && !p.checked {
			t.Errorf("%s ended with %d", args[0], p.code)
		}
		if t.Failed() {
			t.Logf("output of %s:\n%s", args[0], p.out.String())
		}
	})
	return p
}

// end stops the process and returns its exit code.
func (p *process) end() int {
	p.stop()
	<-p.ended
	p.checked = true
	return p.code
}

// await waits until the output matches a pattern, and returns its first group.
func (p *process) await(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	var found []string
	natstest.Eventually(t, pattern, func(context.Context) error {
		if found = re.FindStringSubmatch(p.out.String()); found == nil {
			return errors.New("no match")
		}
		return nil
	})
	return found[len(found)-1]
}

// awaitOps returns the URL of the ops listener.
func (p *process) awaitOps(t *testing.T) string {
	t.Helper()
	return p.await(t, `msg="ops server started" url=(\S+)`)
}

// running is an edge that listens.
type running struct {
	*process

	url, ops string
}

// startEdge starts an edge with free ports. Unless the arguments name a NATS server it has none.
func startEdge(t *testing.T, args ...string) running {
	t.Helper()
	p := startProcess(t, append([]string{"edge", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--drain", "0s", "--nats-url", "nats://127.0.0.1:1"}, args...)...)
	return running{p, p.await(t, `Tailrace edge: (\S+)`), p.awaitOps(t)}
}

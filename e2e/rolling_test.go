//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/natstest"
)

// edgeProcess is `tailrace edge` on a port of its own, which it keeps over
// restarts.
type edgeProcess struct {
	addr string
	ops  string // host:port of its other listener
	env  []string
	args []string
	cmd  *exec.Cmd

	descriptors int // it may have so many open, when not 0
}

// startEdge starts an edge on the NATS server at natsURL and waits until it is
// ready.
func startEdge(t *testing.T, natsURL string, args ...string) *edgeProcess {
	t.Helper()
	e := newEdge(t, natsURL, args...)
	e.start(t)
	return e
}

func newEdge(t *testing.T, natsURL string, args ...string) *edgeProcess {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	ops := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	return &edgeProcess{
		addr: addr,
		ops:  ops,
		env:  append(os.Environ(), "TAILRACE_NATS_URL="+natsURL, "TAILRACE_LOG_LEVEL=warn", "TAILRACE_OPS_LISTEN="+ops),
		args: append([]string{"edge", "--listen", addr, "--heartbeat", "1s"}, args...),
	}
}

func (e *edgeProcess) start(t *testing.T) {
	t.Helper()
	name, args := binary(t), e.args
	if e.descriptors > 0 { // the soft limit and the hard one, for a Go program raises the first to the second
		args = append([]string{"-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, e.descriptors), name}, args...)
		name = "sh"
	}
	e.cmd = startCommand(t, e.env, name, args...)
	awaitStatusCode(t, "http://"+e.addr+"/readyz", http.StatusOK)
}

func (e *edgeProcess) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := e.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// terminate is SIGTERM. It returns how long the process took to end, and fails
// the test when it did not end well.
func (e *edgeProcess) terminate(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	e.signal(t, syscall.SIGTERM)
	if err := e.cmd.Wait(); err != nil {
		t.Errorf("the edge on %s did not end well: %v", e.addr, err)
	}
	return time.Since(began)
}

// metric is a figure without labels that the edge tells of itself.
func (e *edgeProcess) metric(t *testing.T, name string) float64 {
	t.Helper()
	status, _, body := get(t, "http://"+e.ops+"/metrics")
	for line := range strings.Lines(body) {
		if text, found := strings.CutPrefix(line, name+" "); found {
			value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	t.Fatalf("status %d: the metrics lack %s", status, name)
	return 0
}

// Two edges behind a balancer are restarted, one after the other, while 500
// pages watch. No page loses, repeats or reorders anything, none gets a status
// at which a browser gives up, and none is without a word for three seconds.
func TestRollingRestart(t *testing.T) {
	const drain = 3 * time.Second
	server := natstest.StartProcess(t)
	chatter := startChatter(t, server.URL, 20, 250*time.Millisecond)
	edges := []*edgeProcess{
		startEdge(t, server.URL, "--drain", drain.String()),
		startEdge(t, server.URL, "--drain", drain.String()),
	}
	front := startBalancer(t, edges[0].addr, edges[1].addr)
	crowd := chatter.startCrowd(t, front.addr, 500, nil)
	crowd.awaitAll(t)
	for _, e := range edges {
		// The end of the window is when the last stream is cut; then the process
		// has little to do.
		if took := e.terminate(t); took > drain+time.Second {
			t.Errorf("the edge took %s to end, want %s and little more", took, drain)
		}
		front.awaitReady(t, e.addr, false)
		e.start(t)
		front.awaitReady(t, e.addr, true)
	}
	crowd.awaitAll(t)
	crowd.judge(t)
	crowd.checkSilence(t, 3*time.Second, everyone)
	cuts, refused := 0, 0
	for _, f := range crowd.followers {
		cuts += f.statuses[http.StatusOK] - 1
		refused += f.refused
	}
	t.Logf("%d connections beyond the first, %d of them refused with a time to come back", cuts, refused)
	if cuts < len(crowd.followers) {
		t.Errorf("%d cuts for %d pages: each was on an edge that was restarted", cuts, len(crowd.followers))
	}
}

func everyone(*follower) bool { return true }

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

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
)

// edgeProcess is `tailrace edge` on a reserved port, which it keeps over
// restarts, or another role that args begin with.
type edgeProcess struct {
	addr string
	ops  string // host:port of its ops listener
	env  []string
	args []string
	cmd  *exec.Cmd

	descriptors int // limit of open files, if not 0
}

// startEdge starts an edge that uses the NATS server at natsURL and waits until
// it is ready.
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
	if e.descriptors > 0 { // sets both limits, because Go raises the soft limit to the hard one
		args = append([]string{"-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, e.descriptors), name}, args...)
		name = "sh"
	}
	e.cmd = startCommand(t, e.env, name, args...)
	roletest.AwaitStarted(t, e.ops)
}

func (e *edgeProcess) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := e.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// terminate sends SIGTERM and returns the time until the exit. It fails the
// test if the exit code is not 0.
func (e *edgeProcess) terminate(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	e.signal(t, syscall.SIGTERM)
	if err := e.cmd.Wait(); err != nil {
		t.Errorf("exit of the %s on %s: %v", e.args[0], e.addr, err)
	}
	return time.Since(began)
}

// metric returns the value of a metric without labels.
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

// pprof returns a profile, such as "heap", of a process with TAILRACE_PPROF.
func (e *edgeProcess) pprof(t *testing.T, of string) string {
	t.Helper()
	status, _, profile := get(t, "http://"+e.ops+"/debug/pprof/"+of)
	if status != http.StatusOK {
		t.Fatalf("profile %s: status %d: %s", of, status, profile)
	}
	return profile
}

// Two edges behind a balancer are restarted, one after the other, while 500
// clients follow. No client loses, duplicates or reorders an event, none gets a
// status at which a browser stops, and none is asked to wait for three seconds.
func TestRollingRestart(t *testing.T) {
	const drain = 3 * time.Second
	server := natstest.StartProcess(t)
	rec := startWriters(t, server.URL, 20, 250*time.Millisecond)
	edges := []*edgeProcess{
		startEdge(t, server.URL, "--drain", drain.String()),
		startEdge(t, server.URL, "--drain", drain.String()),
	}
	lb := startBalancer(t, edges...)
	readers := rec.startReaders(t, lb.addr, 500, nil)
	readers.awaitAll(t)
	for _, e := range edges {
		// The last stream is cut at the end of the drain period; the exit
		// follows immediately. With a stream that is not cut it would come
		// after 20 s.
		if took := e.terminate(t); took > drain+8*time.Second {
			t.Errorf("exit of the edge took %s, want about %s", took, drain)
		}
		lb.awaitReady(t, e.addr, false)
		e.start(t)
		lb.awaitReady(t, e.addr, true)
	}
	readers.awaitAll(t)
	readers.checkAll(t)
	readers.checkSilence(t, 3*time.Second, anyFollower)
	cuts, refused := 0, 0
	for _, f := range readers.followers {
		cuts += f.statuses[http.StatusOK] - 1
		refused += f.refused
	}
	t.Logf("%d reconnects, %d of them rejected with a retry field", cuts, refused)
	if cuts < len(readers.followers) {
		t.Errorf("%d cuts for %d clients, want at least one each: every edge was restarted", cuts, len(readers.followers))
	}
}

func anyFollower(*follower) bool { return true }

//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// outage is the time for which an edge is stopped in these tests: longer than
// every timeout.
const outage = 20 * time.Second

// An edge is killed with SIGKILL. Its clients reconnect to the other edge,
// whose clients are not affected.
func TestKilledEdge(t *testing.T) {
	t.Parallel()
	server := natstest.StartProcess(t)
	rec := startWriters(t, server.URL, 20, 200*time.Millisecond)
	edges := []*edgeProcess{startEdge(t, server.URL), startEdge(t, server.URL)}
	lb := startBalancer(t, edges...)
	readers := rec.startReaders(t, lb.addr, 200, nil)
	readers.awaitAll(t)
	victims := int(lb.backends[0].links.Load())

	edges[0].signal(t, syscall.SIGKILL)
	readers.awaitAll(t)
	lb.awaitReady(t, edges[0].addr, false)
	readers.awaitAll(t)
	readers.checkAll(t)

	moved := func(f *follower) bool { return f.statuses[http.StatusOK] > 1 }
	if n := readers.count(moved); n != victims || n == 0 {
		t.Errorf("%d clients reconnected, want the %d of the killed edge", n, victims)
	}
	readers.checkSilence(t, 3*time.Second, moved)
	readers.checkSilence(t, 0, not(moved))
}

// An edge is stopped with SIGSTOP while its sessions are written, and resumed.
// Clients with a heartbeat timeout have moved to the other edge by then; the
// others are still connected and receive what they missed. The memory of the
// moved clients is freed.
func TestStoppedEdge(t *testing.T) {
	t.Parallel()
	server := natstest.StartProcess(t)
	rec := startWriters(t, server.URL, 50, 250*time.Millisecond)
	edges := []*edgeProcess{startEdge(t, server.URL), startEdge(t, server.URL)}
	lb := startBalancer(t, edges...)
	noTimeout := func(f *follower) bool { return f.liveness == 0 }
	readers := rec.startReaders(t, lb.addr, 200, func(i int, f *follower) {
		if i%4 < 2 { // not i%2: round robin would put all of them on one edge
			f.liveness = 3 * time.Second
		}
	})
	readers.awaitAll(t)
	stopped := edges[0]
	before, goroutines := residentBytes(t, stopped.cmd.Process.Pid), stopped.metric(t, "go_goroutines")

	stopped.signal(t, syscall.SIGSTOP)
	<-time.After(outage)
	stopped.signal(t, syscall.SIGCONT)
	lb.awaitReady(t, stopped.addr, true)
	readers.awaitAll(t)
	after, goroutinesAfter := residentBytes(t, stopped.cmd.Process.Pid), stopped.metric(t, "go_goroutines")
	readers.checkAll(t)
	if after > before+before/2 {
		t.Errorf("%d MiB resident, %d MiB before: the missed events are one or two MiB", after>>20, before>>20)
	}

	if goroutinesAfter > goroutines {
		t.Errorf("%v goroutines, %v before: clients have left and none was added", goroutinesAfter, goroutines)
	}
	stayed := readers.count(func(f *follower) bool { return noTimeout(f) && f.silence >= outage && f.statuses[http.StatusOK] == 1 })
	if stayed == 0 {
		t.Error("no client stayed connected to the stopped edge")
	}
	left := readers.count(func(f *follower) bool { return !noTimeout(f) && f.statuses[http.StatusOK] > 1 })
	if left == 0 {
		t.Error("no client left the stopped edge")
	}
	t.Logf("%d clients stayed, %d left; %d MiB and %v goroutines before, %d MiB and %v after", stayed, left, before>>20, goroutines, after>>20, goroutinesAfter)
}

// The connection from an edge to NATS fails in two ways: every byte is lost, or
// no byte moves. The edge reports that NATS has failed, keeps its streams open with
// heartbeats, and continues when the connection is restored.
func TestEdgeWithoutNATS(t *testing.T) {
	t.Parallel()
	server := natstest.StartProcess(t)
	rec := startWriters(t, server.URL, 50, 250*time.Millisecond)
	type testCase struct {
		name    string
		fault   func(*natstest.Proxy)
		proxy   *natstest.Proxy
		edge    *edgeProcess
		readers *readers
	}
	cases := []*testCase{
		{name: "bytes lost", fault: (*natstest.Proxy).Blackhole},
		{name: "bytes delayed", fault: (*natstest.Proxy).Stall},
	}
	for _, h := range cases {
		h.proxy = natstest.StartProxy(t, server.URL)
		h.edge = startEdge(t, h.proxy.URL)
		h.readers = rec.startReaders(t, h.edge.addr, 100, nil)
	}
	for _, h := range cases {
		h.readers.awaitAll(t)
	}

	over := time.After(outage)
	for _, h := range cases {
		h.fault(h.proxy)
	}
	began := time.Now()
	for _, h := range cases {
		awaitDependency(t, h.edge.ops, "nats", "failed")
		if took := time.Since(began); took > 12*time.Second { // two pings, three seconds apart each, and one probe
			t.Errorf("%s: reported after %s, want at most 12 s", h.name, took)
		}
	}
	<-over
	for _, h := range cases {
		h.proxy.Restore()
	}
	began = time.Now()
	for _, h := range cases {
		h.readers.awaitAll(t)
		took := time.Since(began)
		t.Logf("%s: all clients caught up %s after the connection was restored", h.name, took)
		if took > 5*time.Second {
			t.Errorf("%s: clients caught up after %s, want at most 5 s", h.name, took)
		}
		awaitDependency(t, h.edge.ops, "nats", "ok")
	}
	for _, h := range cases {
		h.readers.checkAll(t)
		if n := h.readers.count(func(f *follower) bool { return f.statuses[http.StatusOK] > 1 }); n > 0 {
			t.Errorf("%s: %d streams were cut", h.name, n)
		}
		h.readers.checkSilence(t, 0, anyFollower)
	}
}

// residentBytes returns the resident memory of a process.
func residentBytes(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmRSS:")); ok {
			kib, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("kB")))), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("no VmRSS of process %d", pid)
	return 0
}

func not(of func(*follower) bool) func(*follower) bool {
	return func(f *follower) bool { return !of(f) }
}

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

	"github.com/tailrace/tailrace/internal/natstest"
)

// outage is how long an edge is gone in these tests: longer than anything in it
// waits.
const outage = 20 * time.Second

// An edge is killed with -9. Its pages find the other one, and the pages of the
// other one notice nothing.
func TestKilledEdge(t *testing.T) {
	t.Parallel()
	server := natstest.StartProcess(t)
	chatter := startChatter(t, server.URL, 20, 200*time.Millisecond)
	edges := []*edgeProcess{startEdge(t, server.URL), startEdge(t, server.URL)}
	front := startBalancer(t, edges[0].addr, edges[1].addr)
	crowd := chatter.startCrowd(t, front.addr, 200, nil)
	crowd.awaitAll(t)
	victims := int(front.backends[0].links.Load())

	edges[0].signal(t, syscall.SIGKILL)
	crowd.awaitAll(t)
	front.awaitReady(t, edges[0].addr, false)
	crowd.awaitAll(t)
	crowd.judge(t)

	moved := func(f *follower) bool { return f.statuses[http.StatusOK] > 1 }
	if n := crowd.count(moved); n != victims || n == 0 {
		t.Errorf("%d pages came back, want the %d of the edge that was killed", n, victims)
	}
	crowd.checkSilence(t, 3*time.Second, moved)
	crowd.checkSilence(t, 2*time.Second, not(moved)) // two heartbeats
}

// An edge stands still while its sessions are written, and goes on. Pages that
// know the heartbeat have moved to the other edge by then; the others are still
// there and get what they missed. What the edge held for those that left is
// freed.
func TestStoppedEdge(t *testing.T) {
	t.Parallel()
	server := natstest.StartProcess(t)
	chatter := startChatter(t, server.URL, 50, 250*time.Millisecond)
	edges := []*edgeProcess{startEdge(t, server.URL), startEdge(t, server.URL)}
	front := startBalancer(t, edges[0].addr, edges[1].addr)
	patient := func(f *follower) bool { return f.liveness == 0 }
	crowd := chatter.startCrowd(t, front.addr, 200, func(i int, f *follower) {
		if i%4 < 2 { // not i%2: turns of the balancer would put all of them on one edge
			f.liveness = 3 * time.Second
		}
	})
	crowd.awaitAll(t)
	stopped := edges[0]
	before, goroutines := residentBytes(t, stopped.cmd.Process.Pid), stopped.metric(t, "go_goroutines")

	stopped.signal(t, syscall.SIGSTOP)
	<-time.After(outage)
	stopped.signal(t, syscall.SIGCONT)
	front.awaitReady(t, stopped.addr, true)
	crowd.awaitAll(t)
	after, goroutinesAfter := residentBytes(t, stopped.cmd.Process.Pid), stopped.metric(t, "go_goroutines")
	crowd.judge(t)
	if after > before+before/2 {
		t.Errorf("%d MiB are resident, and %d MiB were before: what was missed is one or two", after>>20, before>>20)
	}

	if goroutinesAfter > goroutines {
		t.Errorf("%v goroutines, and %v before: pages have left and none came", goroutinesAfter, goroutines)
	}
	stayed := crowd.count(func(f *follower) bool { return patient(f) && f.silence >= outage && f.statuses[http.StatusOK] == 1 })
	if stayed == 0 {
		t.Error("no page stayed with the edge that stood still")
	}
	left := crowd.count(func(f *follower) bool { return !patient(f) && f.statuses[http.StatusOK] > 1 })
	if left == 0 {
		t.Error("no page left the edge that stood still")
	}
	t.Logf("%d pages stayed, %d left; %d MiB and %v goroutines before, %d MiB and %v after", stayed, left, before>>20, goroutines, after>>20, goroutinesAfter)
}

// The way from an edge to NATS is broken, in two manners: every byte is lost, or
// none moves. The edge says that it is not ready, keeps its streams open with
// heartbeats, and goes on by itself when the way is there again.
func TestEdgeWithoutNATS(t *testing.T) {
	t.Parallel()
	server := natstest.StartProcess(t)
	chatter := startChatter(t, server.URL, 50, 250*time.Millisecond)
	type house struct {
		name  string
		fault func(*natstest.Proxy)
		proxy *natstest.Proxy
		edge  *edgeProcess
		crowd *crowd
	}
	houses := []*house{
		{name: "bytes lost", fault: (*natstest.Proxy).Blackhole},
		{name: "bytes held", fault: (*natstest.Proxy).Stall},
	}
	for _, h := range houses {
		h.proxy = natstest.StartProxy(t, server.URL)
		h.edge = startEdge(t, h.proxy.URL)
		h.crowd = chatter.startCrowd(t, h.edge.addr, 100, nil)
	}
	for _, h := range houses {
		h.crowd.awaitAll(t)
	}

	over := time.After(outage)
	for _, h := range houses {
		h.fault(h.proxy)
	}
	began := time.Now()
	for _, h := range houses {
		awaitStatusCode(t, "http://"+h.edge.addr+"/readyz", http.StatusServiceUnavailable)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: not ready after %s only, want 10 s at most", h.name, took)
		}
	}
	<-over
	for _, h := range houses {
		h.proxy.Heal()
	}
	began = time.Now()
	for _, h := range houses {
		h.crowd.awaitAll(t)
		took := time.Since(began)
		t.Logf("%s: all pages are where their sessions are %s after the way is back", h.name, took)
		if took > 5*time.Second {
			t.Errorf("%s: that took %s, want 5 s at most", h.name, took)
		}
		awaitStatusCode(t, "http://"+h.edge.addr+"/readyz", http.StatusOK)
	}
	for _, h := range houses {
		h.crowd.judge(t)
		if n := h.crowd.count(func(f *follower) bool { return f.statuses[http.StatusOK] > 1 }); n > 0 {
			t.Errorf("%s: %d streams were cut", h.name, n)
		}
		h.crowd.checkSilence(t, 2*time.Second, everyone) // two heartbeats
	}
}

// residentBytes is the memory of a process that is in RAM.
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

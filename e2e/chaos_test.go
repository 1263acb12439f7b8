//go:build e2e && chaos

package e2e

import (
	"bytes"
	"flag"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

var (
	chaos     = flag.Duration("chaos", 10*time.Minute, "how long the chaos test injects faults")
	chaosPace = flag.Duration("chaos-pace", 200*time.Millisecond, "interval of the records of each session in the chaos test")
	chaosNone = flag.Bool("chaos-control", false, "inject no fault: what the chaos test uses without any")
)

const (
	chaosSessions = 50
	chaosReaders  = 500
	chaosEvery    = 10 * time.Second // from the start of one fault to that of the next
	chaosStop     = 8 * time.Second  // how long a process is stopped; more than the projector's heartbeat timeout
	chaosSilent   = 200              // clients that read nothing
)

// Faults that are drawn at random hit two edges, a projector and the NATS
// server, one at a time, while sessions are written and followed. Each
// acknowledged line is in the log once and in order, each follower has received
// the log of its session, the snapshots equal a fold of the log, and the roles
// need no more goroutines and memory than at the start.
func TestChaos(t *testing.T) {
	random := newGenerator(t)
	c := newChaosEnv(t)
	before := c.awaitPlateau(t)
	faults := c.faults(t)
	if *chaosNone {
		faults = []chaosFault{{"none", func() {}}}
	}
	for began, n := time.Now(), 1; time.Since(began) < *chaos; n++ {
		next := time.After(chaosEvery)
		f := faults[random.IntN(len(faults))]
		t.Logf("%7s  fault %d: %s", time.Since(began).Round(100*time.Millisecond), n, f.name)
		f.inject()
		over := time.Now()
		c.awaitHealthy(t)
		t.Logf("         all healthy %s after its end", time.Since(over).Round(time.Millisecond))
		<-next
	}
	after := c.usage(t)
	c.readers.checkAll(t)
	c.checkLines(t)
	c.verify(t)
	for name, now := range after {
		if was := before[name]; now > was*1.2 {
			t.Errorf("%s: %.0f, at the start %.0f, want at most 20 %% more", name, now, was)
		} else {
			t.Logf("%s: %.0f, at the start %.0f", name, now, was)
		}
	}
}

// chaosFault is one fault. inject returns when its cause is over.
type chaosFault struct {
	name   string
	inject func()
}

type chaosEnv struct {
	server    *natstest.Process
	proxy     *natstest.Proxy // between the first edge and the server
	edges     []*edgeProcess
	projector *edgeProcess
	balancer  *balancer
	recorders *recorders
	readers   *readers
}

func newChaosEnv(t *testing.T) *chaosEnv {
	t.Helper()
	c := &chaosEnv{server: natstest.StartProcess(t)}
	c.recorders = startWriters(t, c.server.URL, chaosSessions, *chaosPace)
	c.proxy = natstest.StartProxy(t, c.server.URL)
	for _, url := range []string{c.proxy.URL, c.server.URL} {
		// The small memory of the hub, and that of the projector, is full before the first sample.
		c.edges = append(c.edges, startEdge(t, url, "--drain", "3s", "--hub-bytes", "2000000"))
	}
	c.projector = newEdge(t, c.server.URL)
	c.projector.args = []string{"projector", "--projector-memory", "1000000"}
	c.projector.start(t)
	c.balancer = startBalancer(t, c.edges...)
	c.readers = c.recorders.startReaders(t, c.balancer.addr, chaosReaders, func(i int, f *follower) {
		f.onEvent = f.keepHash
		if i%2 == 0 {
			f.liveness = 3 * time.Second
		}
	})
	c.readers.kept = sseEvent.hashed
	c.awaitHealthy(t)
	return c
}

// awaitHealthy waits until all roles are ready, each session has got a record,
// and each follower has received it.
func (c *chaosEnv) awaitHealthy(t *testing.T) {
	t.Helper()
	for _, e := range c.edges {
		c.balancer.awaitReady(t, e.addr, true)
		awaitDependency(t, e.ops, "nats", "ok")
	}
	awaitDependency(t, c.projector.ops, "nats", "ok")
	c.recorders.awaitMore(t)
	c.readers.awaitAll(t)
}

// faults returns all faults, in a constant order.
func (c *chaosEnv) faults(t *testing.T) []chaosFault {
	t.Helper()
	all := []chaosFault{
		{"kill the server", func() { c.server.Restart(t) }},
		{"shut the server down", func() { c.server.Shutdown(t); c.server.Start(t) }},
		{"stop the server", func() {
			c.server.Stop(t)
			<-time.After(chaosStop)
			c.server.Cont(t)
		}},
		{"lose all bytes between an edge and the server", func() {
			c.proxy.Blackhole()
			<-time.After(outage)
			c.proxy.Restore()
		}},
		{"cut every second client", func() { c.balancer.cut() }},
		{"many clients that read nothing", func() { c.manySilentClients(t) }},
	}
	names := []string{"edge 0", "edge 1", "the projector"}
	for i, p := range []*edgeProcess{c.edges[0], c.edges[1], c.projector} {
		name := names[i]
		all = append(all,
			chaosFault{"kill " + name, func() {
				p.signal(t, syscall.SIGKILL)
				_ = p.cmd.Wait() // it was killed
				p.start(t)
			}},
			chaosFault{"terminate " + name, func() { p.terminate(t); p.start(t) }},
			chaosFault{"stop " + name, func() {
				p.signal(t, syscall.SIGSTOP)
				<-time.After(chaosStop)
				p.signal(t, syscall.SIGCONT)
			}})
	}
	return all
}

// manySilentClients opens streams and reads none of them.
func (c *chaosEnv) manySilentClients(t *testing.T) {
	t.Helper()
	var conns []net.Conn
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	for i := range chaosSilent {
		f := follower{addr: c.balancer.addr, root: c.recorders.writers[i%chaosSessions].root}
		conn, err := net.Dial("tcp", f.addr)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		if _, err := conn.Write([]byte(f.request())); err != nil {
			t.Fatal(err)
		}
	}
	<-time.After(chaosStop)
}

// awaitPlateau waits until the roles use what they need under this load, and returns that: a sample that is at most 5 % above
// the one before. What grows with the number of records or sessions for three minutes is a leak.
func (c *chaosEnv) awaitPlateau(t *testing.T) map[string]float64 {
	t.Helper()
	began := time.Now()
	for last := c.usage(t); ; {
		now, grows := c.usage(t), ""
		for name, n := range now {
			if n > last[name]*1.05 {
				grows = name
			}
		}
		if grows == "" {
			t.Logf("constant after %s", time.Since(began).Round(time.Second))
			return now
		}
		if time.Since(began) > 3*time.Minute {
			t.Fatalf("%s grows without a fault: %.1f, ten seconds before %.1f", grows, now[grows], last[grows])
		}
		last = now
	}
}

// usage returns the goroutines and the live heap of the edges together, because clients move between them, and of the
// projector: the lowest of samples of ten seconds. The heap is the target of the next garbage collection, which is twice what
// the last one found in use. Resident memory would also have what the runtime has not returned to the system.
func (c *chaosEnv) usage(t *testing.T) map[string]float64 {
	t.Helper()
	lowest := make(map[string]float64)
	for range 10 {
		used := make(map[string]float64)
		add := func(role string, p *edgeProcess) {
			used["goroutines of "+role] += p.metric(t, "go_goroutines")
			used["heap KiB of "+role] += p.metric(t, "go_memstats_next_gc_bytes") / (1 << 10)
		}
		add("the edges", c.edges[0])
		add("the edges", c.edges[1])
		add("the projector", c.projector)
		for name, n := range used {
			if least, ok := lowest[name]; !ok || n < least {
				lowest[name] = n
			}
		}
		<-time.After(time.Second)
	}
	return lowest
}

var lineNumber = regexp.MustCompile(`"delta":"line (\d+) `)

// checkLines checks that the log of each session has each acknowledged line
// once and in order. A writer starts line n when all lines before it are
// acknowledged, and starts a sub-agent instead of each twentieth line.
func (c *chaosEnv) checkLines(t *testing.T) {
	t.Helper()
	lines := 0
	for _, w := range c.recorders.writers {
		last := 0
		for rec, err := range c.recorders.reader.Replay(t.Context(), chunk.Range{Session: w.root}) {
			if err != nil {
				t.Fatal(err)
			}
			match := lineNumber.FindSubmatch(rec.Data)
			if match == nil {
				continue
			}
			want := last + 1
			if want%20 == 0 {
				want++
			}
			if last, err = strconv.Atoi(string(match[1])); err != nil || last != want {
				t.Errorf("%s: the log has line %d at %d, want line %d", w.root.ID, last, rec.Seq, want)
				break
			}
			lines++
		}
		if acked := int(w.lines.Load()); last < acked-1 || last > acked { // the last one may have been a sub-agent
			t.Errorf("%s: the last line in the log is %d, the last acknowledged one %d", w.root.ID, last, acked)
		}
	}
	t.Logf("%d lines of %d sessions are stored once", lines, len(c.recorders.writers))
}

// verify compares all stored snapshots with a fold of the log.
func (c *chaosEnv) verify(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), roleBinary(t, "projector"), "verify", "--all")
	cmd.Env = append(os.Environ(), "TAILRACE_NATS_URL="+c.server.URL)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("verify: %v: %s", err, out)
		return
	}
	out = bytes.TrimSpace(out)
	t.Logf("verify: %s", out[bytes.LastIndexByte(out, '\n')+1:])
}

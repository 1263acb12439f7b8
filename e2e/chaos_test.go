//go:build e2e && chaos

package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
)

var (
	chaos         = flag.Duration("chaos", 10*time.Minute, "how long the chaos test injects faults")
	chaosPace     = flag.Duration("chaos-pace", 0, "interval of the records of each session in the chaos test; 0 is half of the measured capacity")
	chaosNone     = flag.Bool("chaos-control", false, "inject no fault: what the chaos test uses without any")
	chaosOnly     = flag.String("chaos-only", "", "inject only the faults whose name matches this regular expression")
	chaosProfiles = flag.String("chaos-profiles", "", "directory for profiles of the heap and the goroutines of the roles, before the first fault and after the last one")
	chaosCluster  = flag.Bool("chaos-cluster", false, "three NATS servers and replicas, with leader changes, instead of one server")
)

const (
	chaosSessions = 50
	chaosReaders  = 500
	chaosMeasured = 10 * time.Second // how long the sessions are written without a pause, to measure the capacity
	chaosEvery    = 10 * time.Second // from the start of one fault to that of the next
	chaosIdle     = time.Second      // interval of the records before and after the measurement
	chaosGrowth   = 1.2              // of memory and goroutines
	chaosRestart  = 5 * time.Second  // how long a role may stay unready after a fault of its own process
)

// Faults that are drawn at random hit two edges, a projector, two workers and the NATS servers, one at a time, while sessions
// are written and followed and agents run. Each acknowledged line is in the log once and in order, each follower has received
// the log of its session, each run has ended once with its whole content, the snapshots equal a fold of the log, and no role was
// unready without a fault of its own process. After all sessions have ended, the roles need no more goroutines and memory than
// after a short load without a fault.
func TestChaos(t *testing.T) {
	random := seedtest.Rand(t)
	c := newChaosEnv(t)
	pace := c.measurePace(t)
	before := c.idleUsage(t)
	c.profile(t, "before")
	c.startLoad(t, pace)
	faults := c.faults(t)
	if *chaosNone {
		faults = []chaosFault{{name: "none", inject: func() {}}}
	}
	for began, n := time.Now(), 1; time.Since(began) < *chaos; n++ {
		next := time.After(chaosEvery)
		f := faults[random.IntN(len(faults))]
		t.Logf("%7s  fault %d: %s", time.Since(began).Round(100*time.Millisecond), n, f.name)
		unready, injected := c.unready(), time.Now()
		f.inject()
		over := time.Now()
		c.awaitHealthy(t)
		t.Logf("         all healthy %s after its end", time.Since(over).Round(time.Millisecond))
		for role, probes := range c.unready() {
			allowed := time.Duration(0)
			if role == f.role {
				allowed = over.Sub(injected) + chaosRestart
			}
			if was := time.Duration(probes-unready[role]) * probeInterval; was > allowed {
				t.Errorf("%s was unready for %s, want at most %s", role, was, allowed)
			}
		}
		<-next
	}
	c.readers.checkAll(t)
	c.runs.check(t)
	c.checkLines(t)
	c.verify(t)
	after := c.idleUsage(t)
	c.profile(t, "after")
	for name, now := range after {
		if was := before[name]; now > was*chaosGrowth {
			t.Errorf("%s: %.0f, at the start %.0f, want at most 20 %% more", name, now, was)
		} else {
			t.Logf("%s: %.0f, at the start %.0f", name, now, was)
		}
	}
}

type chaosEnv struct {
	servers   chaosServers
	url       string          // of all servers, for the test
	proxy     *natstest.Proxy // between the first edge and a server
	edges     []*edgeProcess
	projector *edgeProcess
	balancer  *balancer
	probed    map[string]*backend // by the role
	recorders *recorders
	readers   *readers
	runs      *chaosRuns
}

func newChaosEnv(t *testing.T) *chaosEnv {
	t.Helper()
	t.Setenv("TAILRACE_PPROF", "true") // idleUsage collects garbage with it
	c := &chaosEnv{servers: startChaosServers(t)}
	c.url = strings.Join(c.servers.urls(), ",")
	streamtest.Ensure(t, jetStream(t, natstest.Connect(t, c.url)), c.streams())
	replicas := strconv.Itoa(c.servers.replicas())
	c.proxy = natstest.StartProxy(t, c.servers.urls()[0])
	for _, url := range []string{c.proxy.URL, c.url} {
		// The small memory of the hub, and that of the projector, is full before the first sample.
		c.edges = append(c.edges, startEdge(t, url, "--drain", "3s", "--memory", "8000000", "--replicas", replicas))
	}
	c.projector = newEdge(t, c.url)
	c.projector.args = []string{"projector", "--memory", "4000000", "--replicas", replicas}
	c.projector.start(t)
	c.balancer = startBalancer(t, c.edges...)
	c.probed = map[string]*backend{"edge 0": c.balancer.backends[0], "edge 1": c.balancer.backends[1], "the projector": c.balancer.watch(c.projector)}
	for _, e := range c.edges {
		c.balancer.awaitReady(t, e.addr, true)
	}
	return c
}

// streams is the configuration of the streams.
func (c *chaosEnv) streams() topology.Config {
	return topology.Config{Replicas: c.servers.replicas()}
}

// startFollowed starts sessions, written at every pace, and their followers.
func (c *chaosEnv) startFollowed(t *testing.T, prefix string, pace time.Duration) {
	t.Helper()
	c.recorders = startWritersOn(t, c.url, writerConfig{streams: c.streams(), prefix: prefix, sessions: chaosSessions, pace: pace})
	c.readers = c.recorders.startReaders(t, c.balancer.addr, chaosReaders, func(i int, f *follower) {
		f.onEvent = f.keepHash
		if i%2 == 0 {
			f.liveness = 3 * time.Second
		}
	})
	c.readers.kept = sseEvent.hashed
}

// measurePace returns the interval of the records of each session at half of the rate at which writers without a pause and all
// followers are done with their records. The sessions of the measurement end.
func (c *chaosEnv) measurePace(t *testing.T) time.Duration {
	t.Helper()
	c.startFollowed(t, "capacity", chaosIdle)
	c.recorders.awaitMore(t)
	c.readers.awaitAll(t)
	before, began := c.recorders.acked(), time.Now()
	c.recorders.pace.Store(1)
	<-time.After(chaosMeasured)
	c.recorders.pace.Store(int64(chaosIdle))
	lines := c.recorders.acked() - before
	c.readers.awaitAll(t)
	took := time.Since(began)
	c.readers.checkAll(t)
	pace := 2 * chaosSessions * took / time.Duration(lines)
	t.Logf("capacity: %d records in %s, %.0f per second", lines, took.Round(time.Millisecond), float64(lines)/took.Seconds())
	if *chaosPace != 0 {
		pace = *chaosPace
	}
	return pace
}

// startLoad starts the sessions, the followers and the runs that the faults hit.
func (c *chaosEnv) startLoad(t *testing.T, pace time.Duration) {
	t.Helper()
	t.Logf("each of %d sessions has a record every %s", chaosSessions, pace.Round(time.Microsecond))
	c.startFollowed(t, "s", pace)
	c.runs = startChaosRuns(t, &workerEnv{Stack: stack.Start(t, stack.Options{On: c.servers, Topology: c.streams()})}, workerJob{URL: c.url, Pace: 50 * time.Millisecond})
	c.awaitHealthy(t)
}

// awaitHealthy waits until all roles are ready, each session has got a record, each follower has received it, and a run that
// began since then has ended.
func (c *chaosEnv) awaitHealthy(t *testing.T) {
	t.Helper()
	for _, e := range c.edges {
		c.balancer.awaitReady(t, e.addr, true)
		awaitDependency(t, e.ops, "nats", "ok")
	}
	awaitDependency(t, c.projector.ops, "nats", "ok")
	c.recorders.awaitMore(t)
	c.readers.awaitAll(t)
	c.runs.awaitMore(t)
}

// unready returns the number of probes that found each role unready.
func (c *chaosEnv) unready() map[string]int32 {
	probes := make(map[string]int32)
	for role, to := range c.probed {
		probes[role] = to.unready.Load()
	}
	return probes
}

// idleUsage waits until no session is in the memory of the edges, and returns the goroutines and the heap of the edges together,
// because clients move between them, and of the projector. The heap is the target of the next garbage collection, which is about
// twice what the last one found in use. The allocated heap would also have the profile that the request for the collection
// writes, and resident memory what the runtime has not returned to the system.
func (c *chaosEnv) idleUsage(t *testing.T) map[string]float64 {
	t.Helper()
	used := make(map[string]float64)
	for _, e := range c.edges {
		natstest.Eventually(t, "an edge without sessions", func(context.Context) error {
			if n := e.metric(t, "tailrace_hub_topics"); n != 0 {
				return fmt.Errorf("%.0f sessions are in memory", n)
			}
			return nil
		})
	}
	add := func(role string, p *edgeProcess) {
		for range 2 { // the first collection leaves what is in a sync.Pool
			p.pprof(t, "heap?gc=1")
		}
		used["goroutines of "+role] += p.metric(t, "go_goroutines")
		used["heap KiB of "+role] += p.metric(t, "go_memstats_next_gc_bytes") / (1 << 10)
	}
	add("the edges", c.edges[0])
	add("the edges", c.edges[1])
	add("the projector", c.projector)
	return used
}

// profile stores profiles of the heap and the goroutines of the roles, if -chaos-profiles has a directory for them.
func (c *chaosEnv) profile(t *testing.T, when string) {
	t.Helper()
	if *chaosProfiles == "" {
		return
	}
	for role, p := range map[string]*edgeProcess{"edge-0": c.edges[0], "edge-1": c.edges[1], "projector": c.projector} {
		for _, of := range []string{"heap", "goroutine"} {
			name := filepath.Join(*chaosProfiles, when+"-"+role+"."+of)
			if err := os.WriteFile(name, []byte(p.pprof(t, of)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

var lineNumber = regexp.MustCompile(`"delta":"line (\d+) `)

// checkLines checks that the log of each session has each acknowledged line once and in order. A writer starts line n when all
// lines before it are acknowledged, and starts a sub-agent instead of each twentieth line.
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
			if w.delegates(want) {
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
	cmd := exec.CommandContext(t.Context(), binary(t), "verify", "--all")
	cmd.Env = slices.Concat(os.Environ(), roletest.Shared().Env(natsauth.Operator), []string{"TAILRACE_NATS_URL=" + c.url})
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("verify: %v: %s", err, out)
	}
	lines := strings.TrimSpace(string(out))
	t.Logf("verify: %s", lines[strings.LastIndexByte(lines, '\n')+1:])
}

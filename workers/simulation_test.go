package workers

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
)

var (
	schedulesFlag = flag.Int("schedules", 12, "number of schedules of TestSimulation")
	scheduleFlag  = flag.Int("schedule", -1, "run only this schedule of -seed")
	scenarioFlag  = flag.String("scenario", "", "run only this scenario")
)

// simulation is the environment of the schedules.
type simulation struct {
	w      *env
	stream jetstream.Stream
	stable *Workers // their connection never breaks
	want   map[string]outcomes
}

// outcomes are the results of a schedule without faults.
type outcomes struct {
	history     string
	sideEffects []string
}

func newSimulation(t *testing.T) *simulation {
	t.Helper()
	x := &simulation{w: newEnvIn(t, jetstream.MemoryStorage), want: make(map[string]outcomes)}
	js := x.w.Server.JetStream(t)
	var err error
	if x.stream, err = js.Stream(t.Context(), "TR_COMMANDS"); err != nil {
		t.Fatal(err)
	}
	if x.stable, err = x.workers(js); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.stable.Close() })
	return x
}

// runUndisturbed records the outcomes of scenarios without faults.
func (x *simulation) runUndisturbed(names ...string) {
	x.w.t.Helper()
	for _, name := range names {
		undisturbed, err := x.run(name, nil)
		if err != nil {
			x.w.t.Fatalf("%s without faults: %v\n%s", name, err, undisturbed.trace())
		}
		x.want[name] = undisturbed.outcomes()
	}
}

func (x *simulation) workers(js jetstream.JetStream) (*Workers, error) {
	return New(js, Config{
		Agents: map[string]Agent{"none": AgentFunc(nil)}, ShutdownTimeout: time.Minute, MaxTakeovers: Off, Pace: Off,
	})
}

// failingWorkers returns workers whose connection breaks at the n-th record that they write.
func (x *simulation) failingWorkers(n int) (*Workers, *faultyConn) {
	cut := &faultyConn{left: n, broken: make(chan struct{})}
	nc, err := nats.Connect(x.w.Server.URL, nats.SetCustomDialer(cut), nats.NoReconnect())
	if err != nil {
		x.w.t.Error(err)
		return x.stable, nil
	}
	cut.nc = nc
	js, err := jetstream.New(nc)
	if err != nil {
		x.w.t.Error(err)
	}
	w, err := x.workers(js)
	if err != nil {
		x.w.t.Error(err)
	}
	return w, cut
}

// faultyConn is a dialer whose connection breaks after some records.
type faultyConn struct {
	nc     *nats.Conn
	left   int
	broken chan struct{}
	once   sync.Once
}

func (c *faultyConn) Dial(network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).Dial(network, address)
	if err != nil {
		return nil, err
	}
	return &cutConn{conn.(*net.TCPConn), c}, nil
}

type cutConn struct {
	*net.TCPConn

	cut *faultyConn
}

var record = []byte("HPUB tr.chunks.")

// Write is not called concurrently.
func (c *cutConn) Write(b []byte) (int, error) {
	for at := 0; ; {
		i := bytes.Index(b[at:], record)
		if i < 0 {
			return c.TCPConn.Write(b)
		}
		if at += i; c.cut.left == 0 {
			n, _ := c.TCPConn.Write(b[:at])
			c.cut.once.Do(func() { close(c.cut.broken) })
			return n, c.CloseWrite() // the server gets all bytes before it closes the connection; after Close it might lose them
		}
		c.cut.left--
		at += len(record)
	}
}

// start starts a schedule of a scenario: its first command is on the queue.
func (x *simulation) start(name string, random *rand.Rand) *schedule {
	t := &schedule{
		x: x, random: random, scenario: scenarios[name], root: chunk.RootSession("acme", uniqueName("schedule")),
		names: make(map[string]string), counts: make(map[string]int),
	}
	c := execute(t.root.ID, "root", "hello")
	c.Issued = time.Now()
	if err := x.w.Queue.Request(context.Background(), c, 0); err != nil {
		x.w.t.Error(err)
	}
	t.recordQueued(c)
	return t
}

// run runs one schedule, without faults if random is nil.
func (x *simulation) run(name string, random *rand.Rand) (*schedule, error) {
	t := x.start(name, random)
	if random != nil {
		t.crashRequests, t.stopRequests, t.steers, t.faultsEnabled = t.chance(3), t.chance(4), t.chance(4), true
		t.injectFaults()
		t.faultsEnabled = false
		t.logf("-- no faults from here --")
	}
	err := t.end(x.want[name])
	return t, err
}

// end drains the schedule and compares its outcomes with want.
func (t *schedule) end(want outcomes) error {
	err := t.drain()
	if err == nil && want.history != "" {
		err = t.compare(want)
	}
	for _, a := range t.crashed {
		a.disconnect()
		<-a.done
		a.stop()
	}
	return err
}

var runNames = regexp.MustCompile(`(run|sub)-[0-9a-f]{32}|schedule-\d+`)

func (t *schedule) outcomes() outcomes {
	var o outcomes
	stories := slices.Sorted(func(yield func(string) bool) {
		for _, c := range t.sessions {
			snap, err := t.x.w.Reader.Snapshot(context.Background(), c.Session)
			if err != nil || !yield(runNames.ReplaceAllString(historyOf(snap), "$1-")) {
				return
			}
		}
	})
	o.history = fmt.Sprintf("%s", stories)
	for what, keys := range t.sideEffects.keys {
		o.sideEffects = append(o.sideEffects, fmt.Sprintf("%s: %d", what, len(keys)))
	}
	slices.Sort(o.sideEffects)
	return o
}

// compare reports differences from the outcomes without faults.
func (t *schedule) compare(want outcomes) error {
	got := t.outcomes()
	for what, keys := range t.sideEffects.keys {
		if len(keys) != 1 {
			return fmt.Errorf("%s: side effect under %d keys, want 1", what, len(keys))
		}
	}
	switch {
	case t.stopped || t.ownerless || t.messagesSent > 0 || t.scenario.timed():
		return nil // the history depends on the faults
	case got.history != want.history:
		return fmt.Errorf("got history\n%s\nwant\n%s", got.history, want.history)
	case !slices.Equal(got.sideEffects, want.sideEffects):
		return fmt.Errorf("side effects %s, want %s", got.sideEffects, want.sideEffects)
	}
	return nil
}

// Commands are delivered in any order, repeatedly, concurrently to two workers, and late. Workers and
// requests of users crash before any of their calls. When the faults stop and all pending calls have answers,
// every run must have ended, and the conversation must equal the one without faults.
//
//	go test ./workers -run 'TestSimulation$' -schedules 1000
//	go test ./workers -run 'TestSimulation$' -seed 5 -schedule 31 # repeat one of them
func TestSimulation(t *testing.T) {
	seed := seedtest.Seed(t)
	x := newSimulation(t)
	names := slices.Sorted(maps.Keys(scenarios))
	x.runUndisturbed(names...)
	first, n := 0, *schedulesFlag
	if *scheduleFlag >= 0 {
		first, n = *scheduleFlag, *scheduleFlag+1
	}
	begin := time.Now()
	var next atomic.Int64
	next.Store(int64(first))
	var bad atomic.Int64
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := int(next.Add(1) - 1); i < n && bad.Load() < 3; i = int(next.Add(1) - 1) {
				random := rand.New(rand.NewPCG(seed, uint64(i)))
				name := pick(random, names)
				if *scenarioFlag != "" {
					name = *scenarioFlag
				}
				sched, err := x.run(name, random)
				if err != nil {
					bad.Add(1)
					t.Errorf("-seed %d -schedule %d, %q: %v\n%s", seed, i, name, err, sched.trace())
				}
			}
		})
	}
	group.Wait()
	t.Logf("seed %d: %d schedules in %s", seed, n-first, time.Since(begin).Round(time.Millisecond))
}

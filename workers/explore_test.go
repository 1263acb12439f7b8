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
	"github.com/tailrace/tailrace/producers"
)

var (
	talesFlag = flag.Int("tales", 12, "how many tales TestExplore tells")
	taleFlag  = flag.Int("tale", -1, "the only tale that TestExplore tells, of those of -seed")
	plotFlag  = flag.String("plot", "", "the only plot of the tales")
)

// explorer is where the tales take place.
type explorer struct {
	w      *world
	stream jetstream.Stream
	steady *Workers // whose connection is never cut
	want   map[string]outcomes
}

// outcomes are what an undisturbed tale comes to.
type outcomes struct {
	story string
	deeds []string
}

func newExplorer(t *testing.T) *explorer {
	t.Helper()
	x := &explorer{w: newWorldIn(t, jetstream.MemoryStorage), want: make(map[string]outcomes)}
	js := x.w.srv.JetStream(t)
	var err error
	if x.stream, err = js.Stream(t.Context(), "TR_COMMANDS"); err != nil {
		t.Fatal(err)
	}
	if x.steady, err = x.workers(js); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.steady.Close() })
	return x
}

// calm finds out what plots come to when nothing disturbs them.
func (x *explorer) calm(plots ...string) {
	x.w.t.Helper()
	for _, name := range plots {
		calm, err := x.tell(name, nil)
		if err != nil {
			x.w.t.Fatalf("%s, undisturbed: %v\n%s", name, err, calm.account())
		}
		x.want[name] = calm.outcomes()
	}
}

func (x *explorer) workers(js jetstream.JetStream) (*Workers, error) {
	return New(js, Config{
		Agents: map[string]Agent{"none": AgentFunc(nil)}, Grace: time.Minute,
		Producer: producers.Config{Linger: producers.NoLinger},
	})
}

// frail are workers whose connection breaks at the n-th record that they write.
func (x *explorer) frail(n int) (*Workers, *cutter) {
	cut := &cutter{srv: x.w.srv, left: n, over: make(chan struct{})}
	nc, err := nats.Connect(nats.DefaultURL, nats.InProcessServer(cut), nats.NoReconnect())
	if err != nil {
		x.w.t.Error(err)
		return x.steady, nil
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

// cutter makes a connection that breaks.
type cutter struct {
	srv  interface{ InProcessConn() (net.Conn, error) }
	nc   *nats.Conn
	left int
	over chan struct{}
	once sync.Once
}

func (c *cutter) InProcessConn() (net.Conn, error) {
	conn, err := c.srv.InProcessConn()
	return &cutConn{conn, c}, err
}

type cutConn struct {
	net.Conn

	cut *cutter
}

var record = []byte("HPUB tr.chunks.")

// Write is called by one goroutine at a time.
func (c *cutConn) Write(b []byte) (int, error) {
	for at := 0; ; {
		i := bytes.Index(b[at:], record)
		if i < 0 {
			return c.Conn.Write(b)
		}
		if at += i; c.cut.left == 0 {
			n, _ := c.Conn.Write(b[:at])
			c.cut.once.Do(func() { close(c.cut.over) })
			return n, c.Close()
		}
		c.cut.left--
		at += len(record)
	}
}

// begin begins a tale of a plot: its first command is on the queue.
func (x *explorer) begin(name string, random *rand.Rand) *tale {
	t := &tale{
		x: x, random: random, plot: plots[name], root: chunk.RootSession("acme", fresh("tale")),
		names: make(map[string]string), counts: make(map[string]int),
	}
	c := execute(t.root.ID, "root", "hello")
	c.Issued = time.Now()
	if err := x.w.queue.Request(context.Background(), c, 0); err != nil {
		x.w.t.Error(err)
	}
	t.note(c)
	return t
}

// tell tells one tale, undisturbed without a source of trouble.
func (x *explorer) tell(name string, random *rand.Rand) (*tale, error) {
	t := x.begin(name, random)
	if random != nil {
		t.deaths, t.stops, t.brave = t.chance(3), t.chance(4), true
		t.trouble()
		t.brave = false
		t.sayf("-- from here on nobody dies --")
	}
	err := t.end(x.want[name])
	return t, err
}

// end is the end of a tale, which is to be as it is wanted.
func (t *tale) end(want outcomes) error {
	err := t.calm()
	if err == nil && want.story != "" {
		err = t.compare(want)
	}
	for _, a := range t.dead {
		a.leave()
		<-a.over
		a.stop()
	}
	return err
}

var runNames = regexp.MustCompile(`(run|sub)-[0-9a-f]{32}|tale-\d+`)

func (t *tale) outcomes() outcomes {
	var o outcomes
	stories := slices.Sorted(func(yield func(string) bool) {
		for _, c := range t.sessions {
			snap, err := t.x.w.reader.Snapshot(context.Background(), c.Session)
			if err != nil || !yield(runNames.ReplaceAllString(story(snap), "$1-")) {
				return
			}
		}
	})
	o.story = fmt.Sprintf("%s", stories)
	for what, keys := range t.deeds.keys {
		o.deeds = append(o.deeds, fmt.Sprintf("%s: %d", what, len(keys)))
	}
	slices.Sort(o.deeds)
	return o
}

// compare finds what came out otherwise than without trouble.
func (t *tale) compare(want outcomes) error {
	got := t.outcomes()
	for what, keys := range t.deeds.keys {
		if len(keys) != 1 {
			return fmt.Errorf("%s was done under %d keys", what, len(keys))
		}
	}
	switch {
	case t.stopped || t.spoken > 0 || t.plot.timed():
		return nil // that is another story
	case got.story != want.story:
		return fmt.Errorf("it tells\n%s\nwant\n%s", got.story, want.story)
	case !slices.Equal(got.deeds, want.deeds):
		return fmt.Errorf("done was %s, want %s", got.deeds, want.deeds)
	}
	return nil
}

// Commands come in any order, twice, to two workers at once, late; workers, and
// people, die before any of their words with the server. When that is over, and
// all questions are answered, then so is everything else, and the conversation is
// the one without trouble.
//
//	go test ./workers -run 'TestExplore$' -tales 1000
//	go test ./workers -run 'TestExplore$' -seed 5 -tale 31 # one of them again
func TestExplore(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	x := newExplorer(t)
	names := slices.Sorted(maps.Keys(plots))
	x.calm(names...)
	first, n := 0, *talesFlag
	if *taleFlag >= 0 {
		first, n = *taleFlag, *taleFlag+1
	}
	begin := time.Now()
	var next atomic.Int64
	next.Store(int64(first))
	var bad atomic.Int64
	var lanes sync.WaitGroup
	for range 4 {
		lanes.Go(func() {
			for i := int(next.Add(1) - 1); i < n && bad.Load() < 3; i = int(next.Add(1) - 1) {
				random := rand.New(rand.NewPCG(seed, uint64(i)))
				name := pick(random, names)
				if *plotFlag != "" {
					name = *plotFlag
				}
				told, err := x.tell(name, random)
				if err != nil {
					bad.Add(1)
					t.Errorf("-seed %d -tale %d, %q: %v\n%s", seed, i, name, err, told.account())
				}
			}
		})
	}
	lanes.Wait()
	t.Logf("seed %d: %d tales in %s", seed, n-first, time.Since(begin).Round(time.Millisecond))
}

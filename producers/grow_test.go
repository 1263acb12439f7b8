package producers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/subjects"
	"github.com/tailrace/tailrace/topology"
)

// grow creates the streams of a layout and closes the partitions of its earlier generations, each in two programs at once.
func grow(t *testing.T, js jetstream.JetStream, cfg topology.Config) {
	t.Helper()
	for _, step := range []func() error{
		func() error { return topology.Ensure(t.Context(), js, cfg) },
		func() error { _, err := topology.Grow(t.Context(), js, cfg); return err },
	} {
		var programs sync.WaitGroup
		for range 2 {
			programs.Go(func() {
				if err := step(); err != nil {
					t.Error(err)
				}
			})
		}
		programs.Wait()
	}
}

// The stream of a closed partition behaves as the one of an open partition for the sessions that it has.
func TestClosedPartitionIsALog(t *testing.T) {
	before := subjects.Layout{Partitions: 1}
	p := newEnvWith(t, natstest.Start(t).Conn(t), before)
	mustStart(t, p.producer(t, Config{Layout: before}), testSession.Child("sub"))
	after := subjects.Layout{Earlier: []int{1}, Partitions: 3}
	grow(t, p.js, topology.Config{Layout: after})
	log, err := p.producer(t, Config{Layout: after}).newNATSLog(t.Context(), testSession)
	if err != nil {
		t.Fatal(err)
	}
	defer log.close()
	if log.stream() != "TR_CHUNKS_0" {
		t.Errorf("the log is %s", log.stream())
	}
	exerciseLog(t, log)
}

// growing is a log whose partitions grow while sessions are written.
type growing struct {
	t       *testing.T
	js      jetstream.JetStream
	layouts []subjects.Layout

	created atomic.Int32 // generations whose streams exist
	closed  atomic.Int32 // generations that are known to be closed
	stored  atomic.Int64 // records
}

// writers returns the Producer of a process for each layout.
func (g *growing) writers() (all []*Producer) {
	for _, layout := range g.layouts {
		p := newTestProducer(g.t, g.js, Config{Layout: layout})
		all = append(all, p)
	}
	return all
}

// TestPartitionsGrow writes sessions in many processes while the partitions grow twice. A process changes to a later layout when its streams exist, and must when
// it is refused. Every session is complete, in order, in one partition, and begins in the newest generation after the earlier ones are closed.
func TestPartitionsGrow(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { writeWhileGrowing(t, js, seed, 1) })
	}
}

// With replicas, the leaders of the streams decide in another order than they apply.
func TestPartitionsGrowOnACluster(t *testing.T) {
	writeWhileGrowing(t, natstest.StartCluster(t, 3).JetStream(t), 1, 3)
}

func writeWhileGrowing(t *testing.T, js jetstream.JetStream, seed uint64, replicas int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	first := 1 + r.IntN(2)
	second := first + 1 + r.IntN(3)
	name := fmt.Sprintf("g%d", seed)
	g := &growing{t: t, js: js, layouts: []subjects.Layout{
		{Prefix: name, Partitions: first},
		{Prefix: name, Earlier: []int{first}, Partitions: second},
		{Prefix: name, Earlier: []int{first, second}, Partitions: second + 1},
	}}
	if err := topology.Ensure(t.Context(), g.js, topology.Config{Layout: g.layouts[0], Replicas: replicas}); err != nil {
		t.Fatal(err)
	}
	g.created.Store(1)
	const sessions, records = 24, 20
	written := make([]grownSession, sessions)
	var writing sync.WaitGroup
	for n := range written {
		source := rand.New(rand.NewPCG(seed, uint64(2+n)))
		writing.Go(func() { written[n] = g.write(source, chunk.RootSession("acme", fmt.Sprint("s", n)), records) })
	}
	writing.Go(func() {
		for generation := 1; generation < len(g.layouts); generation++ {
			g.await(int64(generation * sessions * records / 4))
			g.created.Store(int32(generation + 1))
			grow(t, g.js, topology.Config{Layout: g.layouts[generation], Replicas: replicas})
			g.closed.Store(int32(generation))
		}
	})
	writing.Wait()
	for _, s := range written {
		g.check(s)
	}
}

// await waits until so many records are stored.
func (g *growing) await(n int64) {
	natstest.Eventually(g.t, "records", func(context.Context) error {
		if got := g.stored.Load(); got < n {
			return fmt.Errorf("%d, want %d", got, n)
		}
		return nil
	})
}

// grownSession is what a writer knows of a session.
type grownSession struct {
	session  chunk.Session
	text     string
	earliest int // generations that were closed before it began
	latest   int // generation whose streams existed when its first record was stored
}

// write writes a session in several runs of several processes.
func (g *growing) write(r *rand.Rand, s chunk.Session, records int) grownSession {
	sum := grownSession{session: s, earliest: int(g.closed.Load())}
	all, ctx := g.writers(), g.t.Context()
	var run *Run
	oldest := 0 // the first layout that is not refused
	for n := 0; n < records; {
		if run == nil {
			newest := int(g.created.Load()) - 1
			at := oldest + r.IntN(max(1, newest-oldest+1))
			var err error
			run, err = all[at].Start(ctx, s, chunk.RunStarted{Mode: "takeover"})
			if g.refused(err, at) {
				oldest = at + 1
				continue
			}
			if err != nil {
				g.t.Errorf("start %s: %v", s, err)
				return sum
			}
			if n == 0 {
				sum.latest = int(g.created.Load()) - 1
			}
			oldest = at
		}
		text := fmt.Sprintf("%s-%d ", s.ID, n)
		_, err := run.Write(ctx, chunk.Chunk{Timestamp: 1, Body: chunk.TextDelta{Delta: text}})
		if g.refused(err, oldest) {
			_ = run.Close() // it was refused
			run, oldest = nil, oldest+1
			continue
		}
		if err != nil {
			g.t.Errorf("write %s: %v", s, err)
			return sum
		}
		sum.text += text
		g.stored.Add(1)
		n++
		if r.IntN(5) == 0 {
			if err := run.Close(); err != nil {
				g.t.Error(err)
			}
			run = nil
		}
	}
	return sum
}

// refused reports whether a writer with a layout was refused, which needs a later generation.
func (g *growing) refused(err error, layout int) bool {
	if !errors.Is(err, ErrOldLayout) {
		return false
	}
	if int(g.created.Load()) <= layout+1 {
		g.t.Errorf("the newest layout was refused: %v", err)
	}
	return true
}

// check reads a session in a process that has not written it.
func (g *growing) check(sum grownSession) {
	g.t.Helper()
	layout := g.layouts[len(g.layouts)-1]
	reader, err := consumers.New(g.js, consumers.Config{Layout: layout})
	if err != nil {
		g.t.Fatal(err)
	}
	var text strings.Builder
	ordinal := chunk.Ordinal(0)
	for rec, err := range reader.Replay(g.t.Context(), chunk.Range{Session: sum.session}) {
		if err != nil {
			g.t.Fatal(err)
		}
		if ordinal++; rec.Ordinal != ordinal {
			g.t.Fatalf("%s: ordinal %d after %d", sum.session, rec.Ordinal, ordinal-1)
		}
		c, err := rec.Decode()
		if err != nil {
			g.t.Fatal(err)
		}
		if delta, ok := c.Body.(chunk.TextDelta); ok {
			text.WriteString(delta.Delta)
		}
	}
	if text.String() != sum.text {
		g.t.Errorf("%s: read %q, want %q", sum.session, text.String(), sum.text)
	}
	var found []int
	client := jsclient.New(g.js)
	for p := range layout.PartitionCount() {
		subject, err := layout.SubjectIn(p, sum.session)
		if err != nil {
			g.t.Fatal(err)
		}
		if _, err := client.Last(g.t.Context(), layout.Stream(p), subject); err == nil {
			found = append(found, p)
		} else if !errors.Is(err, jsclient.ErrNotFound) {
			g.t.Fatal(err)
		}
	}
	at, final, err := reader.Partition(g.t.Context(), sum.session)
	if err != nil || !final || !slices.Equal(found, []int{at}) {
		g.t.Errorf("%s: records in partitions %d, located in %d, final %t, %v", sum.session, found, at, final, err)
	}
	if generation := layout.Generation(at); generation < sum.earliest || generation > sum.latest {
		g.t.Errorf("%s began in generation %d, want %d to %d", sum.session, generation, sum.earliest, sum.latest)
	}
}

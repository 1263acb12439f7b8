//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/subjects"
)

const chunkStream = "TR_CHUNKS_0"

// toldWithin is how long a client may be left in the dark about a log that is not
// what it was.
const toldWithin = 10 * time.Second

// Somebody deletes the consumers of the edge again and again, in the middle of
// sessions: the feed and the reads of history go on where they were.
func TestConsumersDeletedUnderTheEdge(t *testing.T) {
	server := natstest.StartProcess(t)
	js := server.JetStream(t)
	edge := startEdge(t, server.URL)
	talk := startChatter(t, server.URL, 10, 20*time.Millisecond)
	pages := talk.startCrowd(t, edge.addr, 20, nil)
	pages.awaitAll(t)
	for range 10 {
		deleted := 0
		natstest.Await(t, "a consumer to delete", func(ctx context.Context) error {
			stream, err := js.Stream(ctx, chunkStream)
			if err != nil {
				return err
			}
			for name := range stream.ConsumerNames(ctx).Name() {
				err := stream.DeleteConsumer(ctx, name)
				if err == nil {
					deleted++
				} else if !errors.Is(err, jetstream.ErrConsumerNotFound) { // its owner was faster
					return err
				}
			}
			if deleted == 0 {
				return errors.New("there is none")
			}
			return nil
		})
		pages.awaitAll(t)
	}
	pages.judge(t)
}

// A session is purged under its readers, who have everything. When somebody
// speaks again in it, it begins anew, and they are told; then they get all of it.
func TestSessionPurgedUnderReaders(t *testing.T) {
	w := newUnderfoot(t)
	run := w.begin(t)
	w.say(t, run, 20)
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	page := w.open(t, w.edge, "")
	page.await(t, `"n19"`)

	subject, err := subjects.Layout{}.Subject(chunk.RootSession("default", "s"))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.stream(t).Purge(t.Context(), jetstream.WithPurgeSubject(subject)); err != nil {
		t.Fatal(err)
	}
	again := w.begin(t)
	began := time.Now()
	page.await(t, `"type":"truncated"`, `"reason":"expired"`)
	t.Logf("told after %s", time.Since(began).Round(time.Millisecond))
	w.say(t, again, 3)
	if err := again.End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	page.await(t, `"n2"`)
	page.await(t, `"type":"end"`)
	page.toldOnce(t)
}

// The log is purged up to a sequence. Who has what was purged misses nothing, nor
// does who comes to an edge that has it in memory; who comes to another is told.
func TestLogPurgedUnderReaders(t *testing.T) {
	w := newUnderfoot(t)
	first := w.begin(t)
	at := w.say(t, first, 30)
	if err := first.End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	run := w.begin(t)
	w.say(t, run, 10)
	live := w.open(t, w.edge, "")
	live.awaitSaid(t, 0, 30)
	live.awaitSaid(t, 0, 10)

	if err := w.stream(t).Purge(t.Context(), jetstream.WithPurgeSequence(uint64(at-5))); err != nil {
		t.Fatal(err)
	}
	late := w.open(t, w.edge, fmt.Sprint(at-20)) // behind n9
	late.awaitSaid(t, 10, 30)
	late.awaitSaid(t, 0, 10)
	other := startEdge(t, w.url)
	began := time.Now()
	later := w.open(t, other, fmt.Sprint(at-20))
	later.await(t, `"type":"truncated"`, `"reason":"expired"`)
	t.Logf("told after %s", time.Since(began).Round(time.Millisecond))
	later.awaitSaid(t, 0, 10)
	if err := run.Say(t.Context(), chunk.Custom{EventName: "more"}); err != nil {
		t.Fatal(err)
	}
	if err := run.End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, page := range []*watcher{live, late, later} {
		page.await(t, `"more"`)
		page.await(t, `"type":"end"`)
	}
	later.toldOnce(t)
	if live.truncated+late.truncated > 0 {
		t.Error("a page that misses nothing was told that it does")
	}
}

// The stream is deleted and made again under a reader, with fewer records than it
// has seen. It is told so where it stands, or cut and told when it comes back
// that there is no such place: that depends on whether there was a session to go
// on with when the edge noticed.
func TestStreamMadeAgainUnderReaders(t *testing.T) {
	w := newUnderfoot(t)
	run := w.begin(t)
	w.say(t, run, 40)
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	page := w.open(t, w.edge, "")
	page.await(t, `"n39"`)
	if err := w.js.DeleteStream(t.Context(), chunkStream); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := topology.Ensure(t.Context(), w.js, topology.Config{}); err != nil {
		t.Fatal(err)
	}
	again := w.begin(t)
	w.say(t, again, 3)
	if told := page.await(t, `"type":"truncated"`); !strings.Contains(told, `"recreated"`) && !strings.Contains(told, `"future"`) {
		t.Errorf("told %s, want recreated or future", told)
	}
	t.Logf("told after %s", time.Since(began).Round(time.Millisecond))
	if err := again.Say(t.Context(), chunk.Custom{EventName: "more"}); err != nil {
		t.Fatal(err)
	}
	if err := again.End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	page.await(t, `"n2"`)
	page.await(t, `"more"`)
	page.await(t, `"type":"end"`)
	page.toldOnce(t)
}

// underfoot is one session that somebody takes away, with an edge and a projector
// that know nothing of it.
type underfoot struct {
	url      string
	js       jetstream.JetStream
	producer *producers.Producer
	edge     *edgeProcess
}

func newUnderfoot(t *testing.T) *underfoot {
	t.Helper()
	server := natstest.StartProcess(t)
	w := &underfoot{url: server.URL, js: server.JetStream(t)}
	if err := topology.Ensure(t.Context(), w.js, topology.Config{}); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.producer, err = producers.New(w.js.Conn(), w.js, producers.Config{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.producer.Close(); err != nil {
			t.Error(err)
		}
	})
	startRole(t, append(os.Environ(), "TAILRACE_NATS_URL="+server.URL), "projector")
	w.edge = startEdge(t, server.URL)
	return w
}

func (w *underfoot) stream(t *testing.T) jetstream.Stream {
	t.Helper()
	stream, err := w.js.Stream(t.Context(), chunkStream)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func (w *underfoot) begin(t *testing.T) *producers.Run {
	t.Helper()
	run, err := w.producer.Start(t.Context(), chunk.RootSession("default", "s"), chunk.RunStarted{Mode: "execute"}, producers.AgentType("underfoot"))
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// say stores n0, n1 and so on, and returns the sequence of the last.
func (w *underfoot) say(t *testing.T, run *producers.Run, n int) chunk.Seq {
	t.Helper()
	for i := range n {
		if err := run.Say(t.Context(), chunk.Custom{EventName: fmt.Sprintf("n%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	pos, err := run.Flush(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pos.Seq
}

// watcher is a page whose events the test waits for, one after the other.
type watcher struct {
	events    chan heard
	truncated int // events that say that something is missing
}

// open lets a page come that has everything up to lastID, until the test ends.
func (w *underfoot) open(t *testing.T, edge *edgeProcess, lastID string) *watcher {
	t.Helper()
	page := &watcher{events: make(chan heard, 1000)}
	f := &follower{addr: edge.addr, root: chunk.RootSession("default", "s"), lastID: lastID}
	f.take = func(e heard) { page.events <- e }
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- f.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return page
}

// awaitSaid reads on over what say has said.
func (p *watcher) awaitSaid(t *testing.T, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		p.await(t, fmt.Sprintf(`"n%d"`, n))
	}
}

func (p *watcher) toldOnce(t *testing.T) {
	t.Helper()
	if p.truncated != 1 {
		t.Errorf("the page was told %d times that something is missing, want once", p.truncated)
	}
}

// await reads on to an event that has all the words.
func (p *watcher) await(t *testing.T, words ...string) string {
	t.Helper()
	limit := time.NewTimer(toldWithin)
	defer limit.Stop()
	var passed []string
	for {
		select {
		case e := <-p.events:
			if strings.Contains(e.data, `"type":"truncated"`) {
				p.truncated++
			}
			missing := 0
			for _, word := range words {
				if !strings.Contains(e.data, word) {
					missing++
				}
			}
			if missing == 0 {
				return e.data
			}
			passed = append(passed, fmt.Sprintf("%d %.160s", e.seq, e.data))
		case <-limit.C:
			t.Fatalf("no %v within %s, but\n%s", words, toldWithin, strings.Join(passed, "\n"))
			return ""
		}
	}
}

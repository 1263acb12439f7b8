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
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/subjects"
)

const chunkStream = "TR_CHUNKS_0"

// truncatedTimeout is the maximum time until a client is notified that the log has changed.
const truncatedTimeout = 10 * time.Second

// The consumers of the edge are deleted repeatedly while sessions are written: the feed and the reads of history resume where they were.
func TestConsumersDeletedWhileRead(t *testing.T) {
	server := natstest.StartProcess(t)
	js := server.JetStream(t)
	rec := startWriters(t, server.URL, 10, 20*time.Millisecond)
	edge := startEdge(t, server.URL)
	pages := rec.startReaders(t, edge.addr, 20, nil)
	pages.awaitAll(t)
	for range 10 {
		deleted := 0
		natstest.Eventually(t, "a consumer to delete", func(ctx context.Context) error {
			stream, err := js.Stream(ctx, chunkStream)
			if err != nil {
				return err
			}
			for name := range stream.ConsumerNames(ctx).Name() {
				err := stream.DeleteConsumer(ctx, name)
				if err == nil {
					deleted++
				} else if !errors.Is(err, jetstream.ErrConsumerNotFound) { // its owner has deleted it
					return err
				}
			}
			if deleted == 0 {
				return errors.New("no consumer")
			}
			return nil
		})
		pages.awaitAll(t)
	}
	pages.checkAll(t)
}

// A session is purged while its readers are at its end. If no projector has saved it, the next run numbers from 1: the readers get a
// truncated event and then all of its records. If its end is saved, the next run continues the ordinals, and the readers have lost
// nothing.
func TestSessionPurgedWhileRead(t *testing.T) {
	for _, saved := range []bool{false, true} {
		t.Run(fmt.Sprintf("saved=%t", saved), func(t *testing.T) {
			var roles []string
			truncations := 1
			if saved {
				roles, truncations = []string{"projector"}, 0
			}
			w := newStreamRecreated(t, roles...)
			run := w.begin(t)
			at := w.emit(t, run, 20)
			if err := run.Close(); err != nil {
				t.Fatal(err)
			}
			page := w.open(t, w.edge, "")
			page.await(t, `"n19"`)
			s := chunk.RootSession("default", "s")
			if saved {
				natstest.Eventually(t, "the saved end of the session", func(ctx context.Context) error {
					pos, _, _, err := w.Reader.StoredPosition(ctx, s)
					if err == nil && pos.Seq < at {
						err = fmt.Errorf("saved up to sequence %d, want %d", pos.Seq, at)
					}
					return err
				})
			}
			subject, err := subjects.Layout{}.Subject(s)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.stream(t).Purge(t.Context(), jetstream.WithPurgeSubject(subject)); err != nil {
				t.Fatal(err)
			}
			again := w.begin(t)
			if !saved {
				page.await(t, `"type":"truncated"`, `"reason":"expired"`)
			}
			w.emit(t, again, 3)
			if err := again.End(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if !saved {
				page.await(t, `"n2"`)
			}
			page.await(t, `"type":"end"`)
			page.checkTruncated(t, truncations)
		})
	}
}

// The log is purged up to a sequence. A client that has the purged records misses nothing, nor does a client of an edge that has them in memory; a client of
// another edge gets a truncated event.
func TestLogPurgedWhileRead(t *testing.T) {
	w := newStreamRecreated(t, "projector")
	first := w.begin(t)
	at := w.emit(t, first, 30)
	if err := first.End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	run := w.begin(t)
	w.emit(t, run, 10)
	live := w.open(t, w.edge, "")
	live.awaitEmitted(t, 0, 30)
	live.awaitEmitted(t, 0, 10)

	if err := w.stream(t).Purge(t.Context(), jetstream.WithPurgeSequence(uint64(at-5))); err != nil {
		t.Fatal(err)
	}
	late := w.open(t, w.edge, fmt.Sprint(at-20)) // after n9
	late.awaitEmitted(t, 10, 30)
	late.awaitEmitted(t, 0, 10)
	other := startEdge(t, w.url)
	began := time.Now()
	later := w.open(t, other, fmt.Sprint(at-20))
	later.await(t, `"type":"truncated"`, `"reason":"expired"`)
	t.Logf("truncated after %s", time.Since(began).Round(time.Millisecond))
	later.awaitEmitted(t, 0, 10)
	if err := run.EmitBody(t.Context(), chunk.Custom{EventName: "more"}); err != nil {
		t.Fatal(err)
	}
	if err := run.End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, page := range []*watcher{live, late, later} {
		page.await(t, `"more"`)
		page.await(t, `"type":"end"`)
	}
	later.checkTruncated(t, 1)
	if live.truncated+late.truncated > 0 {
		t.Error("a client with all records got a truncated event")
	}
}

// The stream is deleted and recreated while a reader follows it, with fewer records than the reader has received. Depending on whether the session already
// existed again when the edge detected this, the reader gets the reason recreated, or it is disconnected and gets the reason future when it reconnects.
func TestStreamRecreatedWhileRead(t *testing.T) {
	w := newStreamRecreated(t, "projector")
	run := w.begin(t)
	w.emit(t, run, 40)
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	page := w.open(t, w.edge, "")
	page.await(t, `"n39"`)
	if err := w.JS.DeleteStream(t.Context(), chunkStream); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	streamtest.Ensure(t, w.JS, topology.Config{})
	again := w.begin(t)
	w.emit(t, again, 3)
	if event := page.await(t, `"type":"truncated"`); !strings.Contains(event, `"recreated"`) && !strings.Contains(event, `"future"`) {
		t.Errorf("truncated event %s, want the reason recreated or future", event)
	}
	t.Logf("truncated after %s", time.Since(began).Round(time.Millisecond))
	if err := again.EmitBody(t.Context(), chunk.Custom{EventName: "more"}); err != nil {
		t.Fatal(err)
	}
	if err := again.End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	page.await(t, `"n2"`)
	page.await(t, `"more"`)
	page.await(t, `"type":"end"`)
	page.checkTruncated(t, 1)
}

// streamRecreated is an edge and a projector with one session, which the test removes without notifying them.
type streamRecreated struct {
	*stack.Stack

	url      string
	producer *producers.Producer
	edge     *edgeProcess
}

func newStreamRecreated(t *testing.T, roles ...string) *streamRecreated {
	t.Helper()
	server := natstest.StartProcess(t)
	w := &streamRecreated{Stack: stack.Start(t, stack.Options{On: server}), url: server.URL}
	w.producer = w.NewWriter(producers.Config{})
	for _, role := range roles {
		startRole(t, append(os.Environ(), "TAILRACE_NATS_URL="+server.URL), role)
	}
	w.edge = startEdge(t, server.URL)
	return w
}

func (w *streamRecreated) stream(t *testing.T) jetstream.Stream {
	t.Helper()
	stream, err := w.JS.Stream(t.Context(), chunkStream)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func (w *streamRecreated) begin(t *testing.T) *producers.Run {
	t.Helper()
	run, err := w.producer.Start(t.Context(), chunk.RootSession("default", "s"), chunk.RunStarted{Mode: "execute"}, producers.AgentType("recreated"))
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// emit stores n0, n1 and so on, and returns the sequence of the last.
func (w *streamRecreated) emit(t *testing.T, run *producers.Run, n int) chunk.Seq {
	t.Helper()
	for i := range n {
		if err := run.EmitBody(t.Context(), chunk.Custom{EventName: fmt.Sprintf("n%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	pos, err := run.Flush(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pos.Seq
}

// watcher is a client whose events the test waits for in order.
type watcher struct {
	events    chan sseEvent
	truncated int // number of truncated events
}

// open starts a client that resumes after lastID, until the test ends.
func (w *streamRecreated) open(t *testing.T, edge *edgeProcess, lastID string) *watcher {
	t.Helper()
	page := &watcher{events: make(chan sseEvent, 1000)}
	f := &follower{addr: edge.addr, root: chunk.RootSession("default", "s"), lastID: lastID}
	f.onEvent = func(e sseEvent) { page.events <- e }
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

// awaitEmitted waits for the records that emit has stored.
func (p *watcher) awaitEmitted(t *testing.T, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		p.await(t, fmt.Sprintf(`"n%d"`, n))
	}
}

func (p *watcher) checkTruncated(t *testing.T, want int) {
	t.Helper()
	if p.truncated != want {
		t.Errorf("%d truncated events, want %d", p.truncated, want)
	}
}

// await waits for an event that contains all the words.
func (p *watcher) await(t *testing.T, words ...string) string {
	t.Helper()
	limit := time.NewTimer(truncatedTimeout)
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
			t.Fatalf("no event with %v within %s; other events:\n%s", words, truncatedTimeout, strings.Join(passed, "\n"))
			return ""
		}
	}
}

//go:build e2e

package clients

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
)

// writeTree writes a run with a sub-agent.
func (w *env) writeTree(id string, r *rand.Rand, chunks int) {
	w.t.Helper()
	run := w.start(id)
	w.emit(run, chunk.StepStart{})
	child, err := run.Child(w.t.Context(), chunk.SubagentStart{SubAgentType: "writer", SubSessionID: id + "_child", CallID: "c1"}, chunk.RunStarted{Mode: "execute"})
	w.must(err)
	for i := range chunks {
		to := run
		if r.IntN(3) == 0 {
			to = child
		}
		w.emit(to, randomBody(r, i))
		if r.IntN(40) == 0 {
			w.must(run.Pause(w.t.Context(), "wait"))
			w.must(run.Activate(w.t.Context()))
		}
	}
	w.must(run.EndChild(w.t.Context(), child, chunk.Value(`"done"`)))
	w.end(run)
}

// checkTree compares the events with the log of a tree: the same chunks, byte for byte after a JSON parse, once and in order.
func (w *env) checkTree(id string, events []event) {
	w.t.Helper()
	var after chunk.Seq
	if events[0].Type == "snapshot" {
		var snapshot struct{ StreamSequence chunk.Seq }
		w.must(unmarshal(events[0].Snapshot, &snapshot))
		after = snapshot.StreamSequence
	}
	var want []string
	for rec, err := range w.Log.Replay(w.t.Context(), chunk.Range{Session: session(id), Tree: true}) {
		w.must(err)
		if rec.Seq <= after {
			continue
		}
		if rec.Type.Control() && rec.Type != chunk.TypeRunStarted {
			if rec.Session.IsRoot() {
				want = append(want, fmt.Sprintf("%s %s", rec.Cursor(), map[chunk.Type]string{
					chunk.TypeStreamEnd: "end", chunk.TypeStreamPaused: "status", chunk.TypeStreamActive: "status",
				}[rec.Type]))
			}
			continue
		}
		want = append(want, fmt.Sprintf("%s chunk %s", rec.Cursor(), rec.Data))
	}
	var got []string
	for _, e := range events {
		switch e.Type {
		case "snapshot", "return":
		case "chunk":
			got = append(got, fmt.Sprintf("%s chunk %s", e.ID, bytes.TrimSpace(e.Chunk)))
		default:
			got = append(got, e.ID+" "+e.Type)
		}
	}
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			w.t.Fatalf("%s: event %d of %d, want %d:\n got %.300q\nwant %.300q", id, i, len(got), len(want), at(got, i), at(want, i))
		}
	}
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "nothing"
}

// TestFollowAcrossCuts follows sessions while they are written, through a proxy that cuts every connection at a random byte, to one of two edges: every event
// arrives once and in order.
func TestFollowAcrossCuts(t *testing.T) {
	b, w, r := newClient(t), newEnv(t), seedtest.Rand(t)
	edges := []string{w.edge(nil, nil), w.edge(nil, nil)}
	const sessions = 6
	var writing sync.WaitGroup
	defer writing.Wait()
	var followers []*node
	var proxies []*cutter
	for i := range sessions {
		cursor, limit := "start", 4_000
		if i%2 == 1 {
			cursor, limit = "snapshot", 100_000 // a snapshot is one response
		}
		proxy := newCutter(t, edges, rand.New(rand.NewPCG(r.Uint64(), uint64(i))), limit)
		proxies = append(proxies, proxy)
		followers = append(followers, b.run(t, "follow.mjs", map[string]any{
			"url": proxy.url, "session": fmt.Sprintf("s%d", i), "cursor": cursor, "waitForSession": true,
		}))
		random := rand.New(rand.NewPCG(r.Uint64(), uint64(i)))
		writing.Go(func() { w.writeTree(fmt.Sprintf("s%d", i), random, 1500) })
	}
	cuts := 0
	for i, f := range followers {
		events := f.until("the end of the run", func(e event) bool { return e.Type == "return" || e.Type == "throw" })
		if last := events[len(events)-1]; last.Type != "return" {
			t.Fatalf("%+v", last)
		}
		w.checkTree(fmt.Sprintf("s%d", i), events)
		cuts += proxies[i].count()
	}
	t.Logf("%d cuts", cuts)
	if cuts < 100 {
		t.Errorf("%d cuts of %d followers, want more", cuts, sessions)
	}
}

// TestFollowResumesByCursor continues after the last event of another process, also behind the end of a run: then nothing follows.
func TestFollowResumesByCursor(t *testing.T) {
	b, w, r := newClient(t), newEnv(t), seedtest.Rand(t)
	edges := []string{w.edge(nil, nil), w.edge(nil, nil)}
	w.writeTree("s", r, 200)
	var all []event
	cursor := "start"
	for i := 0; ; i++ {
		f := b.run(t, "follow.mjs", map[string]any{"url": edges[i%2], "session": "s", "cursor": cursor, "stopAfter": 1 + r.IntN(60)})
		events := f.until("its return", func(e event) bool { return e.Type == "return" || e.Type == "throw" })
		if last := events[len(events)-1]; last.Type == "throw" {
			t.Fatalf("%+v", last)
		}
		events = events[:len(events)-1]
		if len(events) == 0 {
			break
		}
		all = append(all, events...)
		cursor = events[len(events)-1].ID
	}
	w.checkTree("s", all)
}

// TestSnapshotThenTail loads a page in the middle of an answer: the messages of the snapshot and the events after it are the whole conversation.
func TestSnapshotThenTail(t *testing.T) {
	b, w := newClient(t), newEnv(t)
	edge := w.edge(nil, nil)
	first := w.start("s")
	w.emit(first, chunk.TextDelta{Delta: "first answer"})
	w.end(first)
	second := w.start("s")
	w.emit(second, chunk.TextDelta{Delta: "second "})
	_, err := second.Flush(t.Context())
	w.must(err)
	f := b.run(t, "follow.mjs", map[string]any{"url": edge, "session": "s"})
	events := f.until("the piece that was written before", func(e event) bool { return bytes.Contains(e.Chunk, []byte(`"second "`)) })
	if e := events[0]; e.Type != "snapshot" || !bytes.Contains(e.Snapshot, []byte("first answer")) || bytes.Contains(e.Snapshot, []byte("second ")) {
		t.Errorf("the first event is %+v, want the snapshot with the first answer only", e)
	}
	w.emit(second, chunk.TextDelta{Delta: "answer"})
	w.end(second)
	events = f.until("the end", func(e event) bool { return e.Type == "return" })
	if n := len(events); n != 3 || events[1].Type != "end" {
		t.Errorf("%+v, want a delta, the end and the return", events)
	}
}

// TestTruncated removes chunks that the follower has shown: it reports that, loads the snapshot, and continues with the remaining ones.
func TestTruncated(t *testing.T) {
	b, w := newClient(t), newEnv(t)
	edge := w.edge(nil, nil)
	run := w.start("s")
	w.emit(run, chunk.StepStart{}, chunk.TextDelta{Delta: "kept "})
	run.SetStep(2)
	w.emit(run, chunk.StepStart{}, chunk.TextDelta{Delta: "removed"})
	_, err := run.Flush(t.Context())
	w.must(err)
	f := b.run(t, "follow.mjs", map[string]any{"url": edge, "session": "s", "cursor": "start"})
	f.until("the chunk to remove", func(e event) bool { return bytes.Contains(e.Chunk, []byte("removed")) })
	removed, err := run.CleanupToStep(t.Context(), 1, 0)
	w.must(err)
	if removed != 2 {
		t.Fatalf("%d chunks removed, want 2", removed)
	}
	events := f.until("the snapshot", func(e event) bool { return e.Type == "snapshot" })
	w.emit(run, chunk.TextDelta{Delta: "again"})
	w.end(run)
	events = append(events, f.until("the end", func(e event) bool { return e.Type == "return" || e.Type == "throw" })...)
	var types []string
	var text string
	for _, e := range events {
		types = append(types, e.Type)
		var c struct{ Delta string }
		if e.Type == "snapshot" {
			text = ""
		}
		if e.Chunk != nil {
			w.must(unmarshal(e.Chunk, &c))
			text += c.Delta
		}
	}
	if text != "kept again" || types[0] != "truncated" {
		t.Errorf("the text after the snapshot is %q, want what was not removed; events %v", text, types)
	}
}

// TestUnknownSession distinguishes a session that does not exist from one that is not written yet.
func TestUnknownSession(t *testing.T) {
	b, w := newClient(t), newEnv(t)
	edge := w.edge(nil, nil)
	f := b.run(t, "follow.mjs", map[string]any{"url": edge, "session": "none"})
	events := f.until("its end", func(e event) bool { return e.Type == "throw" })
	if e := events[0]; e.Code != "404 STREAM_NOT_FOUND" || e.Retries != 0 {
		t.Errorf("%+v, want 404 without a retry", e)
	}
	f = b.run(t, "follow.mjs", map[string]any{"url": edge, "session": "none", "cursor": "nonsense"})
	events = f.until("its end", func(e event) bool { return e.Type == "throw" })
	if e := events[0]; e.Code != "400 BAD_CURSOR" {
		t.Errorf("%+v, want 400", e)
	}
}

// TestLostCursor follows from a cursor that another session has: the follower says that it is lost, and loads the snapshot.
func TestLostCursor(t *testing.T) {
	b, w := newClient(t), newEnv(t)
	edge := w.edge(nil, nil)
	run := w.start("s")
	w.emit(run, chunk.TextDelta{Delta: "text"})
	w.end(run)
	f := b.run(t, "follow.mjs", map[string]any{"url": edge, "session": "s", "cursor": "999999"})
	events := f.until("its end", func(e event) bool { return e.Type == "return" || e.Type == "throw" })
	if len(events) != 3 || events[0].Type != "truncated" || events[0].Reason == "" || events[1].Type != "snapshot" || events[2].Type != "return" {
		t.Errorf("%+v, want truncated with a reason, the snapshot and the return", events)
	}
}

package projector_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
)

// events implements projector.Observer.
type events struct{ applied, saved, memory, conflicts atomic.Int64 }

func (e *events) Applied(chunk.Type) { e.applied.Add(1) }
func (e *events) Conflict()          { e.conflicts.Add(1) }
func (e *events) Saved(memory int, _ time.Duration) {
	e.saved.Add(1)
	e.memory.Add(int64(memory))
}

// TestObserver compares what an Observer receives with the Stats of its Runner, with one conflict.
func TestObserver(t *testing.T) {
	log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
	var got events
	r, stop := start(t, q, store, log, projector.Config{SaveAfter: time.Millisecond, Observe: &got})
	q.put(log.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}))
	q.drained(t)
	next := log.Append(t, s1, 1, chunk.TextDelta{Delta: "a"})
	_, revision, err := store.Load(t.Context(), s1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Save(t.Context(), storetest.Fold(t, log, s1), revision); err != nil {
		t.Fatal(err)
	}
	q.put(next, log.Append(t, s1, 1, chunk.TextDelta{Delta: "b"}))
	q.drained(t)
	stop()
	stats := r.Stats()
	if stats.Conflicts != 1 || uint64(got.conflicts.Load()) != stats.Conflicts || uint64(got.saved.Load()) != stats.Saved {
		t.Errorf("%d saves and %d conflicts observed, want those of %+v and 1 conflict", got.saved.Load(), got.conflicts.Load(), stats)
	}
	// The run, "a" and "b", and "b" again onto the head that the test saved.
	if n := got.applied.Load(); n != 4 {
		t.Errorf("%d records applied, want 4", n)
	}
	if got.memory.Load() <= 0 {
		t.Errorf("%d bytes saved, want more than 0", got.memory.Load())
	}
}

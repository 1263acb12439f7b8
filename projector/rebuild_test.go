package projector_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/projector/storetest"
)

// rebuilt rebuilds s1 and expects an outcome.
func rebuilt(t *testing.T, store projector.Store, log projector.Log, want projector.Outcome) {
	t.Helper()
	r, err := projector.Rebuild(t.Context(), store, log, s1)
	if err != nil || r.Outcome != want || (r.Why != "") != (want == projector.Kept) {
		t.Fatalf("%+v, %v; want %s", r, err, want)
	}
}

func rebuiltTo(t *testing.T, from, to projector.Store, log projector.Log, want projector.Outcome) {
	t.Helper()
	r, err := projector.RebuildTo(t.Context(), from, to, log, s1)
	if err != nil || r.Outcome != want {
		t.Fatalf("%+v, %v; want %s", r, err, want)
	}
}

// What is wrong becomes right, what is right is left alone.
func TestRebuild(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	a := storetest.NewAuthor(log, s1, 11)
	a.Write(t, 300)
	rebuilt(t, store, log, projector.Replaced)
	verified(t, store, log, projector.Same)
	writes := store.Writes()
	rebuilt(t, store, log, projector.Unchanged)
	if store.Writes() != writes {
		t.Errorf("%d writes for nothing", store.Writes()-writes)
	}
	for name, harm := range map[string]func(){
		"a head of nothing":      func() { store.Spoil(s1, "no head") },
		"a head of another log":  func() { stored(t, store, anotherLog(t), s1) },
		"messages are gone":      func() { store.Tear(s1) },
		"everything is gone":     func() { store.Forget(s1) },
		"a head that is behind":  func() { a.Write(t, 30) },
		"a head of version 1":    func() { store.Spoil(s1, olderHead(t, storetest.Fold(t, log, s1))) },
		"records were taken out": func() { a.Write(t, 100); log.Sweep(s1) },
	} {
		harm()
		rebuilt(t, store, log, projector.Replaced)
		storetest.Equal(t, name, storetest.Stored(t, store, s1), storetest.Fold(t, log, s1))
	}
}

// anotherLog has fewer records of s1, and others.
func anotherLog(t *testing.T) *storetest.Log {
	t.Helper()
	log := storetest.NewLog()
	storetest.NewAuthor(log, s1, 99).Write(t, 20)
	return log
}

// The log has let go of the beginning: the snapshot knows more than a fold would,
// and stays; it is brought to another store as it is, and the rest on top.
func TestRebuildWhatHasExpired(t *testing.T) {
	log, store, other := storetest.NewLog(), storetest.NewMemory(), storetest.NewMemory()
	a := storetest.NewAuthor(log, s1, 12)
	a.Crashes = false // no mark that reaches back to what expired
	a.Write(t, 200)
	was := storetest.Text(stored(t, store, log, s1))
	a.Write(t, 20)
	want := storetest.Text(storetest.Fold(t, log, s1))
	log.Expire(s1, 50)
	rebuilt(t, store, log, projector.Kept)
	if got := storetest.Text(storetest.Stored(t, store, s1)); got != was {
		t.Errorf("the snapshot changed:\n%s\n%s", was, got)
	}
	rebuiltTo(t, store, other, log, projector.Copied)
	if got := storetest.Text(storetest.Stored(t, other, s1)); got != want {
		t.Errorf("copied:\n got %s\nwant %s", got, want)
	}
	rebuiltTo(t, store, other, log, projector.Unchanged)
	log.Expire(s1, 1000)
	rebuilt(t, store, log, projector.Kept)
	rebuiltTo(t, store, other, log, projector.Unchanged)

	// What came between two times has expired: only the first store has it.
	a.Write(t, 50)
	stored2(t, store, log)
	records := log.Records(s1)
	log.Expire(s1, records[20].Ordinal)
	rebuiltTo(t, store, other, log, projector.Copied)
	storetest.Equal(t, "the gap", storetest.Stored(t, other, s1), storetest.Stored(t, store, s1))
}

// stored2 brings the stored snapshot to the end of the log.
func stored2(t *testing.T, store projector.Store, log projector.Log) {
	t.Helper()
	snap, err := projector.NewReader(store, log).Snapshot(t.Context(), s1)
	if err != nil {
		t.Fatal(err)
	}
	_, revision, err := store.Load(t.Context(), s1)
	if err != nil && !errors.Is(err, projector.ErrNoSnapshot) {
		t.Fatal(err)
	}
	if _, err := store.Save(t.Context(), snap, revision); err != nil {
		t.Fatal(err)
	}
}

// A session that was deleted while the log still has it stays deleted, here and
// in the other store.
func TestRebuildWhatWasDeleted(t *testing.T) {
	log, store, other := storetest.NewLog(), storetest.NewMemory(), storetest.NewMemory()
	records := storetest.NewAuthor(log, s1, 15).Write(t, 60)
	rebuiltTo(t, store, other, log, projector.Replaced)
	grave := fold.Grave(s1, records[len(records)-1].Position(), 1)
	if _, err := store.Save(t.Context(), grave, 0); err != nil {
		t.Fatal(err)
	}
	rebuilt(t, store, log, projector.Kept)
	verified(t, store, log, projector.Unprovable)
	rebuiltTo(t, store, other, log, projector.Copied)
	if head, _, err := other.Load(t.Context(), s1); err != nil || !head.Deleted() {
		t.Errorf("head %+v, %v", head, err)
	}
	rebuiltTo(t, store, other, log, projector.Unchanged)
}

func TestRebuildNothing(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	if _, err := projector.Rebuild(t.Context(), store, log, s1); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("err = %v, want ErrUnknownSession", err)
	}
	if _, err := projector.RebuildTo(t.Context(), store, storetest.NewMemory(), log, s1); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("err = %v, want ErrUnknownSession", err)
	}
	// What nobody has stored and the log has in part is saved as it is.
	records := storetest.NewAuthor(log, s1, 13).Write(t, 60)
	log.Expire(s1, records[10].Ordinal)
	rebuilt(t, store, log, projector.Replaced)
	verified(t, store, log, projector.Unprovable)
}

// What was lost already when the session was projected is no reason to keep what
// is stored; what is lost since is one.
func TestRebuildWhatHasAGap(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	a := storetest.NewAuthor(log, s1, 16)
	a.Crashes = false
	records := a.Write(t, 100)
	log.Lose(s1, records[40].Ordinal)
	stored2(t, store, log)
	rebuilt(t, store, log, projector.Unchanged)
	store.Tear(s1)
	rebuilt(t, store, log, projector.Replaced)
	log.Lose(s1, records[60].Ordinal)
	rebuilt(t, store, log, projector.Kept)
}

// Rebuild says which records it could not fold, so that whoever has letters of
// them knows.
func TestRebuildTellsWhatItPassed(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	log.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	poison := log.AppendRaw(s1, chunk.TypeTextDelta, []byte(`{}`))
	log.Append(t, s1, 1, chunk.TextDelta{Delta: "good"})
	r, err := projector.Rebuild(t.Context(), store, log, s1)
	if err != nil || !slices.Equal(r.Passed, []chunk.Position{poison.Position()}) {
		t.Errorf("passed %v, %v; want %v", r.Passed, err, poison.Position())
	}
}

// A Runner is at work on the session all the time: both end with the same, and
// nothing is lost between them.
func TestRebuildBesideARunner(t *testing.T) {
	log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
	_, _ = start(t, q, store, log, projector.Config{SaveAfter: time.Millisecond, SaveRecords: 3})
	a := storetest.NewAuthor(log, s1, 14)
	conflicts := 0
	for range 60 {
		q.put(a.Write(t, 9)...)
		if _, err := projector.Rebuild(t.Context(), store, log, s1); errors.Is(err, projector.ErrConflict) {
			conflicts++
		} else if err != nil {
			t.Fatal(err)
		}
		log.Sweep(s1)
	}
	q.drained(t)
	if _, err := projector.Rebuild(t.Context(), store, log, s1); err != nil {
		t.Fatal(err)
	}
	verified(t, store, log, projector.Same)
	t.Logf("%d of 60 gave up after conflicts", conflicts)
}

package projector_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/projector/fold"
)

// expectRebuild rebuilds s1 and checks the outcome.
func expectRebuild(t *testing.T, store projector.Store, log projector.Log, want projector.Outcome) {
	t.Helper()
	r, err := projector.Rebuild(t.Context(), store, log, s1)
	if err != nil || r.Outcome != want || (r.Reason != "") != (want == projector.Kept) {
		t.Fatalf("%+v, %v; want %s", r, err, want)
	}
}

func expectRebuildTo(t *testing.T, from, to projector.Store, log projector.Log, want projector.Outcome) {
	t.Helper()
	r, err := projector.RebuildTo(t.Context(), from, to, log, s1)
	if err != nil || r.Outcome != want {
		t.Fatalf("%+v, %v; want %s", r, err, want)
	}
}

// TestRebuild checks that Rebuild repairs wrong snapshots and does not write correct ones.
func TestRebuild(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	a := storetest.NewSessionGenerator(log, s1, 11)
	a.Write(t, 300)
	expectRebuild(t, store, log, projector.Replaced)
	expectFinding(t, store, log, projector.Same)
	writes := store.Writes()
	expectRebuild(t, store, log, projector.Unchanged)
	if store.Writes() != writes {
		t.Errorf("%d unnecessary writes", store.Writes()-writes)
	}
	for name, corrupt := range map[string]func(){
		"a corrupt head":        func() { store.CorruptHead(s1, "no head") },
		"a head of another log": func() { stored(t, store, anotherLog(t), s1) },
		"messages are missing":  func() { store.DropMessages(s1) },
		"session is missing":    func() { store.DropSession(s1) },
		"an old head":           func() { a.Write(t, 30) },
		"records were removed":  func() { a.Write(t, 100); log.DeleteRemoved(s1) },
	} {
		corrupt()
		expectRebuild(t, store, log, projector.Replaced)
		storetest.Equal(t, name, storetest.Stored(t, store, s1), storetest.Fold(t, log, s1))
	}
}

// anotherLog returns a log with fewer and different records of s1.
func anotherLog(t *testing.T) *storetest.Log {
	t.Helper()
	log := storetest.NewLog()
	storetest.NewSessionGenerator(log, s1, 99).Write(t, 20)
	return log
}

// TestRebuildExpiredLog checks that a snapshot stays if the start of the log has expired, and that RebuildTo copies it and
// folds the rest of the log onto it.
func TestRebuildExpiredLog(t *testing.T) {
	log, store, other := storetest.NewLog(), storetest.NewMemory(), storetest.NewMemory()
	a := storetest.NewSessionGenerator(log, s1, 12)
	a.WithCleanups = false // so that no truncated record removes expired records
	a.Write(t, 200)
	was := storetest.Text(stored(t, store, log, s1))
	a.Write(t, 20)
	want := storetest.Text(storetest.Fold(t, log, s1))
	log.Expire(s1, 50)
	expectRebuild(t, store, log, projector.Kept)
	if got := storetest.Text(storetest.Stored(t, store, s1)); got != was {
		t.Errorf("the snapshot changed:\n%s\n%s", was, got)
	}
	expectRebuildTo(t, store, other, log, projector.Copied)
	if got := storetest.Text(storetest.Stored(t, other, s1)); got != want {
		t.Errorf("copied:\n got %s\nwant %s", got, want)
	}
	expectRebuildTo(t, store, other, log, projector.Unchanged)
	log.Expire(s1, 1000)
	expectRebuild(t, store, log, projector.Kept)
	expectRebuildTo(t, store, other, log, projector.Unchanged)

	// Some records between two calls have expired: only the first store has them.
	a.Write(t, 50)
	catchUpStored(t, store, log)
	records := log.Records(s1)
	log.Expire(s1, records[20].Ordinal)
	expectRebuildTo(t, store, other, log, projector.Copied)
	storetest.Equal(t, "the gap", storetest.Stored(t, other, s1), storetest.Stored(t, store, s1))
}

// catchUpStored brings the stored snapshot to the end of the log.
func catchUpStored(t *testing.T, store projector.Store, log projector.Log) {
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

// TestRebuildDeletedSession checks that a deleted session stays deleted in both stores while its log still exists.
func TestRebuildDeletedSession(t *testing.T) {
	log, store, other := storetest.NewLog(), storetest.NewMemory(), storetest.NewMemory()
	records := storetest.NewSessionGenerator(log, s1, 15).Write(t, 60)
	expectRebuildTo(t, store, other, log, projector.Replaced)
	tombstone := fold.NewTombstone(s1, records[len(records)-1].Position(), 1)
	if _, err := store.Save(t.Context(), tombstone, 0); err != nil {
		t.Fatal(err)
	}
	expectRebuild(t, store, log, projector.Kept)
	expectFinding(t, store, log, projector.Unprovable)
	expectRebuildTo(t, store, other, log, projector.Copied)
	if head, _, err := other.Load(t.Context(), s1); err != nil || !head.Deleted() {
		t.Errorf("head %+v, %v", head, err)
	}
	expectRebuildTo(t, store, other, log, projector.Unchanged)
}

func TestRebuildNothing(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	if _, err := projector.Rebuild(t.Context(), store, log, s1); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("err = %v, want ErrUnknownSession", err)
	}
	if _, err := projector.RebuildTo(t.Context(), store, storetest.NewMemory(), log, s1); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("err = %v, want ErrUnknownSession", err)
	}
	// A session that is not stored and has lost the start of its log is saved as it is.
	records := storetest.NewSessionGenerator(log, s1, 13).Write(t, 60)
	log.Expire(s1, records[10].Ordinal)
	expectRebuild(t, store, log, projector.Replaced)
	expectFinding(t, store, log, projector.Unprovable)
}

// TestRebuildWithGap checks that records which were lost before the save do not keep the stored snapshot, and records lost
// since do.
func TestRebuildWithGap(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	a := storetest.NewSessionGenerator(log, s1, 16)
	a.WithCleanups = false
	records := a.Write(t, 100)
	log.DropRecord(s1, records[40].Ordinal)
	catchUpStored(t, store, log)
	expectRebuild(t, store, log, projector.Unchanged)
	store.DropMessages(s1)
	expectRebuild(t, store, log, projector.Replaced)
	log.DropRecord(s1, records[60].Ordinal)
	expectRebuild(t, store, log, projector.Kept)
}

// TestRebuildReportsSkipped checks that Rebuild reports the records that it could not fold, so that their dead letters can be
// found.
func TestRebuildReportsSkipped(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	log.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	poison := log.AppendRaw(s1, chunk.TypeTextDelta, []byte(`{}`))
	log.Append(t, s1, 1, chunk.TextDelta{Delta: "good"})
	r, err := projector.Rebuild(t.Context(), store, log, s1)
	if err != nil || !slices.Equal(r.Skipped, []chunk.Position{poison.Position()}) {
		t.Errorf("skipped %v, %v; want %v", r.Skipped, err, poison.Position())
	}
}

// TestRebuildDuringRunner rebuilds a session while a Runner processes it: both reach the same snapshot, and no record is lost.
func TestRebuildDuringRunner(t *testing.T) {
	log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
	_, _ = start(t, q, store, log, projector.Config{SaveAfter: time.Millisecond, SaveRecords: 3})
	a := storetest.NewSessionGenerator(log, s1, 14)
	conflicts := 0
	for range 60 {
		q.put(a.Write(t, 9)...)
		if _, err := projector.Rebuild(t.Context(), store, log, s1); errors.Is(err, projector.ErrConflict) {
			conflicts++
		} else if err != nil {
			t.Fatal(err)
		}
		log.DeleteRemoved(s1)
	}
	q.drained(t)
	if _, err := projector.Rebuild(t.Context(), store, log, s1); err != nil {
		t.Fatal(err)
	}
	expectFinding(t, store, log, projector.Same)
	t.Logf("%d of 60 gave up after conflicts", conflicts)
}

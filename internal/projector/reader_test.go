package projector_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/projector/fold"
)

// TestReadWhileChunksArrive checks that every snapshot that is read while records arrive equals the fold of the log up to its
// position, wherever the Runner is.
func TestReadWhileChunksArrive(t *testing.T) {
	log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
	_, _ = start(t, q, store, log, projector.Config{SaveAfter: time.Millisecond, SaveRecords: 11})
	reader := projector.NewReader(store, log)
	a := storetest.NewSessionGenerator(log, s1, 7)
	a.WithCleanups = false // so that a prefix of the log does not change
	wrote := make(chan []chunk.Record, 1000)
	go func() {
		defer close(wrote)
		for range 80 {
			records := a.Write(t, 7)
			q.put(records...)
			wrote <- records
		}
	}()
	var seen []fold.Snapshot
	for range wrote {
		snap, err := reader.Snapshot(t.Context(), s1)
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, snap)
	}
	records := log.Records(s1)
	prefix := storetest.NewLog()
	n := 0
	for _, snap := range seen {
		for ; n < int(snap.Position.Ordinal); n++ {
			prefix.AppendRaw(s1, records[n].Type, records[n].Data)
		}
		want := storetest.Fold(t, prefix, s1)
		if want.Position != snap.Position {
			t.Fatalf("position %+v, want %+v", snap.Position, want.Position)
		}
		storetest.Equal(t, "a prefix", snap, want)
	}
}

// TestReadWithoutARunner reads a session from the log alone.
func TestReadWithoutARunner(t *testing.T) {
	log := storetest.NewLog()
	reader := projector.NewReader(storetest.NewMemory(), log)
	if _, err := reader.Snapshot(t.Context(), s1); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("err = %v, want ErrUnknownSession", err)
	}
	if pos, epoch, _, err := reader.StoredPosition(t.Context(), s1); err != nil || pos != (chunk.Position{}) || epoch != 0 {
		t.Errorf("head %+v %d %v, want zeros", pos, epoch, err)
	}
	records := storetest.NewSessionGenerator(log, s1, 8).Write(t, 200)
	snap, err := reader.Snapshot(t.Context(), s1)
	if err != nil || snap.Position != records[len(records)-1].Position() || !snap.HasAllMessages() {
		t.Errorf("position %+v, %v; want the last of %d", snap.Position, err, len(records))
	}
}

// stored saves the fold of the log.
func stored(t *testing.T, store projector.Store, log projector.Log, s chunk.Session) fold.Snapshot {
	t.Helper()
	snap := storetest.Fold(t, log, s)
	_, revision, err := store.Load(t.Context(), s)
	if err != nil && !errors.Is(err, projector.ErrNoSnapshot) {
		t.Fatal(err)
	}
	if _, err := store.Save(t.Context(), snap, revision); err != nil {
		t.Fatal(err)
	}
	return snap
}

// TestHeadAndTail reads a head and the rest of the log, split at any record, with cleanups after and across the split.
func TestHeadAndTail(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for seed := range uint64(60) {
		log, store := storetest.NewLog(), storetest.NewMemory()
		a := storetest.NewSessionGenerator(log, s1, seed)
		a.Write(t, 1+rng.IntN(120))
		head := stored(t, store, log, s1)
		a.Write(t, rng.IntN(120))
		if rng.IntN(2) == 0 {
			log.DeleteRemoved(s1)
		}
		reader := projector.NewReader(store, log)
		snap, err := reader.Snapshot(t.Context(), s1)
		if err != nil {
			t.Fatal(err)
		}
		storetest.Equal(t, "head and tail", snap, storetest.Fold(t, log, s1))
		if pos, epoch, _, err := reader.StoredPosition(t.Context(), s1); err != nil || pos != head.Position || epoch != head.Epoch {
			t.Errorf("head %+v %d %v, want %+v %d", pos, epoch, err, head.Position, head.Epoch)
		}
	}
}

// TestReadAfterTheLogExpired reads a stored session whose log has expired.
func TestReadAfterTheLogExpired(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	a := storetest.NewSessionGenerator(log, s1, 10)
	a.WithCleanups = false
	a.Write(t, 200)
	head := stored(t, store, log, s1)
	reader := projector.NewReader(store, log)
	read := func(what string) fold.Snapshot {
		t.Helper()
		snap, err := reader.Snapshot(t.Context(), s1)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return snap
	}
	log.Expire(s1, head.Position.Ordinal-50)
	storetest.Equal(t, "start of the log expired", read("partly"), head)
	log.Expire(s1, head.Position.Ordinal)
	storetest.Equal(t, "whole log expired", read("all"), head)

	// Records that were written and expired while no Runner was running are counted as lost.
	a.Write(t, 100)
	log.Expire(s1, head.Position.Ordinal+30)
	snap := read("beyond the head")
	last := log.Records(s1)[len(log.Records(s1))-1]
	if snap.Faults.Lost != head.Faults.Lost+30 || snap.Position != last.Position() {
		t.Errorf("faults %+v at %+v; want 30 lost, at %+v", snap.Faults, snap.Position, last.Position())
	}
}

// TestReadExpiredLogWithoutHead checks that without a head and the start of the log, the snapshot covers the available records
// and counts the lost ones.
func TestReadExpiredLogWithoutHead(t *testing.T) {
	log := storetest.NewLog()
	a := storetest.NewSessionGenerator(log, s1, 11)
	a.WithCleanups = false
	a.Write(t, 100)
	log.Expire(s1, 40)
	snap, err := projector.NewReader(storetest.NewMemory(), log).Snapshot(t.Context(), s1)
	if err != nil || snap.Faults.Lost != 40 || snap.Position != log.Records(s1)[59].Position() {
		t.Errorf("faults %+v, position %+v, %v; want 40 lost", snap.Faults, snap.Position, err)
	}
}

// TestTruncationBeyondTheLog checks that a truncated record that removes expired records is skipped with a fault, and that the
// removed records stay in the snapshot.
func TestTruncationBeyondTheLog(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	turn := func(run string) {
		log.Append(t, s1, 0, chunk.RunStarted{RunID: run, Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: run}}})
		log.Append(t, s1, 1, chunk.TextDelta{Delta: "one"})
		log.Append(t, s1, 2, chunk.TextDelta{Delta: "two"})
		log.Append(t, s1, 2, chunk.StreamEnd{StreamID: "s1"})
	}
	turn("r1")
	turn("r2")
	head := stored(t, store, log, s1)
	log.Expire(s1, 2)
	truncation, ok := log.AppendTruncation(t, s1, 1) // removes "two" from both turns
	if !ok {
		t.Fatal("no truncated record")
	}
	log.DeleteRemoved(s1)
	snap, err := projector.NewReader(store, log).Snapshot(t.Context(), s1)
	if err != nil {
		t.Fatal(err)
	}
	if snap.Position != truncation.Position() || snap.Faults.Skipped != 1 || snap.FinishedCount() != head.FinishedCount() {
		t.Errorf("position %+v, faults %+v, %d messages; want %+v, one skipped, %d", snap.Position, snap.Faults, snap.FinishedCount(), truncation.Position(), head.FinishedCount())
	}
}

// TestInconsistentHead checks that a head with missing messages is read again, and that the log replaces it after several
// attempts.
func TestInconsistentHead(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	storetest.NewSessionGenerator(log, s1, 12).Write(t, 300)
	want := stored(t, store, log, s1)
	reader := projector.NewReader(store, log)
	tries := 0
	store.Fault = func(step string) error {
		if step == "messages" {
			if tries++; tries < 3 {
				return fold.ErrInconsistent
			}
		}
		return nil
	}
	snap, err := reader.Snapshot(t.Context(), s1)
	if err != nil || tries != 3 {
		t.Fatalf("%d loads, %v", tries, err)
	}
	storetest.Equal(t, "after several loads", snap, want)
	store.DropMessages(s1)
	if snap, err = reader.Snapshot(t.Context(), s1); err != nil {
		t.Fatal(err)
	}
	storetest.Equal(t, "from the log", snap, want)
	log.Expire(s1, 100)
	if _, err = reader.Snapshot(t.Context(), s1); !errors.Is(err, fold.ErrInconsistent) {
		t.Errorf("err = %v, want ErrInconsistent: neither store nor log has it", err)
	}
	store.DropSession(s1)
	if snap, err = reader.Snapshot(t.Context(), s1); err != nil || snap.Faults.Lost != 100 {
		t.Errorf("bucket deleted: faults %+v, %v", snap.Faults, err)
	}
}

// TestUnexplainedGap checks that every reader counts the same number of missing records, from any position.
func TestUnexplainedGap(t *testing.T) {
	log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
	records := []chunk.Record{log.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})}
	for i := range 9 {
		records = append(records, log.Append(t, s1, 1, chunk.TextDelta{Delta: fmt.Sprint(i)}))
	}
	log.DropRecord(s1, 4)
	log.DropRecord(s1, 5)
	log.DropRecord(s1, 8)
	want, err := projector.NewReader(storetest.NewMemory(), log).Snapshot(t.Context(), s1)
	if err != nil || want.Faults.Lost != 3 || want.Position != records[9].Position() {
		t.Fatalf("faults %+v at %+v, %v; want 3 lost", want.Faults, want.Position, err)
	}
	_, _ = start(t, q, store, log, projector.Config{SaveAfter: time.Millisecond})
	q.put(records[9], records[0], records[6])
	q.drained(t)
	storetest.Equal(t, "delivered", storetest.Stored(t, store, s1), want)
}

// TestIdleSessionIsNotRead checks that a session is not replayed if its head is at the end of the log, and neither is an
// unknown session.
func TestIdleSessionIsNotRead(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	storetest.NewSessionGenerator(log, s1, 13).Write(t, 100)
	head := stored(t, store, log, s1)
	reader := projector.NewReader(store, log)
	before := log.ReplayCount()
	snap, err := reader.Snapshot(t.Context(), s1)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Equal(t, "idle", snap, head)
	if page, err := reader.MessagePage(t.Context(), s1, fold.PageQuery{Limit: 2}); err != nil || aisdk.Page(page, 0).StreamSequence != aisdk.Snapshot(snap, aisdk.SnapshotOptions{}).StreamSequence {
		t.Errorf("page: %v, or a wrong position", err)
	}
	if _, err := reader.Snapshot(t.Context(), chunk.RootSession("t", "unknown")); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("err = %v, want ErrUnknownSession", err)
	}
	if n := log.ReplayCount() - before; n != 0 {
		t.Errorf("the log was read %d times", n)
	}
}

// hookedLog is a Log that calls a function after it has returned the last record.
type hookedLog struct {
	*storetest.Log

	after func()
}

func (m hookedLog) Last(ctx context.Context, s chunk.Session) (chunk.Record, error) {
	rec, err := m.Log.Last(ctx, s)
	m.after()
	return rec, err
}

// hookedStore is a Store that loads heads only after the log has returned its last record.
type hookedStore struct {
	projector.Store

	until chan struct{}
}

func (s hookedStore) Load(ctx context.Context, session chunk.Session) (fold.Snapshot, projector.Revision, error) {
	<-s.until
	return s.Store.Load(ctx, session)
}

// TestHeadNewerThanTheEnd checks that a snapshot is complete if the log and the head advance between the request for the last
// record and the load of the head.
func TestHeadNewerThanTheEnd(t *testing.T) {
	for name, known := range map[string]bool{"a new session": false, "a known session": true} {
		t.Run(name, func(t *testing.T) {
			log, store := storetest.NewLog(), storetest.NewMemory()
			a := storetest.NewSessionGenerator(log, s1, 14)
			if known {
				a.Write(t, 50)
				stored(t, store, log, s1)
			}
			loaded := make(chan struct{})
			reader := projector.NewReader(hookedStore{store, loaded}, hookedLog{log, func() {
				a.Write(t, 50)
				stored(t, store, log, s1)
				a.Write(t, 3)
				close(loaded)
			}})
			snap, err := reader.Snapshot(t.Context(), s1)
			if err != nil {
				t.Fatal(err)
			}
			storetest.Equal(t, "complete", snap, storetest.Fold(t, log, s1))
		})
	}
}

// TestLastRecordOfRecreatedLog checks that a recreated log is replayed although it ends at the position of the head.
func TestLastRecordOfRecreatedLog(t *testing.T) {
	old, log, store := storetest.NewLog(), storetest.NewLog(), storetest.NewMemory()
	for range 2 {
		old.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	}
	stored(t, store, old, s1)
	log.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	last := log.Append(t, s1, 1, chunk.TextDelta{Delta: "other"})
	before := log.ReplayCount()
	if _, err := projector.NewReader(store, log).Snapshot(t.Context(), s1); err != nil || last.Seq != old.Tip() {
		t.Fatalf("ends at %d and %d, %v", last.Seq, old.Tip(), err)
	}
	if log.ReplayCount() == before {
		t.Error("the log was not read")
	}
}

// TestReadLimit checks that the records of the log, the stored head and the stored messages together count against the limit of a read.
func TestReadLimit(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	g := storetest.NewSessionGenerator(log, s1, 15)
	g.WithCleanups = false
	g.Write(t, 2000)
	head := stored(t, store, log, s1)
	size := len(head.AppendHead(nil))
	for _, m := range head.FinishedMessages()[:storetest.Trimmed(head).TrimmedCount()] { // the others are in the head
		size += len(m.Data)
	}
	for _, rec := range g.Write(t, 50) {
		size += len(rec.Data)
	}
	reader := projector.NewReader(store, log)
	if _, err := reader.Snapshot(projector.WithReadLimit(t.Context(), int64(size)), s1); err != nil {
		t.Errorf("limit of %d bytes: %v", size, err)
	}
	for _, limit := range []int64{0, int64(size) / 2, int64(size) - 1} {
		if _, err := reader.Snapshot(projector.WithReadLimit(t.Context(), limit), s1); !errors.Is(err, projector.ErrReadLimit) {
			t.Errorf("limit of %d of %d bytes: err = %v, want ErrReadLimit", limit, size, err)
		}
	}
}

package projector_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/projector/fold"
)

// TestSnapshotAt compares the state at every sequence with the fold of the log up to it, for any position of the stored head,
// and although later records removed earlier ones.
func TestSnapshotAt(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 4))
	for seed := range uint64(12) {
		log, store := storetest.NewLog(), storetest.NewMemory()
		a := storetest.NewSessionGenerator(log, s1, 100+seed)
		a.Write(t, 1+rng.IntN(60))
		stored(t, store, log, s1)
		a.Write(t, rng.IntN(60))
		reader := projector.NewReader(store, log)
		prefix := storetest.NewLog()
		for _, rec := range log.Records(s1) {
			prefix.AppendRaw(s1, rec.Type, rec.Data)
			snap, err := reader.SnapshotAt(t.Context(), s1, rec.Seq)
			if err != nil {
				t.Fatalf("seed %d at %d: %v", 100+seed, rec.Seq, err)
			}
			storetest.Equal(t, fmt.Sprintf("seed %d at %d", 100+seed, rec.Seq), snap, storetest.Fold(t, prefix, s1))
		}
	}
}

// TestSnapshotAtBetweenRecords checks that a sequence between two records of the session means the first of them.
func TestSnapshotAtBetweenRecords(t *testing.T) {
	log := storetest.NewLog()
	s2 := chunk.RootSession("t", "s2")
	var written []chunk.Record
	for range 3 {
		log.Append(t, s2, 1, chunk.TextDelta{Delta: "elsewhere"})
		written = append(written, log.Append(t, s1, 1, chunk.TextDelta{Delta: "here"}))
		log.Append(t, s2, 1, chunk.TextDelta{Delta: "elsewhere"})
	}
	store := storetest.NewMemory()
	reader := projector.NewReader(store, log)
	for range 2 {
		if _, err := reader.SnapshotAt(t.Context(), s1, written[0].Seq-1); !errors.Is(err, chunk.ErrUnknownSession) {
			t.Errorf("before its first record: %v, want ErrUnknownSession", err)
		}
		stored(t, store, log, s1)
	}
	for i, rec := range written {
		for _, seq := range []chunk.Seq{rec.Seq, rec.Seq + 1} {
			if snap, err := reader.SnapshotAt(t.Context(), s1, seq); err != nil || snap.Position != written[i].Position() {
				t.Errorf("at %d: %+v, %v; want %+v", seq, snap.Position, err, written[i].Position())
			}
		}
	}
}

// TestSnapshotAtExpiredLog checks that after the start of the log has expired, a sequence before the stored head is reported as
// truncated and a later one is served.
func TestSnapshotAtExpiredLog(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	a := storetest.NewSessionGenerator(log, s1, 31)
	a.WithCleanups = false
	a.Write(t, 100)
	head := stored(t, store, log, s1)
	later := a.Write(t, 50)
	want := storetest.Fold(t, log, s1)
	reader := projector.NewReader(store, log)
	log.Expire(s1, 40)
	var truncated *chunk.TruncatedError
	if _, err := reader.SnapshotAt(t.Context(), s1, head.Position.Seq-1); !errors.As(err, &truncated) || truncated.Reason != chunk.TruncatedExpired {
		t.Errorf("before the head: %v, want TruncatedError", err)
	}
	last := later[len(later)-1].Seq
	snap, err := reader.SnapshotAt(t.Context(), s1, last)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Equal(t, "after the head", snap, want)
	if snap, err = reader.SnapshotAt(t.Context(), s1, head.Position.Seq); err != nil {
		t.Fatal(err)
	}
	storetest.Equal(t, "at the head", snap, head)

	log.Expire(s1, later[len(later)-1].Ordinal)
	if snap, err = reader.SnapshotAt(t.Context(), s1, last); err != nil || snap.Position != head.Position {
		t.Errorf("whole log expired: %+v, %v; want the head", snap.Position, err)
	}
	if _, err = reader.SnapshotAt(t.Context(), s1, head.Position.Seq-1); !errors.As(err, &truncated) {
		t.Errorf("whole log expired, before the head: %v, want TruncatedError", err)
	}
}

// TestSnapshotAtAfterGap checks that an unexplained gap is skipped and counted, as Snapshot does.
func TestSnapshotAtAfterGap(t *testing.T) {
	log := storetest.NewLog()
	a := storetest.NewSessionGenerator(log, s1, 33)
	a.WithCleanups = false
	records := a.Write(t, 100)
	log.DropRecord(s1, 50)
	reader := projector.NewReader(storetest.NewMemory(), log)
	for _, n := range []int{48, 50, 70} {
		snap, err := reader.SnapshotAt(t.Context(), s1, records[n].Seq)
		if lost := int64(min(1, max(0, n-49))); err != nil || snap.Position != records[n].Position() || snap.Faults.Lost != lost {
			t.Errorf("at %d: %+v, faults %+v, %v; want %d lost", records[n].Seq, snap.Position, snap.Faults, err, lost)
		}
	}
	now, err := reader.Snapshot(t.Context(), s1)
	if err != nil {
		t.Fatal(err)
	}
	at, err := reader.SnapshotAt(t.Context(), s1, now.Position.Seq)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Equal(t, "at the end", at, now)
}

// TestDeletedSession checks that a deleted session is unknown, now and at any sequence, until it starts again.
func TestDeletedSession(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	checkpoints(t, log)
	last := log.Append(t, s1, 4, chunk.StreamFailed{Error: "deleted"})
	if _, err := store.Save(t.Context(), fold.NewTombstone(s1, last.Position(), last.Epoch), 0); err != nil {
		t.Fatal(err)
	}
	reader := projector.NewReader(store, log)
	for _, through := range []chunk.Ordinal{0, last.Ordinal - 1, last.Ordinal} {
		log.Expire(s1, through)
		_, now := reader.Snapshot(t.Context(), s1)
		_, early := reader.SnapshotAt(t.Context(), s1, 3)
		_, late := reader.SnapshotAt(t.Context(), s1, last.Seq+5)
		_, saved := reader.SnapshotAtCheckpoint(t.Context(), s1, "cp1")
		for what, err := range map[string]error{"now": now, "early": early, "late": late, "checkpoint": saved} {
			if !errors.Is(err, chunk.ErrUnknownSession) {
				t.Errorf("%s, %d purged: %v, want ErrUnknownSession", what, through, err)
			}
		}
	}
	again := log.Append(t, s1, 0, chunk.RunStarted{RunID: "r2", Epoch: 2, Mode: "execute", Input: []chunk.InputMessage{{Content: "hi again"}}})
	if snap, err := reader.Snapshot(t.Context(), s1); err != nil || snap.Position != again.Position() || len(aisdk.Snapshot(snap, aisdk.SnapshotOptions{Partial: true}).Messages) != 1 {
		t.Errorf("restarted: %+v, %v", snap.Position, err)
	}
	if snap, err := reader.SnapshotAt(t.Context(), s1, again.Seq); err != nil || snap.Position != again.Position() {
		t.Errorf("restarted, SnapshotAt: %+v, %v", snap.Position, err)
	}
}

// TestSnapshotAtInconsistentHead checks that a head with missing messages is replaced by a fold of the log.
func TestSnapshotAtInconsistentHead(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	records := storetest.NewSessionGenerator(log, s1, 32).Write(t, 200)
	want := stored(t, store, log, s1)
	store.DropMessages(s1)
	snap, err := projector.NewReader(store, log).SnapshotAt(t.Context(), s1, records[len(records)-1].Seq)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Equal(t, "inconsistent head", snap, want)
}

// checkpoints writes three steps, each followed by a checkpoint. A checkpoint is loaded with all text before it, even if that
// text was still open.
func checkpoints(t *testing.T, log *storetest.Log) []chunk.Record {
	t.Helper()
	log.Append(t, s1, 0, chunk.RunStarted{RunID: "r1", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "hi"}}})
	var saved []chunk.Record
	for n := range int64(3) {
		log.Append(t, s1, n+1, chunk.TextDelta{Delta: fmt.Sprintf("step %d", n)})
		saved = append(saved, log.Append(t, s1, n+1, chunk.CheckpointCreated{RunID: "r1", CheckpointID: fmt.Sprintf("cp%d", n), StepCount: n + 1}))
	}
	log.Append(t, s1, 4, chunk.StreamResync{CheckpointID: "cp0", Reason: "rollback"})
	log.Append(t, s1, 4, chunk.TextDelta{Delta: "again"})
	return saved
}

func TestCheckpoint(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	saved := checkpoints(t, log)
	reader := projector.NewReader(store, log)
	for n, rec := range saved {
		id := fmt.Sprintf("cp%d", n)
		snap, err := reader.SnapshotAtCheckpoint(t.Context(), s1, id)
		if err != nil || snap.Position != rec.Position() {
			t.Fatalf("%s: %+v, %v; want %+v", id, snap.Position, err, rec.Position())
		}
		page := aisdk.Snapshot(snap, aisdk.SnapshotOptions{Checkpoint: &id, Timestamp: 5})
		if page.Status != fold.Ended || *page.CheckpointID != id || page.StreamSequence != rec.Seq || len(page.Messages) != 2 || len(page.Messages[1].Parts) != n+1 {
			t.Errorf("%s: %s", id, page.AppendJSON(nil))
		}
		if last := string(page.Messages[1].Parts[n]); last != fmt.Sprintf(`{"type":"text","text":"step %d","state":"done"}`, n) {
			t.Errorf("%s ends with %s", id, last)
		}
	}
	if _, err := reader.SnapshotAtCheckpoint(t.Context(), s1, "cp9"); !errors.Is(err, chunk.ErrUnknownCheckpoint) {
		t.Errorf("unknown checkpoint: %v", err)
	}
	if _, err := reader.SnapshotAtCheckpoint(t.Context(), chunk.RootSession("t", "unknown"), "cp0"); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("unknown session: %v", err)
	}
}

func TestCheckpointExpiredLog(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	saved := checkpoints(t, log)
	at, err := projector.NewReader(store, log).SnapshotAt(t.Context(), s1, saved[1].Seq)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Save(t.Context(), at, 0); err != nil {
		t.Fatal(err)
	}
	log.Expire(s1, saved[0].Ordinal)
	reader := projector.NewReader(store, log)
	if snap, err := reader.SnapshotAtCheckpoint(t.Context(), s1, "cp2"); err != nil || snap.Position != saved[2].Position() {
		t.Errorf("after the head: %+v, %v; want %+v", snap.Position, err, saved[2].Position())
	}
	for _, id := range []string{"cp0", "cp1", "cp9"} {
		if _, err := reader.SnapshotAtCheckpoint(t.Context(), s1, id); !errors.Is(err, chunk.ErrTruncated) {
			t.Errorf("%s: %v, want TruncatedError", id, err)
		}
	}
}

// blocked is a Log that yields its records and then blocks until ctx ends.
type blocked struct{ *storetest.Log }

func (b blocked) Replay(ctx context.Context, of chunk.Range) iter.Seq2[chunk.Record, error] {
	return func(yield func(chunk.Record, error) bool) {
		for rec, err := range b.Log.Replay(ctx, of) {
			if !yield(rec, err) {
				return
			}
		}
		<-ctx.Done()
		yield(chunk.Record{}, ctx.Err())
	}
}

// TestSnapshotAtContext checks that a long fold ends with its context.
func TestSnapshotAtContext(t *testing.T) {
	log := storetest.NewLog()
	rec := log.Append(t, s1, 1, chunk.TextDelta{Delta: "x"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := projector.NewReader(storetest.NewMemory(), blocked{log}).SnapshotAt(ctx, s1, rec.Seq+1); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want context.Canceled", err)
	}
}

package projector_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/projector/fold"
)

// TestReadTombstone checks that a deleted session is unknown, although the log still has records of it, until a run starts
// after the tombstone.
func TestReadTombstone(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	s := chunk.RootSession("acme", "s1")
	storetest.NewSessionGenerator(log, s, 1).Write(t, 50)
	last := log.Append(t, s, 1, chunk.StreamFailed{Error: "the session was deleted"})
	if _, err := store.Save(t.Context(), fold.NewTombstone(s, last.Position(), last.Epoch), 0); err != nil {
		t.Fatal(err)
	}
	reader := projector.NewReader(store, log)
	for _, what := range []string{"before the purge", "after it", "when all has expired"} {
		if snap, err := reader.Snapshot(t.Context(), s); !errors.Is(err, chunk.ErrUnknownSession) {
			t.Errorf("%s: %v, %v; want ErrUnknownSession", what, snap.Position, err)
		}
		if pos, epoch, _, err := reader.StoredPosition(t.Context(), s); err != nil || pos != last.Position() || epoch != last.Epoch {
			t.Errorf("%s: a writer continues after %v, %d, %v", what, pos, epoch, err)
		}
		if what == "before the purge" {
			log.Expire(s, last.Ordinal-1)
		} else {
			log.Expire(s, last.Ordinal)
		}
	}
	log.Append(t, s, 0, chunk.RunStarted{RunID: "new", Epoch: 9, Mode: "execute", Input: []chunk.InputMessage{{Content: "again"}}})
	snap, err := reader.Snapshot(context.WithoutCancel(t.Context()), s)
	if err != nil || snap.Deleted() || snap.FinishedCount() != 1 || snap.Faults.Lost != 0 {
		t.Errorf("restarted: %d messages, %d lost, %v", snap.FinishedCount(), snap.Faults.Lost, err)
	}
}

// TestSessionRestartsAfterExpiry checks that a Runner accepts a session that starts again at ordinal 1 after its log and
// snapshot have expired.
func TestSessionRestartsAfterExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, source := storetest.NewMemory(), newQueue()
		s := chunk.RootSession("acme", "s1")
		old, recreated := storetest.NewLog(), storetest.NewLog()
		runner, err := projector.NewRunner(source, store, old, projector.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- runner.Run(ctx) }()
		storetest.NewSessionGenerator(old, s, 1).Write(t, 100)
		source.put(old.Records(s)...)
		time.Sleep(time.Minute)
		store.DropSession(s)
		time.Sleep(2 * time.Hour)

		author := storetest.NewSessionGenerator(recreated, s, 2)
		author.WithCleanups = false
		author.Write(t, 30)
		records := recreated.Records(s)
		for i := range records {
			records[i].Seq += old.Tip()
		}
		source.put(records...)
		time.Sleep(time.Minute)
		cancel()
		<-ended
		head, _, err := store.Load(context.WithoutCancel(t.Context()), s)
		if last := records[len(records)-1]; err != nil || head.Position != last.Position() {
			t.Errorf("the head is at %v, %v; want %v", head.Position, err, last.Position())
		}
	})
}

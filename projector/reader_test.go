package projector_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/projector/storetest"
)

// Every snapshot read while chunks arrive is the fold of the log up to its
// position, whether the Runner has come that far or not.
func TestReadWhileChunksArrive(t *testing.T) {
	log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
	_, _ = start(t, q, store, log, projector.Config{SaveAfter: time.Millisecond, SaveRecords: 11})
	reader := projector.NewReader(store, log)
	a := storetest.NewAuthor(log, s1, 7)
	a.Crashes = false // so that a prefix of the log stays what it was
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

// No Runner, no head: the log alone is enough.
func TestReadWithoutARunner(t *testing.T) {
	log := storetest.NewLog()
	reader := projector.NewReader(storetest.NewMemory(), log)
	if _, err := reader.Snapshot(t.Context(), s1); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("err = %v, want ErrUnknownSession", err)
	}
	if pos, epoch, err := reader.Head(t.Context(), s1); err != nil || pos != (chunk.Position{}) || epoch != 0 {
		t.Errorf("head %+v %d %v, want zeros", pos, epoch, err)
	}
	records := storetest.NewAuthor(log, s1, 8).Write(t, 200)
	snap, err := reader.Snapshot(t.Context(), s1)
	if err != nil || snap.Position != records[len(records)-1].Position() || !snap.Complete() {
		t.Errorf("position %+v, %v; want the last of %d", snap.Position, err, len(records))
	}
}

// stored saves what the log says now.
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

// Head and tail, cut anywhere, with clean-ups behind and across the cut.
func TestHeadAndTail(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for seed := range uint64(60) {
		log, store := storetest.NewLog(), storetest.NewMemory()
		a := storetest.NewAuthor(log, s1, seed)
		a.Write(t, 1+rng.IntN(120))
		head := stored(t, store, log, s1)
		a.Write(t, rng.IntN(120))
		if rng.IntN(2) == 0 {
			log.Sweep(s1)
		}
		reader := projector.NewReader(store, log)
		snap, err := reader.Snapshot(t.Context(), s1)
		if err != nil {
			t.Fatal(err)
		}
		storetest.Equal(t, "head and tail", snap, storetest.Fold(t, log, s1))
		if pos, epoch, err := reader.Head(t.Context(), s1); err != nil || pos != head.Position || epoch != head.Epoch {
			t.Errorf("head %+v %d %v, want %+v %d", pos, epoch, err, head.Position, head.Epoch)
		}
	}
}

// A session outlives its log.
func TestReadAfterTheLogExpired(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	a := storetest.NewAuthor(log, s1, 10)
	a.Crashes = false
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
	storetest.Equal(t, "the beginning is gone", read("partly"), head)
	log.Expire(s1, head.Position.Ordinal)
	storetest.Equal(t, "everything is gone", read("all"), head)

	// What was written and expired while nobody projected is lost, and said so.
	a.Write(t, 100)
	log.Expire(s1, head.Position.Ordinal+30)
	snap := read("beyond the head")
	last := log.Records(s1)[len(log.Records(s1))-1]
	if snap.Faults.Lost != head.Faults.Lost+30 || snap.Position != last.Position() {
		t.Errorf("faults %+v at %+v; want 30 lost, at %+v", snap.Faults, snap.Position, last.Position())
	}
}

// A log that begins late and no head: what there is, and how much is missing.
func TestReadFromTheFloor(t *testing.T) {
	log := storetest.NewLog()
	a := storetest.NewAuthor(log, s1, 11)
	a.Crashes = false
	a.Write(t, 100)
	log.Expire(s1, 40)
	snap, err := projector.NewReader(storetest.NewMemory(), log).Snapshot(t.Context(), s1)
	if err != nil || snap.Faults.Lost != 40 || snap.Position != log.Records(s1)[59].Position() {
		t.Errorf("faults %+v, position %+v, %v; want 40 lost", snap.Faults, snap.Position, err)
	}
}

// A mark that reaches back to what the log has forgotten cannot be honoured: it
// is marked and passed, and what it took back stays.
func TestMarkBeyondTheLog(t *testing.T) {
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
	mark, ok := log.Mark(t, s1, 1) // takes "two" back in both turns
	if !ok {
		t.Fatal("no mark")
	}
	log.Sweep(s1)
	snap, err := projector.NewReader(store, log).Snapshot(t.Context(), s1)
	if err != nil {
		t.Fatal(err)
	}
	if snap.Position != mark.Position() || snap.Faults.Skipped != 1 || snap.FinishedCount() != head.FinishedCount() {
		t.Errorf("position %+v, faults %+v, %d messages; want %+v, one skipped, %d", snap.Position, snap.Faults, snap.FinishedCount(), mark.Position(), head.FinishedCount())
	}
}

// A head whose messages are not there is read again, and in the end made from
// the log.
func TestTornHead(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	storetest.NewAuthor(log, s1, 12).Write(t, 300)
	want := stored(t, store, log, s1)
	reader := projector.NewReader(store, log)
	tries := 0
	store.Fault = func(step string) error {
		if step == "messages" {
			if tries++; tries < 3 {
				return fold.ErrTorn
			}
		}
		return nil
	}
	snap, err := reader.Snapshot(t.Context(), s1)
	if err != nil || tries != 3 {
		t.Fatalf("%d tries, %v", tries, err)
	}
	storetest.Equal(t, "after a while", snap, want)
	store.Tear(s1)
	if snap, err = reader.Snapshot(t.Context(), s1); err != nil {
		t.Fatal(err)
	}
	storetest.Equal(t, "from the log", snap, want)
	log.Expire(s1, 100)
	if _, err = reader.Snapshot(t.Context(), s1); !errors.Is(err, fold.ErrTorn) {
		t.Errorf("err = %v, want ErrTorn: neither store nor log has it", err)
	}
	store.Forget(s1)
	if snap, err = reader.Snapshot(t.Context(), s1); err != nil || snap.Faults.Lost != 100 {
		t.Errorf("bucket gone: faults %+v, %v", snap.Faults, err)
	}
}

// A hole in the middle that nothing explains: the snapshot says how much is
// missing, whoever folds it and from where.
func TestGapIsCrossed(t *testing.T) {
	log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
	records := []chunk.Record{log.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})}
	for i := range 9 {
		records = append(records, log.Append(t, s1, 1, chunk.TextDelta{Delta: fmt.Sprint(i)}))
	}
	log.Lose(s1, 4)
	log.Lose(s1, 5)
	log.Lose(s1, 8)
	want, err := projector.NewReader(storetest.NewMemory(), log).Snapshot(t.Context(), s1)
	if err != nil || want.Faults.Lost != 3 || want.Position != records[9].Position() {
		t.Fatalf("faults %+v at %+v, %v; want 3 lost", want.Faults, want.Position, err)
	}
	_, _ = start(t, q, store, log, projector.Config{SaveAfter: time.Millisecond})
	q.put(records[9], records[0], records[6])
	q.drained(t)
	storetest.Equal(t, "delivered", storetest.Stored(t, store, s1), want)
}

// A session at rest is not read: its head ends where the log does. So is one that
// nobody knows.
func TestRestIsNotRead(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	storetest.NewAuthor(log, s1, 13).Write(t, 100)
	head := stored(t, store, log, s1)
	reader := projector.NewReader(store, log)
	before := log.Readings()
	snap, err := reader.Snapshot(t.Context(), s1)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Equal(t, "at rest", snap, head)
	if page, err := reader.Page(t.Context(), s1, fold.Window{Limit: 2}); err != nil || page.Frontend(0).StreamSequence != snap.Frontend(false, 0).StreamSequence {
		t.Errorf("a page: %v, or it is of another place", err)
	}
	if _, err := reader.Snapshot(t.Context(), chunk.RootSession("t", "nobody")); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("err = %v, want ErrUnknownSession", err)
	}
	if n := log.Readings() - before; n != 0 {
		t.Errorf("the log was read %d times", n)
	}
}

// meddling is a Log to which something happens behind its word about the end.
type meddling struct {
	*storetest.Log

	after func()
}

func (m meddling) Last(ctx context.Context, s chunk.Session) (chunk.Record, error) {
	rec, err := m.Log.Last(ctx, s)
	m.after()
	return rec, err
}

// late is a Store whose heads are loaded behind the log's word.
type late struct {
	projector.Store

	until chan struct{}
}

func (s late) Load(ctx context.Context, session chunk.Session) (fold.Snapshot, projector.Revision, error) {
	<-s.until
	return s.Store.Load(ctx, session)
}

// The log grows, and its head with it, between its word about the end and the head:
// the snapshot has all of it.
func TestHeadNewerThanTheEnd(t *testing.T) {
	for name, known := range map[string]bool{"a new session": false, "one that is known": true} {
		t.Run(name, func(t *testing.T) {
			log, store := storetest.NewLog(), storetest.NewMemory()
			a := storetest.NewAuthor(log, s1, 14)
			if known {
				a.Write(t, 50)
				stored(t, store, log, s1)
			}
			said := make(chan struct{})
			reader := projector.NewReader(late{store, said}, meddling{log, func() {
				a.Write(t, 50)
				stored(t, store, log, s1)
				a.Write(t, 3)
				close(said)
			}})
			snap, err := reader.Snapshot(t.Context(), s1)
			if err != nil {
				t.Fatal(err)
			}
			storetest.Equal(t, "all of it", snap, storetest.Fold(t, log, s1))
		})
	}
}

// Another life of the log ends at the same place with another record: it is read.
func TestEndOfAnotherLife(t *testing.T) {
	old, log, store := storetest.NewLog(), storetest.NewLog(), storetest.NewMemory()
	for range 2 {
		old.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	}
	stored(t, store, old, s1)
	log.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	last := log.Append(t, s1, 1, chunk.TextDelta{Delta: "anew"})
	before := log.Readings()
	if _, err := projector.NewReader(store, log).Snapshot(t.Context(), s1); err != nil || last.Seq != old.Tip() {
		t.Fatalf("ends at %d and %d, %v", last.Seq, old.Tip(), err)
	}
	if log.Readings() == before {
		t.Error("the log was not read")
	}
}

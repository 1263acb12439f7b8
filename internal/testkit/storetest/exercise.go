package storetest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// RunContract tests a projector.Store. open returns an empty store whose heads and messages may have about 4 MiB.
func RunContract(t *testing.T, open func(t *testing.T) projector.Store) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, projector.Store)
	}{
		{"empty store", emptyStore},
		{"load after save", savedIsLoaded},
		{"messages are shared by later heads", messagesAreShared},
		{"segments of an open message are shared by later heads", openMessage},
		{"a save is a compare-and-set", compareAndSet},
		{"sessions are independent", sessionsApart},
		{"two megabytes", twoMegabytes},
		{"too large is rejected, the stored head stays", tooLarge},
		{"a tombstone rejects late saves", tombstoneConflict},
		{"missing messages are inconsistent", missingMessages},
		{"reads are counted", countedReads},
		{"range of messages", ranges},
		{"concurrent writers", manyWriters},
		{"canceled context", endedContext},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

var session = chunk.RootSession("acme", "s1")

// snapshot folds a session of about n records.
func snapshot(t *testing.T, s chunk.Session, n int) fold.Snapshot {
	t.Helper()
	log := NewLog()
	NewSessionGenerator(log, s, 1).Write(t, n)
	return Fold(t, log, s)
}

func save(t *testing.T, st projector.Store, snap fold.Snapshot, after projector.Revision) projector.Revision {
	t.Helper()
	revision, err := st.Save(t.Context(), snap, after)
	if err != nil || revision == after {
		t.Fatalf("save after %d: revision %d, %v", after, revision, err)
	}
	return revision
}

func emptyStore(t *testing.T, st projector.Store) {
	t.Helper()
	if _, revision, err := st.Load(t.Context(), session); !errors.Is(err, projector.ErrNoSnapshot) || revision != 0 {
		t.Errorf("revision %d, %v; want 0, ErrNoSnapshot", revision, err)
	}
	if data, err := st.Messages(t.Context(), fold.New(session).Snapshot()); err != nil || len(data) != 0 {
		t.Errorf("messages %v, %v", data, err)
	}
}

func savedIsLoaded(t *testing.T, st projector.Store) {
	t.Helper()
	snap := snapshot(t, session, 300)
	if snap.FinishedCount() < 5 {
		t.Fatalf("the example has only %d finished messages", snap.FinishedCount())
	}
	save(t, st, snap, 0)
	Equal(t, "loaded", Stored(t, st, session), snap)
}

func messagesAreShared(t *testing.T, st projector.Store) {
	t.Helper()
	log := NewLog()
	a := NewSessionGenerator(log, session, 2)
	f, revision := fold.New(session), projector.Revision(0)
	for range 20 {
		for _, rec := range a.Write(t, 20) {
			err := f.Apply(rec)
			if errors.Is(err, fold.ErrInvalidRecord) {
				err = f.Skip(rec, err.Error())
			}
			if errors.Is(err, fold.ErrRefold) {
				f.Reset(Fold(t, log, session))
			} else if err != nil {
				t.Fatal(err)
			}
		}
		revision = save(t, st, f.Snapshot(), revision)
		f.Trim() // the next save writes only what is new
		want := Fold(t, log, session)
		Equal(t, "in between", Stored(t, st, session), want)
	}
}

// openMessage saves a step of many calls that never ends. Some saves fail before their head is written, as in a crash; another
// process then continues from the stored head, and saves at other positions.
func openMessage(t *testing.T, st projector.Store) {
	t.Helper()
	log := NewLog()
	f, revision := fold.New(session), projector.Revision(0)
	add := func(step int64, body chunk.Body) {
		t.Helper()
		if err := f.Apply(log.Append(t, session, step, body)); err != nil {
			t.Fatal(err)
		}
	}
	add(0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "work"}}})
	for n := range 600 {
		id := strconv.Itoa(n)
		add(1, chunk.ToolStart{ToolCallID: id, ToolName: "search", Arguments: chunk.Value(`{}`)})
		add(1, chunk.ToolEnd{ToolCallID: id, ToolName: "search", Result: chunk.Value(`{"of":` + id + `}`)})
		switch {
		case n%150 == 140: // the messages are written and the head is not: another head was saved meanwhile
			if _, err := st.Save(t.Context(), f.Snapshot(), revision+1); !errors.Is(err, projector.ErrConflict) {
				t.Fatalf("save: %v, want ErrConflict", err)
			}
			if revision == 0 {
				continue
			}
			head, _, err := st.Load(t.Context(), session)
			if err != nil {
				t.Fatal(err)
			}
			f = fold.From(head)
			for rec, err := range log.Replay(t.Context(), chunk.Range{Session: session, After: head.Position}) {
				if err == nil {
					err = f.Apply(rec)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		case n%70 == 69:
			revision = save(t, st, f.Snapshot(), revision)
			f.Trim()
			Equal(t, "in between", Stored(t, st, session), Fold(t, log, session))
		}
	}
	if head := f.Snapshot(); head.TrimmedCount() < 6 || head.FinishedCount() != 1 || len(head.AppendHead(nil)) > 32<<10 {
		t.Errorf("%d values of %d messages are stored, the head has %d bytes", head.TrimmedCount(), head.FinishedCount(), len(head.AppendHead(nil)))
	}
}

func compareAndSet(t *testing.T, st projector.Store) {
	t.Helper()
	one, two := snapshot(t, session, 30), snapshot(t, session, 60)
	if _, err := st.Save(t.Context(), one, 7); !errors.Is(err, projector.ErrConflict) {
		t.Errorf("a revision without a head: %v, want ErrConflict", err)
	}
	first := save(t, st, one, 0)
	if _, err := st.Save(t.Context(), two, 0); !errors.Is(err, projector.ErrConflict) {
		t.Errorf("revision 0 of an existing head: %v, want ErrConflict", err)
	}
	Equal(t, "after rejected saves", Stored(t, st, session), one)
	second := save(t, st, two, first)
	if _, err := st.Save(t.Context(), two, first); !errors.Is(err, projector.ErrConflict) {
		t.Errorf("an old revision: %v, want ErrConflict", err)
	}
	if _, revision, err := st.Load(t.Context(), session); err != nil || revision != second {
		t.Errorf("revision %d, %v, want %d", revision, err, second)
	}
	Equal(t, "after the second", Stored(t, st, session), two)
}

func sessionsApart(t *testing.T, st projector.Store) {
	t.Helper()
	all := []chunk.Session{
		chunk.RootSession("a", "x"), chunk.RootSession("b", "x"), chunk.RootSession("a", "x").Child("y"), chunk.RootSession("a", "y"),
	}
	for i, s := range all {
		save(t, st, snapshot(t, s, 50+i), 0)
	}
	for i, s := range all {
		Equal(t, s.String(), Stored(t, st, s), snapshot(t, s, 50+i))
	}
}

func tooLarge(t *testing.T, st projector.Store) {
	t.Helper()
	log := NewLog()
	small := func() fold.Snapshot { return Fold(t, log, session) }
	log.Append(t, session, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	revision := save(t, st, small(), 0)
	before := small()
	for range 15 {
		log.Append(t, session, 1, chunk.TextDelta{Delta: strings.Repeat("x", 300<<10)})
	}
	check := func(what string, snap fold.Snapshot) {
		t.Helper()
		_, err := st.Save(t.Context(), snap, revision)
		var large *projector.TooLargeError
		if !errors.As(err, &large) || !errors.Is(err, projector.ErrTooLarge) || large.Size <= large.Limit || large.Session != session {
			t.Errorf("%s: %v, want a TooLargeError", what, err)
		}
		Equal(t, what, Stored(t, st, session), before)
	}
	check("a head", small())
	log.Append(t, session, 1, chunk.StreamEnd{StreamID: session.ID})
	check("a message", small())
}

// twoMegabytes saves heads that grow far beyond the size of a NATS message, then a message of that size, then a small head.
func twoMegabytes(t *testing.T, st projector.Store) {
	t.Helper()
	log := NewLog()
	snap := func() fold.Snapshot { return Fold(t, log, session) }
	log.Append(t, session, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	revision := save(t, st, snap(), 0)
	for range 7 {
		log.Append(t, session, 1, chunk.TextDelta{Delta: strings.Repeat("x", 300<<10)})
		revision = save(t, st, snap(), revision)
	}
	Equal(t, "a head", Stored(t, st, session), snap())
	if _, _, err := st.Load(projector.WithReadLimit(t.Context(), 1<<20), session); !errors.Is(err, projector.ErrReadLimit) {
		t.Errorf("a large head above the limit of the read: err = %v, want ErrReadLimit", err)
	}
	if _, err := st.Save(t.Context(), snap(), revision-1); !errors.Is(err, projector.ErrConflict) {
		t.Errorf("a large head of an old revision: %v, want ErrConflict", err)
	}
	if n := len(snap().AppendHead(nil)); n < 2<<20 {
		t.Fatalf("the head has only %d bytes", n)
	}
	log.Append(t, session, 1, chunk.StreamEnd{StreamID: session.ID})
	log.Append(t, session, 1, chunk.RunStarted{RunID: "r2", Epoch: 2, Mode: "execute", Input: []chunk.InputMessage{{Content: "q"}}})
	if n := len(snap().FinishedMessages()[0].Data); n < 2<<20 {
		t.Fatalf("the message has only %d bytes", n)
	}
	revision = save(t, st, snap(), revision)
	Equal(t, "a message", Stored(t, st, session), snap())
	if _, err := st.Messages(projector.WithReadLimit(t.Context(), 1<<20), Trimmed(snap())); !errors.Is(err, projector.ErrReadLimit) {
		t.Errorf("a message above the limit of the read: err = %v, want ErrReadLimit", err)
	}
	log.Append(t, session, 1, chunk.TextDelta{Delta: "y"})
	save(t, st, snap(), revision)
	Equal(t, "a head after the message", Stored(t, st, session), snap())
}

// tombstoneConflict checks that a writer that loaded a session before its deletion cannot restore it.
func tombstoneConflict(t *testing.T, st projector.Store) {
	t.Helper()
	log := NewLog()
	NewSessionGenerator(log, session, 3).Write(t, 100)
	snap := Fold(t, log, session)
	revision := save(t, st, snap, 0)
	tombstone := fold.NewTombstone(session, snap.Position, snap.Epoch+1)
	stored := save(t, st, tombstone, revision)
	for _, after := range []projector.Revision{revision, 0} {
		if _, err := st.Save(t.Context(), snap, after); !errors.Is(err, projector.ErrConflict) {
			t.Errorf("a late save after %d: %v, want ErrConflict", after, err)
		}
	}
	head, now, err := st.Load(t.Context(), session)
	if err != nil || now != stored || !head.Deleted() || head.Position != snap.Position || head.Epoch != snap.Epoch+1 {
		t.Errorf("tombstone: %+v, revision %d, %v", head, now, err)
	}
}

// countedReads checks that a read ends when it exceeds the limit of its context.
func countedReads(t *testing.T, st projector.Store) {
	t.Helper()
	snap := snapshot(t, session, 3000)
	if _, err := st.Save(t.Context(), snap, 0); err != nil {
		t.Fatal(err)
	}
	head := len(snap.AppendHead(nil))
	if _, _, err := st.Load(projector.WithReadLimit(t.Context(), int64(head)), session); err != nil {
		t.Errorf("limit of the %d bytes of the head: %v", head, err)
	}
	if _, _, err := st.Load(projector.WithReadLimit(t.Context(), int64(head-1)), session); !errors.Is(err, projector.ErrReadLimit) {
		t.Errorf("a head above the limit of the read: err = %v, want ErrReadLimit", err)
	}
	size, trimmed := 0, Trimmed(snap)
	for _, m := range snap.FinishedMessages()[:trimmed.TrimmedCount()] {
		size += len(m.Data)
	}
	if _, err := st.Messages(projector.WithReadLimit(t.Context(), int64(size)), trimmed); err != nil {
		t.Errorf("limit of %d bytes: %v", size, err)
	}
	if _, err := st.Messages(projector.WithReadLimit(t.Context(), int64(size-1)), trimmed); !errors.Is(err, projector.ErrReadLimit) {
		t.Errorf("limit of %d bytes: err = %v, want ErrReadLimit", size-1, err)
	}
}

func missingMessages(t *testing.T, st projector.Store) {
	t.Helper()
	if _, err := st.Messages(t.Context(), Trimmed(snapshot(t, session, 3000))); !errors.Is(err, fold.ErrInconsistent) {
		t.Errorf("err = %v, want ErrInconsistent", err)
	}
}

func ranges(t *testing.T, st projector.Store) {
	t.Helper()
	log := NewLog()
	f, revision := fold.New(session), projector.Revision(0)
	for n := range 300 { // more than one batch
		input := []chunk.InputMessage{{Content: strings.Repeat("question ", n)}}
		for _, rec := range []chunk.Record{
			log.Append(t, session, 0, chunk.RunStarted{RunID: strconv.Itoa(n), Epoch: 1, Mode: "execute", Input: input}),
			log.Append(t, session, 1, chunk.TextDelta{Delta: strings.Repeat("answer ", n)}),
		} {
			if err := f.Apply(rec); err != nil {
				t.Fatal(err)
			}
		}
		if n%100 == 50 {
			revision = save(t, st, f.Snapshot(), revision)
			f.Trim()
		}
	}
	held := len(f.Snapshot().FinishedMessages())
	revision = save(t, st, f.Snapshot(), revision)
	head, _, err := st.Load(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	all, err := st.Messages(t.Context(), head)
	if err != nil || len(all) < 550 || held > 150 {
		t.Fatalf("%d messages, %d of them held: %v", len(all), held, err)
	}
	for _, r := range [][2]int{{0, len(all)}, {0, 1}, {len(all) - 1, len(all)}, {7, 7}, {100, 500}} {
		part, err := st.Range(t.Context(), head, revision, r[0], r[1])
		if err != nil || !slices.EqualFunc(part, all[r[0]:r[1]], bytes.Equal) {
			t.Errorf("messages %d to %d: %d of them, %v", r[0], r[1], len(part), err)
		}
	}
	if _, err := st.Range(t.Context(), head, revision, len(all)-1, len(all)+1); !errors.Is(err, fold.ErrInconsistent) {
		t.Errorf("beyond the last: %v, want ErrInconsistent", err)
	}
}

// manyWriters loads, folds the next record and saves in several goroutines, all for one session. Each successful save adds
// exactly one record.
func manyWriters(t *testing.T, st projector.Store) {
	t.Helper()
	log := NewLog()
	log.Append(t, session, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	for range 40 {
		log.Append(t, session, 1, chunk.TextDelta{Delta: "x"})
	}
	records := log.Records(session)
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for {
				snap, revision, err := st.Load(t.Context(), session)
				if errors.Is(err, projector.ErrNoSnapshot) {
					snap = fold.New(session).Snapshot()
				} else if err != nil {
					t.Errorf("load: %v", err)
					return
				}
				n := int(snap.Position.Ordinal)
				if n == len(records) {
					return
				}
				f := fold.From(snap)
				if err := f.Apply(records[n]); err != nil {
					t.Errorf("apply: %v", err)
					return
				}
				if _, err = st.Save(t.Context(), f.Snapshot(), revision); err != nil && !errors.Is(err, projector.ErrConflict) {
					t.Errorf("save: %v", err)
					return
				}
			}
		})
	}
	writers.Wait()
	Equal(t, "in the end", Stored(t, st, session), Fold(t, log, session))
}

func endedContext(t *testing.T, st projector.Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := st.Save(ctx, snapshot(t, session, 50), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("save: %v, want Canceled", err)
	}
}

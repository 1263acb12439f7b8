package consumers

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

func TestTreeIsTheMergeOfItsSessions(t *testing.T) {
	w := newEnv(t, Config{})
	a, b := alice.Child("a"), alice.Child("b")
	bob := chunk.RootSession("acme", "bob")
	var want []chunk.Record
	for i := range 40 {
		want = append(want, w.say(alice, "root"))
		if i > 10 {
			want = append(want, w.say(a, "a"))
		}
		if i%3 == 0 {
			want = append(want, w.say(b, "b"))
		}
		w.say(bob, "other")
	}
	for _, from := range []chunk.Session{alice, a} {
		got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: from, Tree: true}))
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, want)
	}
	for i, rec := range want {
		got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, Tree: true, After: chunk.Position{Seq: rec.Seq}}))
		if err != nil {
			t.Fatalf("after %d: %v", rec.Seq, err)
		}
		same(t, got, want[i+1:])
	}
	f := w.followTree(alice, want[20].Seq)
	same(t, f.get(t, len(want)-21), want[21:])
	more := []chunk.Record{w.say(alice, "x"), w.say(alice.Child("c"), "new"), w.say(b, "y")}
	same(t, f.get(t, 3), more)
	f.stop(t)
	w.noConsumers()
}

func TestTheRootEndsATree(t *testing.T) {
	w := newEnv(t, Config{})
	kid := alice.Child("kid")
	want := []chunk.Record{w.say(alice, "1"), w.say(kid, "2"), w.put(kid, 1, chunk.StreamEnd{StreamID: "kid"})}
	f := w.followTree(alice, 0)
	same(t, f.get(t, 3), want)
	want = []chunk.Record{w.say(alice, "3"), w.put(alice, 1, chunk.StreamFailed{Error: "broken"})}
	got, err := f.end(t)
	if !errors.Is(err, chunk.ErrFailed) {
		t.Errorf("err = %v, want the root's failure", err)
	}
	same(t, got, want)

	late := w.say(kid, "a child that continues")
	for _, after := range []chunk.Seq{want[0].Seq, want[1].Seq, late.Seq} {
		got, err := collect(w.reader.Follow(background(t, 5*time.Second), chunk.Range{Session: alice, Tree: true, After: chunk.Position{Seq: after}}))
		if !errors.Is(err, chunk.ErrFailed) {
			t.Errorf("after %d: err = %v, want the root's failure", after, err)
		}
		same(t, got, slices.DeleteFunc([]chunk.Record{want[0], want[1], late}, func(r chunk.Record) bool { return r.Seq <= after }))
	}
	w.noConsumers()
}

// A cursor of a tree is a record of one session; the log shows how far the client has read the other sessions.
func TestTreeCursorProvesTheOtherSessions(t *testing.T) {
	setup := func(t *testing.T) (w *env, kid chunk.Session, cursor chunk.Seq, recs []chunk.Record) {
		t.Helper()
		w = newEnv(t, Config{})
		kid = alice.Child("kid")
		recs = append(recs, w.say(alice, "1"))
		recs = append(recs, w.sayAll(kid, 3)...)
		cursor = w.say(alice, "2").Seq
		recs = append(recs, w.sayAll(kid, 3)...)
		recs = append(recs, w.say(alice, "3"))
		return w, kid, cursor, recs
	}
	t.Run("nothing missing", func(t *testing.T) {
		w, _, cursor, recs := setup(t)
		got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, Tree: true, After: chunk.Position{Seq: cursor}}))
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, recs[4:])
	})
	t.Run("the next one of another session is missing", func(t *testing.T) {
		w, _, cursor, recs := setup(t)
		w.remove(recs[4])
		got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, Tree: true, After: chunk.Position{Seq: cursor}}))
		truncated(t, err, chunk.TruncatedGap)
		same(t, got, nil)
	})
	t.Run("a cleanup removed it", func(t *testing.T) {
		w, kid, cursor, recs := setup(t)
		marker := w.cleanUp(kid, recs[4], recs[5])
		got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, Tree: true, After: chunk.Position{Seq: cursor}}))
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, []chunk.Record{recs[6], recs[7], marker})
	})
	t.Run("the one before the cursor was cleaned up", func(t *testing.T) {
		w, kid, cursor, recs := setup(t)
		marker := w.cleanUp(kid, recs[3])
		got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, Tree: true, After: chunk.Position{Seq: cursor}}))
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, append(slices.Clone(recs[4:]), marker))
	})
	t.Run("everything before the cursor was removed", func(t *testing.T) {
		w, _, cursor, recs := setup(t)
		w.purgeUpTo(cursor)
		got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, Tree: true, After: chunk.Position{Seq: cursor}}))
		truncated(t, err, chunk.TruncatedExpired)
		same(t, got, nil)
		_ = recs
	})
	t.Run("malformed messages before the cursor", func(t *testing.T) {
		w, kid, _, _ := setup(t)
		w.malformed(kid)
		w.malformed(kid)
		cursor := w.say(alice, "4").Seq
		more := w.sayAll(kid, 2)
		got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, Tree: true, After: chunk.Position{Seq: cursor}}))
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, more)
	})
}

func TestTreeWhoseRootHasExpired(t *testing.T) {
	w := newEnv(t, Config{})
	w.sayAll(alice, 2)
	kid := w.say(alice.Child("kid"), "first of the child")
	rest := w.sayAll(alice, 2)
	w.purgeUpTo(kid.Seq)
	got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, Tree: true}))
	truncated(t, err, chunk.TruncatedExpired)
	same(t, got, nil)
	got, err = collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, Tree: true, FromOldest: true}))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, append([]chunk.Record{kid}, rest...))
	w.noConsumers()
}

package consumers

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsreader"
	"github.com/tailrace/tailrace/internal/topology"
)

func TestVerify(t *testing.T) {
	w := newEnv(t, Config{})
	bob := chunk.RootSession("acme", "bob")
	child := alice.Child("helper")
	recs := w.sayAll(alice, 4)
	other := w.say(bob, "x")
	kid := w.say(child, "y")
	malformed := w.malformed(alice)

	pos, err := w.reader.CheckCursor(t.Context(), alice, chunk.ScopeSession, chunk.Cursor{Seq: recs[2].Seq})
	if err != nil || pos != recs[2].Position() {
		t.Errorf("own record: %v, %v; want %v", pos, err, recs[2].Position())
	}
	pos, err = w.reader.CheckCursor(t.Context(), alice, chunk.ScopeTree, chunk.Cursor{Seq: kid.Seq})
	if err != nil || pos != kid.Position() {
		t.Errorf("child's record in the tree: %v, %v; want %v", pos, err, kid.Position())
	}
	pos, err = w.reader.CheckCursor(t.Context(), alice, chunk.ScopeSession, chunk.Cursor{Seq: 0})
	if err != nil || pos != (chunk.Position{}) {
		t.Errorf("zero: %v, %v", pos, err)
	}
	for name, c := range map[string]struct {
		scope chunk.Scope
		after chunk.Seq
		want  chunk.TruncationReason
	}{
		"beyond the end":                     {chunk.ScopeSession, malformed + 1, chunk.TruncatedFuture},
		"far beyond the end":                 {chunk.ScopeSession, 1 << 63, chunk.TruncatedFuture},
		"another session":                    {chunk.ScopeSession, other.Seq, chunk.TruncatedWrongSession},
		"another session, asked as a tree":   {chunk.ScopeTree, other.Seq, chunk.TruncatedWrongSession},
		"a child, asked as a single session": {chunk.ScopeSession, kid.Seq, chunk.TruncatedWrongSession},
		"malformed message":                  {chunk.ScopeSession, malformed, chunk.TruncatedWrongSession},
	} {
		_, err := w.reader.CheckCursor(t.Context(), alice, c.scope, chunk.Cursor{Seq: c.after})
		if why := truncated(t, err, c.want); why.After != c.after {
			t.Errorf("%s: After = %d, want %d", name, why.After, c.after)
		}
	}

	marker := w.cleanUp(alice, recs[2:]...)
	_, err = w.reader.CheckCursor(t.Context(), alice, chunk.ScopeSession, chunk.Cursor{Seq: recs[3].Seq})
	why := truncated(t, err, chunk.TruncatedCleanup)
	if why.Step == nil || *why.Step != 1 || why.HighWatermark != recs[3].Seq {
		t.Errorf("the cleanup is reported as %+v", why)
	}
	pos, err = w.reader.CheckCursor(t.Context(), alice, chunk.ScopeSession, chunk.Cursor{Seq: marker.Seq})
	if err != nil || pos != marker.Position() {
		t.Errorf("the truncated record: %v, %v", pos, err)
	}
	w.remove(recs[1])
	_, err = w.reader.CheckCursor(t.Context(), alice, chunk.ScopeSession, chunk.Cursor{Seq: recs[1].Seq})
	truncated(t, err, chunk.TruncatedExpired)
	w.purgeUpTo(kid.Seq)
	_, err = w.reader.CheckCursor(t.Context(), alice, chunk.ScopeTree, chunk.Cursor{Seq: recs[0].Seq})
	if why := truncated(t, err, chunk.TruncatedExpired); why.FirstSeq != kid.Seq {
		t.Errorf("FirstSeq = %d, want %d", why.FirstSeq, kid.Seq)
	}
	w.noConsumers()
}

// The beginning of a session was removed by age, by a limit or by a purge. A reader gets an error instead of a part of the session, unless it starts at a
// position after the beginning.
func TestExpiredBeginning(t *testing.T) {
	w := newEnv(t, Config{})
	recs := w.sayAll(alice, 10)
	w.purgeUpTo(recs[4].Seq)
	for name, read := range map[string]func() ([]chunk.Record, error){
		"replay": func() ([]chunk.Record, error) {
			return collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice}))
		},
		"follow": func() ([]chunk.Record, error) {
			return collect(w.reader.Follow(t.Context(), chunk.Range{Session: alice}))
		},
		"tree": func() ([]chunk.Record, error) {
			return collect(w.reader.Follow(t.Context(), chunk.Range{Session: alice, Tree: true}))
		},
		"a position before it": func() ([]chunk.Record, error) {
			return collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, After: recs[1].Position()}))
		},
		"a bare cursor before it": func() ([]chunk.Record, error) {
			return collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, After: chunk.Position{Seq: recs[1].Seq}}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read()
			why := truncated(t, err, chunk.TruncatedExpired)
			if len(got) > 0 || why.FirstSeq != recs[4].Seq {
				t.Errorf("%v before it, first sequence %d; want none, %d", positions(got), why.FirstSeq, recs[4].Seq)
			}
		})
	}
	for name, after := range map[string]chunk.Position{"just before the first": recs[3].Position(), "after the first": recs[4].Position()} {
		got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, After: after}))
		if err != nil {
			t.Fatalf("a position %s: %v", name, err)
		}
		same(t, got, recs[after.Ordinal:])
	}
	got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, FromOldest: true}))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, recs[4:])
	w.noConsumers()
}

func TestExpiryByAgeAndByLimit(t *testing.T) {
	t.Run("age", func(t *testing.T) {
		w := newEnv(t, Config{})
		w.sayAll(alice, 3)
		if err := topologyWith(w, topology.Config{}, func(c *jetstream.StreamConfig) {
			c.MaxAge = 200 * time.Millisecond
			c.Duplicates = 100 * time.Millisecond
		}); err != nil {
			t.Fatal(err)
		}
		w.eventually("everything has expired", func() bool {
			info, err := w.stream().Info(t.Context())
			return err == nil && info.State.Msgs == 0
		})
		if err := topologyWith(w, topology.Config{}, func(c *jetstream.StreamConfig) { c.MaxAge = 0 }); err != nil {
			t.Fatal(err)
		}
		w.sayAll(alice, 2)
		_, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice}))
		truncated(t, err, chunk.TruncatedExpired)
	})
	t.Run("number of messages", func(t *testing.T) {
		w := newEnv(t, Config{})
		if err := topologyWith(w, topology.Config{}, func(c *jetstream.StreamConfig) { c.MaxMsgs = 5 }); err != nil {
			t.Fatal(err)
		}
		recs := w.sayAll(alice, 8)
		_, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, After: chunk.Position{Seq: recs[0].Seq}}))
		truncated(t, err, chunk.TruncatedExpired)
		got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, After: recs[2].Position()}))
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, recs[3:])
	})
}

func topologyWith(w *env, _ topology.Config, change func(*jetstream.StreamConfig)) error {
	cfg := w.stream().CachedInfo().Config
	change(&cfg)
	_, err := w.js.UpdateStream(w.t.Context(), cfg)
	return err
}

// Records are missing in the middle without an explanation.
func TestGap(t *testing.T) {
	w := newEnv(t, Config{})
	recs := w.sayAll(alice, 8)
	w.remove(recs[4])
	got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice}))
	why := truncated(t, err, chunk.TruncatedGap)
	same(t, got, recs[:4])
	if why.After != recs[3].Seq || why.Session != alice {
		t.Errorf("the gap is reported as %+v", why)
	}
	got, err = collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, Tree: true}))
	truncated(t, err, chunk.TruncatedGap)
	same(t, got, recs[:4])

	// A bound inside the gap: it is unknown on which side of it the missing record was.
	_, err = collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, Through: recs[4].Seq}))
	truncated(t, err, chunk.TruncatedGap)

	// With a bound before the gap, the records after the bound are not checked.
	for _, after := range []chunk.Position{{}, recs[3].Position()} {
		got, err = collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, After: after, Through: recs[3].Seq}))
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, recs[after.Ordinal:4])
	}

	// A reader with a position after the gap continues, but not across the next one.
	got, err = collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, After: recs[3].Position(), FromOldest: true}))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, recs[5:])
	w.remove(recs[6])
	got, err = collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, After: recs[3].Position(), FromOldest: true}))
	truncated(t, err, chunk.TruncatedGap)
	same(t, got, recs[5:6])
	w.noConsumers()
}

func TestRepeatedOrdinalIsAnError(t *testing.T) {
	w := newEnv(t, Config{})
	recs := w.sayAll(alice, 3)
	w.putAt(alice, 1, 3, chunk.TextDelta{Delta: "again"})
	got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice}))
	truncated(t, err, chunk.TruncatedGap)
	same(t, got, recs)
}

func TestFuture(t *testing.T) {
	w := newEnv(t, Config{})
	recs := w.sayAll(alice, 3)
	for name, after := range map[string]chunk.Position{"bare": {Seq: recs[2].Seq + 1}, "proved": {Seq: recs[2].Seq + 1, Ordinal: 4}} {
		_, err := collect(w.reader.Follow(background(t, 5*time.Second), chunk.Range{Session: alice, After: after}))
		truncated(t, err, chunk.TruncatedFuture)
		_, err = collect(w.reader.Replay(background(t, 5*time.Second), chunk.Range{Session: alice, After: after}))
		if why := truncated(t, err, chunk.TruncatedFuture); why.After != after.Seq {
			t.Errorf("%s: After = %d", name, why.After)
		}
	}
	// The log continues, but not that of this session.
	others := w.sayAll(chunk.RootSession("acme", "bob"), 5)
	_, err := collect(w.reader.Follow(background(t, 5*time.Second), chunk.Range{Session: alice, After: chunk.Position{Seq: others[1].Seq, Ordinal: 5}}))
	truncated(t, err, chunk.TruncatedWrongSession)
	w.remove(others[1])
	_, err = collect(w.reader.Follow(background(t, 5*time.Second), chunk.Range{Session: alice, After: chunk.Position{Seq: others[1].Seq, Ordinal: 5}}))
	truncated(t, err, chunk.TruncatedFuture)
	w.noConsumers()
}

// A reader of a tree has a sequence of one session and the ordinals of all: it continues in any of them.
func TestProvedPositionBetweenTheRecords(t *testing.T) {
	w := newEnv(t, Config{})
	kid := alice.Child("kid")
	w.sayAll(alice, 2)
	between := w.say(kid, "x")
	next := w.say(alice, "y")
	got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, After: chunk.Position{Seq: between.Seq, Ordinal: 2}}))
	if err != nil || len(got) != 1 || got[0].Seq != next.Seq {
		t.Errorf("got %v, %v; want the record at %d", got, err, next.Seq)
	}
	_, err = collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, After: chunk.Position{Seq: between.Seq, Ordinal: 1}}))
	truncated(t, err, chunk.TruncatedGap)
	w.noConsumers()
}

func TestCursorOfAnotherSession(t *testing.T) {
	w := newEnv(t, Config{})
	w.sayAll(alice, 3)
	other := w.say(chunk.RootSession("acme", "bob"), "x")
	w.sayAll(alice, 3)
	_, err := collect(w.reader.Follow(t.Context(), chunk.Range{Session: alice, After: chunk.Position{Seq: other.Seq}}))
	truncated(t, err, chunk.TruncatedWrongSession)
	_, err = collect(w.reader.Follow(t.Context(), chunk.Range{Session: alice, Tree: true, After: chunk.Position{Seq: other.Seq}}))
	truncated(t, err, chunk.TruncatedWrongSession)
	w.noConsumers()
}

func TestPositionOfAnotherHistory(t *testing.T) {
	w := newEnv(t, Config{})
	recs := w.sayAll(alice, 5)
	// The same sequence, but not the record that was there when the position was taken.
	_, err := collect(w.reader.Follow(background(t, 5*time.Second), chunk.Range{Session: alice, After: chunk.Position{Seq: recs[4].Seq, Ordinal: 17}}))
	truncated(t, err, chunk.TruncatedRecreated)
	_, err = collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, After: chunk.Position{Seq: recs[2].Seq, Ordinal: 2}}))
	truncated(t, err, chunk.TruncatedRecreated)
	// The record of the position was removed, and the record after it does not have the next ordinal.
	w.remove(recs[2])
	_, err = collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, After: chunk.Position{Seq: recs[2].Seq, Ordinal: 7}}))
	truncated(t, err, chunk.TruncatedGap)
	got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, After: recs[2].Position()}))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, recs[3:])
}

// A purge is detected when the session continues: its next record shows the gap.
func TestPurgeUnderALiveReader(t *testing.T) {
	t.Run("everything, and the writer does not know the earlier records", func(t *testing.T) {
		w := newEnv(t, Config{})
		recs := w.sayAll(alice, 3)
		f := w.followSession(alice, chunk.Position{})
		same(t, f.get(t, 3), recs)
		w.purgeSession(alice)
		w.putAt(alice, 1, 1, chunk.TextDelta{Delta: "restarted"})
		got, err := f.end(t)
		truncated(t, err, chunk.TruncatedExpired)
		same(t, got, nil)
	})
	t.Run("everything, and the epoch restarts", func(t *testing.T) {
		w := newEnv(t, Config{})
		w.put(alice, 1, chunk.TextDelta{Delta: "x"})
		w.put(alice, 2, chunk.TextDelta{Delta: "y"})
		f := w.followSession(alice, chunk.Position{})
		f.get(t, 2)
		w.purgeSession(alice)
		w.putAt(alice, 1, 1, chunk.TextDelta{Delta: "restarted"})
		_, err := f.end(t)
		truncated(t, err, chunk.TruncatedExpired)
	})
	t.Run("the records that a slow reader has not read", func(t *testing.T) {
		w := newEnv(t, Config{})
		recs := w.sayAll(alice, 2*jsreader.BatchLive)
		var got []chunk.Record
		var err error
		for rec, e := range w.reader.Follow(t.Context(), chunk.Range{Session: alice}) {
			if e != nil {
				err = e
				break
			}
			if got = append(got, rec); len(got) == 1 {
				w.eventually("the first batch is in flight", func() bool { return true })
				w.purgeSession(alice, jetstream.WithPurgeKeep(2))
				w.say(alice, "on it goes")
			}
		}
		why := truncated(t, err, chunk.TruncatedExpired)
		same(t, got, recs[:len(got)])
		if why.After != got[len(got)-1].Seq {
			t.Errorf("After = %d, want %d", why.After, got[len(got)-1].Seq)
		}
		w.noConsumers()
	})
}

// CV-8, CV-9 of the specification: a cleanup during a read is an error only for readers that have not read the removed records.
func TestCleanup(t *testing.T) {
	t.Run("a reader that starts later gets the remaining records", func(t *testing.T) {
		w := newEnv(t, Config{})
		recs := w.sayAll(alice, 6)
		marker := w.cleanUp(alice, recs[3], recs[4])
		want := append(without(recs, recs[3], recs[4]), marker)
		want = append(want, w.sayAll(alice, 2)...)
		for _, after := range []chunk.Position{{}, recs[0].Position(), {Seq: recs[2].Seq}} {
			got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, After: after}))
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, slices.DeleteFunc(slices.Clone(want), func(r chunk.Record) bool { return r.Seq <= after.Seq }))
		}
		_, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, After: chunk.Position{Seq: recs[3].Seq}}))
		truncated(t, err, chunk.TruncatedCleanup)
		w.noConsumers()
	})
	t.Run("a reader that had read everything continues", func(t *testing.T) {
		w := newEnv(t, Config{})
		recs := w.sayAll(alice, 5)
		f := w.followSession(alice, chunk.Position{})
		same(t, f.get(t, 5), recs)
		marker := w.cleanUp(alice, recs[3], recs[4])
		same(t, f.get(t, 1), []chunk.Record{marker})
		more := w.sayAll(alice, 3)
		same(t, f.get(t, 3), more)
		f.stop(t)
	})
	t.Run("a reader that has not read the removed records fails", func(t *testing.T) {
		w := newEnv(t, Config{})
		recs := w.sayAll(alice, 2*jsreader.BatchReplay)
		var got []chunk.Record
		var err error
		var marker chunk.Record
		for rec, e := range w.reader.Replay(t.Context(), chunk.Range{Session: alice}) {
			if e != nil {
				err = e
				break
			}
			if got = append(got, rec); len(got) == 1 {
				marker = w.cleanUp(alice, recs[len(recs)-2:]...)
			}
		}
		_ = marker
		why := truncated(t, err, chunk.TruncatedCleanup)
		same(t, got, recs[:len(recs)-2])
		if why.HighWatermark != recs[len(recs)-1].Seq || why.Step == nil || why.After != got[len(got)-1].Seq {
			t.Errorf("the cleanup is reported as %+v", why)
		}
		w.noConsumers()
	})
	t.Run("a reader that allows a cleanup gets the remaining records", func(t *testing.T) {
		w := newEnv(t, Config{})
		recs := w.sayAll(alice, 2*jsreader.BatchReplay)
		for _, tree := range []bool{false, true} {
			var got []chunk.Record
			removed := recs[len(recs)-3 : len(recs)-1]
			want := without(recs, removed...)
			for rec, err := range w.reader.Replay(t.Context(), chunk.Range{Session: alice, Tree: tree, AllowCleanup: true}) {
				if err != nil {
					t.Fatal(err)
				}
				if got = append(got, rec); len(got) == 1 {
					recs = append(without(recs, removed...), w.cleanUp(alice, removed...))
				}
			}
			same(t, got[:len(want)], want)
			recs = append(recs, w.sayAll(alice, 4)...)
		}
		w.noConsumers()
	})
	t.Run("a truncated record without its deletes", func(t *testing.T) {
		w := newEnv(t, Config{})
		recs := w.sayAll(alice, 4)
		marker := w.mark(alice, recs[2], recs[3])
		got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice}))
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, append(recs, marker))
	})
	t.Run("several gaps, several truncated records", func(t *testing.T) {
		w := newEnv(t, Config{})
		a := w.sayAll(alice, 6)
		m1 := w.cleanUp(alice, a[2], a[4])
		b := w.sayAll(alice, 4)
		m2 := w.cleanUp(alice, a[3], b[3])
		c := w.say(alice, "end")
		want := []chunk.Record{a[0], a[1], a[5], m1, b[0], b[1], b[2], m2, c}
		got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice}))
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, want)
		w.remove(b[1])
		_, err = collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice}))
		truncated(t, err, chunk.TruncatedGap)
		w.noConsumers()
	})
}

// Readers detect a stream that is deleted and created again.
func TestRecreatedUnderAReader(t *testing.T) {
	for name, grow := range map[string]int{"shorter": 1, "as long": 3, "longer": 10} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t, Config{})
			recs := w.sayAll(alice, 3)
			f := w.followSession(alice, chunk.Position{})
			same(t, f.get(t, 3), recs)
			feed, fed := make(chan error, 1), make(chan struct{}, 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				defer close(feed)
				for m, err := range w.reader.Feed(ctx, 0, 0) {
					switch {
					case err != nil:
						feed <- err
					case m.Seq == recs[2].Seq:
						close(fed)
					}
				}
			}()
			<-fed
			w.recreate()
			w.sayAll(alice, grow)
			got, err := f.end(t)
			why := truncated(t, err, chunk.TruncatedRecreated)
			if len(got) > 0 || why.After != recs[2].Seq {
				t.Errorf("records %v, error %+v", positions(got), why)
			}
			truncated(t, <-feed, chunk.TruncatedRecreated)
			<-feed
			w.noConsumers()
		})
	}
	t.Run("a cursor from before", func(t *testing.T) {
		w := newEnv(t, Config{})
		recs := w.sayAll(alice, 9)
		w.recreate()
		w.sayAll(alice, 3)
		for _, after := range []chunk.Position{recs[5].Position(), {Seq: recs[5].Seq}} {
			_, err := collect(w.reader.Follow(background(t, 5*time.Second), chunk.Range{Session: alice, After: after}))
			truncated(t, err, chunk.TruncatedFuture)
		}
	})
}

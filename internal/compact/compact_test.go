package compact

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/archive"
	"github.com/tailrace/tailrace/projector/erase"
	"github.com/tailrace/tailrace/projector/kvstore"
)

// long writes records of s that fill more than two segments, and are no good to
// compress.
func (w *world) long(s chunk.Session) []chunk.Record {
	w.tb.Helper()
	random := rand.NewChaCha8([32]byte{1})
	var recs []chunk.Record
	for range 18 {
		words := make([]byte, 48<<10)
		_, err := random.Read(words)
		w.must(err)
		recs = append(recs, w.put(s, 1, chunk.TextDelta{Delta: base64.StdEncoding.EncodeToString(words)}))
	}
	return append(recs, w.put(s, 1, chunk.StreamEnd{StreamID: "x"}))
}

// begin is a Compactor at work that has looked at s.
func (w *world) begin(s chunk.Session) *job {
	w.tb.Helper()
	j, err := w.c.job(s)
	w.must(err)
	w.must(j.begin(w.ctx()))
	return j
}

func (w *world) holds(segments, indexes uint64) {
	w.tb.Helper()
	if s, i := w.stored(); s != segments || i != indexes {
		w.tb.Fatalf("the bucket has %d segments and %d indexes, want %d and %d", s, i, segments, indexes)
	}
}

func TestArchiveIsRead(t *testing.T) {
	w := newWorld(t, Config{})
	recs := w.long(alice)
	kid := w.run(alice.Child("kid"), 5)
	if n := w.agree(alice); n != 0 {
		t.Fatalf("%d records from archives, and there are none", n)
	}
	w.compact(alice)
	w.holds(3, 1)
	if wrote, err := w.c.Compact(t.Context(), alice); wrote || err != nil {
		t.Fatalf("archived again: %t, %v", wrote, err)
	}
	if n := w.agree(alice); n != 2*uint64(len(recs)) { // alone, and beside a sub-agent that has none
		t.Fatalf("%d records from archives", n)
	}
	for i, rec := range recs {
		if i%4 != 1 {
			continue
		}
		for _, after := range []chunk.Position{rec.Position(), {Seq: rec.Seq}} {
			if d := differ(w.replay(w.archives, alice, after), w.replay(w.plain, alice, after)); d != "" {
				t.Fatalf("after record %d: %s", i, d)
			}
		}
	}
	// What is not archived ends the use of the archive, until it is.
	w.put(alice, 2, chunk.RunStarted{RunID: "r2", Epoch: 2, Mode: "execute"})
	if n := w.agree(alice); n != 0 {
		t.Fatalf("%d records from an archive that the log has outgrown", n)
	}
	before := w.begin(alice).old
	w.compact(alice)
	w.holds(3, 1)
	after := w.begin(alice).old
	if before.Segments[0] != after.Segments[0] || before.Segments[1] != after.Segments[1] || before.Segments[2] == after.Segments[2] {
		t.Fatalf("segments %+v have become %+v", before.Segments, after.Segments)
	}
	w.compact(alice.Child("kid"))
	if n := w.agree(alice); n != uint64(2*(len(recs)+1)+len(kid)) {
		t.Fatalf("%d records from archives", n)
	}
}

// The log changes after it was archived: the archive is not what the log has.
func TestTheLogIsRight(t *testing.T) {
	for name, change := range map[string]func(w *world, recs []chunk.Record){
		"one is lost":      func(w *world, recs []chunk.Record) { w.remove(recs[5].Seq) },
		"the last is lost": func(w *world, recs []chunk.Record) { w.remove(recs[len(recs)-1].Seq) },
		"one is lost, one is stored": func(w *world, recs []chunk.Record) {
			w.remove(recs[5].Seq)
			w.put(alice, 1, chunk.TextDelta{Delta: "x"})
		},
		"the beginning has expired": func(w *world, recs []chunk.Record) {
			w.must(w.log().Purge(w.ctx(), jetstream.WithPurgeSequence(uint64(recs[3].Seq))))
		},
		"all has expired":        func(w *world, _ []chunk.Record) { w.must(w.log().Purge(w.ctx())) },
		"the session is deleted": func(w *world, _ []chunk.Record) { w.purge(alice) },
		"a message that is no record": func(w *world, _ []chunk.Record) {
			_, err := w.js.Publish(w.ctx(), w.subject(alice), []byte("x"))
			w.must(err)
		},
		"the same session begins anew": func(w *world, recs []chunk.Record) { w.purge(alice); w.next[alice] = 0; w.run(alice, len(recs)) },
		"the stream is made again": func(w *world, recs []chunk.Record) {
			w.must(w.js.DeleteStream(w.ctx(), w.layout.Stream(0)))
			w.ensure()
			w.next[alice] = 0
			w.run(alice, len(recs)) // the same sequences
		},
		"the end is rolled back and written again": func(w *world, recs []chunk.Record) {
			j := w.begin(alice)
			j.old.Last.Stored++ // as if the last message had been another one
			w.must(j.commit(w.ctx(), j.old))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{})
			recs := w.run(alice, 20)
			w.compact(alice)
			change(w, recs)
			if n := w.agree(alice); n != 0 {
				t.Fatalf("%d records were read from an archive that does not fit", n)
			}
		})
	}
}

// The archive is damaged: the log is read, and the next Compact repairs it.
func TestDamage(t *testing.T) {
	for name, harm := range map[string]func(w *world, x *archive.Index){
		"the first segment is lost": func(w *world, x *archive.Index) { w.must(w.bucket().DeleteMsg(w.ctx(), x.Segments[0].At)) },
		"the last segment is lost":  func(w *world, x *archive.Index) { w.must(w.bucket().DeleteMsg(w.ctx(), x.Segments[2].At)) },
		"an unknown version": func(w *world, _ *archive.Index) {
			j := w.begin(alice)
			_, err := w.js.Publish(w.ctx(), j.index, []byte(`{"version":99}`))
			w.must(err)
		},
		"the index is lost": func(w *world, _ *archive.Index) {
			w.must(w.bucket().Purge(w.ctx(), jetstream.WithPurgeSubject(w.begin(alice).index)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{})
			w.long(alice)
			w.compact(alice)
			harm(w, w.begin(alice).old)
			w.agree(alice)
			w.compact(alice)
			if n := w.agree(alice); n == 0 {
				t.Fatal("the archive was not repaired")
			}
			if segments, _ := w.stored(); segments != 3 {
				t.Fatalf("%d segments are left, want 3", segments)
			}
		})
	}
	t.Run("another one in its place", func(t *testing.T) {
		w := newWorld(t, Config{})
		w.long(alice)
		w.compact(alice)
		j := w.begin(alice)
		j.old.Segments[1].At = j.old.Segments[0].At
		w.must(j.commit(t.Context(), j.old))
		w.agree(alice)
	})
	t.Run("the bucket is lost", func(t *testing.T) {
		w := newWorld(t, Config{})
		w.run(alice, 20)
		w.compact(alice)
		w.must(w.js.DeleteStream(t.Context(), archive.Stream(w.layout)))
		if n := w.agree(alice); n != 0 {
			t.Fatalf("%d records from nowhere", n)
		}
		if _, err := w.c.Compact(t.Context(), alice); !errors.Is(err, jetstream.ErrStreamNotFound) {
			var api *jetstream.APIError
			if !errors.As(err, &api) || api.ErrorCode != jetstream.JSErrCodeStreamNotFound {
				t.Fatalf("err = %v, want that there is no bucket", err)
			}
		}
	})
}

// A Compactor dies with its segments written and its index not.
func TestDiesBeforeTheIndex(t *testing.T) {
	w := newWorld(t, Config{})
	w.long(alice)
	j := w.begin(alice)
	if _, err := j.pack(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.holds(3, 0)
	if n := w.agree(alice); n != 0 {
		t.Fatalf("%d records of an archive that is not there", n)
	}
	w.compact(alice)
	w.holds(3, 1)
	if n := w.agree(alice); n == 0 {
		t.Fatal("the archive is not read")
	}
}

// … and another one with the index written and the old segments still there.
func TestDiesBeforeTidying(t *testing.T) {
	w := newWorld(t, Config{})
	w.long(alice)
	w.compact(alice)
	w.run(alice, 5)
	j := w.begin(alice)
	x, err := j.pack(t.Context())
	w.must(err)
	w.must(j.check(t.Context(), x))
	w.must(j.commit(t.Context(), x))
	w.holds(4, 1)
	if n := w.agree(alice); n == 0 {
		t.Fatal("the archive is not read")
	}
	w.compact(alice)
	w.holds(3, 1)
}

// Two at once: one index stands, with all of its segments and no others.
func TestTwoCompactors(t *testing.T) {
	w := newWorld(t, Config{})
	for i := range 2 {
		w.long(alice)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				_, err := w.c.Compact(t.Context(), alice)
				if err != nil && !errors.Is(err, ErrUnfit) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		j := w.begin(alice)
		w.holds(uint64(len(j.old.Segments)), 1)
		if n := w.agree(alice); n == 0 {
			t.Fatalf("round %d: the archive is not read", i)
		}
	}
}

// Something happens to the session between the steps of a Compactor.
func TestBetweenTheSteps(t *testing.T) {
	events := map[string]func(w *world, recs []chunk.Record){
		"it is deleted":    func(w *world, _ []chunk.Record) { w.purge(alice) },
		"one is lost":      func(w *world, recs []chunk.Record) { w.remove(recs[3].Seq) },
		"it begins anew":   func(w *world, _ []chunk.Record) { w.purge(alice); w.next[alice] = 0; w.run(alice, 20) },
		"it goes on":       func(w *world, _ []chunk.Record) { w.run(alice, 3) },
		"another archives": func(w *world, _ []chunk.Record) { w.run(alice, 3); w.compact(alice) },
	}
	for name, event := range events {
		for step := range 3 {
			t.Run(fmt.Sprintf("%s before step %d", name, step), func(t *testing.T) {
				w := newWorld(t, Config{})
				recs := w.run(alice, 20)
				j := w.begin(alice)
				happens := func(at int) {
					if at == step {
						event(w, recs)
					}
				}
				happens(0)
				x, err := j.pack(t.Context())
				if err == nil {
					happens(1)
					err = j.check(t.Context(), x)
				}
				if err == nil {
					happens(2)
					err = j.commit(t.Context(), x)
				}
				if err == nil {
					err = j.after(t.Context(), x)
				} else {
					w.must(j.remove(t.Context(), j.written))
				}
				if err != nil && !errors.Is(err, ErrUnfit) && !errors.Is(err, chunk.ErrUnknownSession) {
					t.Fatal(err)
				}
				w.agree(alice)
				if name == "it is deleted" {
					w.holds(0, 0)
				}
			})
		}
	}
}

// A hole that a clean-up made is explained by the archive itself.
func TestCleanedUp(t *testing.T) {
	w := newWorld(t, Config{})
	recs := w.run(alice, 30)
	mark := chunk.Truncated{TruncatedAtStep: 1, FromSequence: int64(recs[10].Seq), AtSequence: int64(recs[19].Seq), Removed: []chunk.OrdinalRange{{First: 11, Last: 20}}}
	w.put(alice, 1, mark)
	for _, rec := range recs[10:20] {
		w.remove(rec.Seq)
	}
	w.compact(alice)
	if n := w.agree(alice); n != 42 {
		t.Fatalf("%d records from the archive, want 42", n)
	}
	for _, after := range []chunk.Position{recs[9].Position(), recs[12].Position(), recs[19].Position(), {Seq: recs[25].Seq, Ordinal: 3}, {Seq: recs[12].Seq, Ordinal: 2}} {
		if d := differ(w.replay(w.archives, alice, after), w.replay(w.plain, alice, after)); d != "" {
			t.Fatalf("after %v: %s", after, d)
		}
	}
}

// A live read begins in the archive and goes on in the log.
func TestFollow(t *testing.T) {
	w := newWorld(t, Config{})
	recs := w.run(alice, 20)
	w.compact(alice)
	ended := func(r *consumers.Reader) (a answer) {
		for rec, err := range r.Follow(t.Context(), alice, chunk.Position{}) {
			a.add(rec, err)
		}
		return a
	}
	if d := differ(ended(w.archives), ended(w.plain)); d != "" {
		t.Fatal(d)
	}
	if n := w.archives.Stats().Archived; n != 20 {
		t.Fatalf("%d records from the archive", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	i := 0
	for rec, err := range w.archives.Tree(ctx, alice, recs[9].Seq, consumers.KeepOpen()) {
		w.must(err)
		if i++; i == 10 { // all of the archive is given out
			recs = append(recs, w.run(alice.Child("newborn"), 2)...)
			recs = append(recs, w.run(alice, 3)...)
		}
		want := recs[9+i]
		if rec.Seq != want.Seq || !bytes.Equal(rec.Data, want.Data) {
			t.Fatalf("record %d is %+v, want %+v", i, rec, want)
		}
		if i == 15 {
			return
		}
	}
	t.Fatal("it ended")
}

// Who deletes a session deletes its archive.
func TestErased(t *testing.T) {
	w := newWorld(t, Config{})
	w.run(alice, 20)
	w.run(alice.Child("kid"), 20)
	w.compact(alice)
	w.compact(alice.Child("kid"))
	store, err := kvstore.New(w.js, kvstore.Config{})
	w.must(err)
	eraser, err := erase.New(w.js, store, erase.Config{})
	w.must(err)
	w.must(eraser.Delete(t.Context(), alice))
	w.holds(0, 0)
	w.agree(alice)
}

func TestSweep(t *testing.T) {
	w := newWorld(t, Config{After: time.Nanosecond, Least: 10})
	ended, running, short, torn := alice, chunk.RootSession("acme", "running"), chunk.RootSession("acme", "short"), chunk.RootSession("acme", "torn")
	tornRecs := w.run(torn, 20)
	w.run(ended, 20)
	w.run(running, 20)
	w.put(running, 2, chunk.RunStarted{RunID: "r2", Epoch: 2, Mode: "execute"})
	w.run(short, 5)
	w.remove(tornRecs[4].Seq)
	sweep := func(want Report) {
		t.Helper()
		if r, err := w.c.Sweep(t.Context()); err != nil || r != want {
			t.Fatalf("%+v, %v: want %+v", r, err, want)
		}
	}
	sweep(Report{Archived: 1, Unfit: 1})
	sweep(Report{}) // and the unfit one is not read again
	w.holds(1, 1)
	w.run(ended, 20)
	w.run(torn, 1)
	sweep(Report{Archived: 1, Unfit: 1})
	young, err := New(w.js, Config{After: time.Hour, Least: 1})
	w.must(err)
	if r, err := young.Sweep(t.Context()); err != nil || r != (Report{}) {
		t.Fatalf("%+v, %v: nothing is an hour old", r, err)
	}
	w.purge(ended)
	sweep(Report{Removed: 1})
	w.holds(0, 0)
}

func TestRun(t *testing.T) {
	w := newWorld(t, Config{After: time.Nanosecond, Every: time.Second})
	recs := w.run(alice, 300)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- w.c.Run(ctx) }()
	limit := time.After(20 * time.Second)
	for w.agree(alice) != 2*uint64(len(recs)) {
		select {
		case err := <-done:
			t.Fatal(err)
		case <-limit:
			t.Fatal("no archive after 20 seconds")
		default:
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestConfig(t *testing.T) {
	w := newWorld(t, Config{})
	for field, cfg := range map[string]Config{
		"After": {After: -1}, "Least": {Least: -1}, "Every": {Every: 1}, "Patience": {Patience: -1},
	} {
		if _, err := New(w.js, cfg); err == nil || !strings.HasPrefix(err.Error(), field+" is ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

package retention

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/archive"
	"github.com/tailrace/tailrace/internal/jssnapshots"
)

// long writes records of s that fill more than two segments and are not compressible.
func (w *archiveEnv) long(s chunk.Session) []chunk.Record {
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

// begin returns a job that has read the archive and the log of s.
func (w *archiveEnv) begin(s chunk.Session) *archiveJob {
	w.tb.Helper()
	j, err := w.c.job(s)
	w.must(err)
	w.must(j.begin(w.ctx()))
	return j
}

func (w *archiveEnv) holds(segments, indexes uint64) {
	w.tb.Helper()
	if s, i := w.stored(); s != segments || i != indexes {
		w.tb.Fatalf("the bucket has %d segments and %d indexes, want %d and %d", s, i, segments, indexes)
	}
}

func TestArchiveIsRead(t *testing.T) {
	w := newArchiveEnv(t, ArchiverConfig{})
	recs := w.long(alice)
	kid := w.run(alice.Child("kid"), 5)
	if n := w.agree(alice); n != 0 {
		t.Fatalf("%d records from archives, want none", n)
	}
	w.archiveSession(alice)
	w.holds(3, 1)
	if wrote, err := w.c.Archive(t.Context(), alice); wrote || err != nil {
		t.Fatalf("archived again: %t, %v", wrote, err)
	}
	if n := w.agree(alice); n != 2*uint64(len(recs)) { // alone, and with a sub-agent without an archive
		t.Fatalf("%d records from archives", n)
	}
	for i, rec := range recs {
		if i%4 != 1 {
			continue
		}
		for _, after := range []chunk.Position{rec.Position(), {Seq: rec.Seq}} {
			if d := differ(w.both(chunk.Range{Session: alice, After: after})); d != "" {
				t.Fatalf("after record %d: %s", i, d)
			}
		}
	}
	// A later record makes the archive useless until the session is archived again.
	w.put(alice, 2, chunk.RunStarted{RunID: "r2", Epoch: 2, Mode: "execute"})
	if n := w.agree(alice); n != 0 {
		t.Fatalf("%d records from an outdated archive", n)
	}
	before := w.begin(alice).old
	w.archiveSession(alice)
	w.holds(3, 1)
	after := w.begin(alice).old
	if before.Segments[0] != after.Segments[0] || before.Segments[1] != after.Segments[1] || before.Segments[2] == after.Segments[2] {
		t.Fatalf("segments %+v changed to %+v", before.Segments, after.Segments)
	}
	w.archiveSession(alice.Child("kid"))
	if n := w.agree(alice); n != uint64(2*(len(recs)+1)+len(kid)) {
		t.Fatalf("%d records from archives", n)
	}
}

// A large tree is read from archives, if only a few of its sessions have none.
func TestLargeTree(t *testing.T) {
	w := newArchiveEnv(t, ArchiverConfig{})
	records := len(w.run(alice, 5))
	w.archiveSession(alice)
	for n := range 8 {
		kid := alice.Child(fmt.Sprint("kid", n))
		records += len(w.run(kid, 5))
		w.archiveSession(kid)
	}
	w.run(alice.Child("new"), 5)
	if n, want := w.agree(alice), uint64(5+records); n != want {
		t.Errorf("%d records from archives, want %d", n, want)
	}
}

// The log changes after it was archived: the archive does not match and is not read.
func TestChangedLog(t *testing.T) {
	for name, change := range map[string]func(w *archiveEnv, recs []chunk.Record){
		"one is lost":      func(w *archiveEnv, recs []chunk.Record) { w.remove(recs[5].Seq) },
		"the last is lost": func(w *archiveEnv, recs []chunk.Record) { w.remove(recs[len(recs)-1].Seq) },
		"one is lost, one is stored": func(w *archiveEnv, recs []chunk.Record) {
			w.remove(recs[5].Seq)
			w.put(alice, 1, chunk.TextDelta{Delta: "x"})
		},
		"the beginning has expired": func(w *archiveEnv, recs []chunk.Record) {
			w.must(w.log().Purge(w.ctx(), jetstream.WithPurgeSequence(uint64(recs[3].Seq))))
		},
		"all has expired":        func(w *archiveEnv, _ []chunk.Record) { w.must(w.log().Purge(w.ctx())) },
		"the session is deleted": func(w *archiveEnv, _ []chunk.Record) { w.purge(alice) },
		"a malformed message": func(w *archiveEnv, _ []chunk.Record) {
			_, err := w.js.Publish(w.ctx(), w.subject(alice), []byte("x"))
			w.must(err)
		},
		"a new run after a purge": func(w *archiveEnv, recs []chunk.Record) { w.purge(alice); w.next[alice] = 0; w.run(alice, len(recs)) },
		"the stream is recreated": func(w *archiveEnv, recs []chunk.Record) {
			w.must(w.js.DeleteStream(w.ctx(), w.layout.Stream(0)))
			w.ensure()
			w.next[alice] = 0
			w.run(alice, len(recs)) // the same sequences
		},
		"the end is rolled back and written again": func(w *archiveEnv, recs []chunk.Record) {
			j := w.begin(alice)
			j.old.Last.Stored++ // a different last message
			w.must(j.commit(w.ctx(), j.old))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newArchiveEnv(t, ArchiverConfig{})
			recs := w.run(alice, 20)
			w.archiveSession(alice)
			change(w, recs)
			if n := w.agree(alice); n != 0 {
				t.Fatalf("%d records from an archive that does not match", n)
			}
		})
	}
}

// The archive is corrupt: readers use the log, and the next Archive replaces it.
func TestDamage(t *testing.T) {
	for name, harm := range map[string]func(w *archiveEnv, x *archive.Index){
		"the first segment is lost": func(w *archiveEnv, x *archive.Index) { w.must(w.bucket().DeleteMsg(w.ctx(), x.Segments[0].Seq)) },
		"the last segment is lost":  func(w *archiveEnv, x *archive.Index) { w.must(w.bucket().DeleteMsg(w.ctx(), x.Segments[2].Seq)) },
		"an unknown version": func(w *archiveEnv, _ *archive.Index) {
			j := w.begin(alice)
			_, err := w.js.Publish(w.ctx(), j.index, []byte(`{"version":99}`))
			w.must(err)
		},
		"the index is lost": func(w *archiveEnv, _ *archive.Index) {
			w.must(w.bucket().Purge(w.ctx(), jetstream.WithPurgeSubject(w.begin(alice).index)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newArchiveEnv(t, ArchiverConfig{})
			w.long(alice)
			w.archiveSession(alice)
			harm(w, w.begin(alice).old)
			w.agree(alice)
			w.archiveSession(alice)
			if n := w.agree(alice); n == 0 {
				t.Fatal("the archive was not repaired")
			}
			if segments, _ := w.stored(); segments != 3 {
				t.Fatalf("%d segments, want 3", segments)
			}
		})
	}
	t.Run("another one in its place", func(t *testing.T) {
		w := newArchiveEnv(t, ArchiverConfig{})
		w.long(alice)
		w.archiveSession(alice)
		j := w.begin(alice)
		j.old.Segments[1].Seq = j.old.Segments[0].Seq
		w.must(j.commit(t.Context(), j.old))
		w.agree(alice)
	})
	t.Run("the bucket is lost", func(t *testing.T) {
		w := newArchiveEnv(t, ArchiverConfig{})
		w.run(alice, 20)
		w.archiveSession(alice)
		w.must(w.js.DeleteStream(t.Context(), archive.Stream(w.layout)))
		if n := w.agree(alice); n != 0 {
			t.Fatalf("%d records from a missing bucket", n)
		}
		if _, err := w.c.Archive(t.Context(), alice); !errors.Is(err, jetstream.ErrStreamNotFound) {
			var api *jetstream.APIError
			if !errors.As(err, &api) || api.ErrorCode != jetstream.JSErrCodeStreamNotFound {
				t.Fatalf("error %v, want a missing bucket", err)
			}
		}
	})
}

// An Archiver crashes after it has stored its segments and before the index.
func TestCrashBeforeTheIndex(t *testing.T) {
	w := newArchiveEnv(t, ArchiverConfig{})
	w.long(alice)
	j := w.begin(alice)
	if _, err := j.pack(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.holds(3, 0)
	if n := w.agree(alice); n != 0 {
		t.Fatalf("%d records of an archive without an index", n)
	}
	w.archiveSession(alice)
	w.holds(3, 1)
	if n := w.agree(alice); n == 0 {
		t.Fatal("the archive is not read")
	}
}

// An Archiver crashes after it has stored the index and before it has removed the old segments.
func TestCrashBeforeTheRemoval(t *testing.T) {
	w := newArchiveEnv(t, ArchiverConfig{})
	w.long(alice)
	w.archiveSession(alice)
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
	w.archiveSession(alice)
	w.holds(3, 1)
}

// Two Archivers work concurrently: one index is stored, with all of its segments and no others.
func TestTwoArchivers(t *testing.T) {
	w := newArchiveEnv(t, ArchiverConfig{})
	for i := range 2 {
		w.long(alice)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				_, err := w.c.Archive(t.Context(), alice)
				if err != nil && !errors.Is(err, ErrNotArchivable) {
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

// The session changes between the steps of an Archiver.
func TestBetweenTheSteps(t *testing.T) {
	events := map[string]func(w *archiveEnv, recs []chunk.Record){
		"it is deleted":           func(w *archiveEnv, _ []chunk.Record) { w.purge(alice) },
		"one is lost":             func(w *archiveEnv, recs []chunk.Record) { w.remove(recs[3].Seq) },
		"a new run after a purge": func(w *archiveEnv, _ []chunk.Record) { w.purge(alice); w.next[alice] = 0; w.run(alice, 20) },
		"it continues":            func(w *archiveEnv, _ []chunk.Record) { w.run(alice, 3) },
		"another archives":        func(w *archiveEnv, _ []chunk.Record) { w.run(alice, 3); w.archiveSession(alice) },
	}
	for name, event := range events {
		for step := range 3 {
			t.Run(fmt.Sprintf("%s before step %d", name, step), func(t *testing.T) {
				w := newArchiveEnv(t, ArchiverConfig{})
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
				if err != nil && !errors.Is(err, ErrNotArchivable) && !errors.Is(err, chunk.ErrUnknownSession) {
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

// The archive itself explains a gap that a cleanup has made.
func TestArchiveExplainsACleanup(t *testing.T) {
	w := newArchiveEnv(t, ArchiverConfig{})
	recs := w.run(alice, 30)
	mark := chunk.Truncated{TruncatedAtStep: 1, FromSequence: int64(recs[10].Seq), AtSequence: int64(recs[19].Seq), Removed: []chunk.OrdinalRange{{First: 11, Last: 20}}}
	w.put(alice, 1, mark)
	for _, rec := range recs[10:20] {
		w.remove(rec.Seq)
	}
	w.archiveSession(alice)
	if n := w.agree(alice); n != 42 {
		t.Fatalf("%d records from the archive, want 42", n)
	}
	for _, after := range []chunk.Position{recs[9].Position(), recs[12].Position(), recs[19].Position(), {Seq: recs[25].Seq, Ordinal: 3}, {Seq: recs[12].Seq, Ordinal: 2}} {
		if d := differ(w.both(chunk.Range{Session: alice, After: after})); d != "" {
			t.Fatalf("after %v: %s", after, d)
		}
	}
}

// A live read starts in the archive and continues in the log.
func TestFollow(t *testing.T) {
	w := newArchiveEnv(t, ArchiverConfig{})
	recs := w.run(alice, 20)
	w.archiveSession(alice)
	ended := func(r *consumers.Reader) (a answer) {
		for rec, err := range r.Follow(t.Context(), chunk.Range{Session: alice}) {
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
	for rec, err := range w.archives.Follow(ctx, chunk.Range{Session: alice, Tree: true, After: chunk.Position{Seq: recs[9].Seq}}, consumers.KeepOpen()) {
		w.must(err)
		if i++; i == 10 { // the archive is read completely
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

// Deleting a session deletes its archive.
func TestErased(t *testing.T) {
	w := newArchiveEnv(t, ArchiverConfig{})
	w.run(alice, 20)
	w.run(alice.Child("kid"), 20)
	w.archiveSession(alice)
	w.archiveSession(alice.Child("kid"))
	store, err := jssnapshots.New(w.js, jssnapshots.Config{})
	w.must(err)
	eraser, err := NewEraser(w.js, store, EraserConfig{})
	w.must(err)
	w.must(eraser.Delete(t.Context(), alice))
	w.holds(0, 0)
	w.agree(alice)
}

func TestSweep(t *testing.T) {
	w := newArchiveEnv(t, ArchiverConfig{MinAge: time.Nanosecond, MinMessages: 10})
	ended, running, short, incomplete := alice, chunk.RootSession("acme", "running"), chunk.RootSession("acme", "short"), chunk.RootSession("acme", "incomplete")
	incompleteRecs := w.run(incomplete, 20)
	w.run(ended, 20)
	w.run(running, 20)
	w.put(running, 2, chunk.RunStarted{RunID: "r2", Epoch: 2, Mode: "execute"})
	w.run(short, 5)
	w.remove(incompleteRecs[4].Seq)
	sweep := func(want Report) {
		t.Helper()
		if r, err := w.c.Sweep(t.Context()); err != nil || r != want {
			t.Fatalf("%+v, %v: want %+v", r, err, want)
		}
	}
	sweep(Report{Archived: 1, NotArchivable: 1})
	sweep(Report{}) // the incomplete session is not read again
	w.holds(1, 1)
	w.run(ended, 20)
	w.run(incomplete, 1)
	sweep(Report{Archived: 1, NotArchivable: 1})
	young, err := NewArchiver(w.js, ArchiverConfig{MinAge: time.Hour, MinMessages: 1})
	w.must(err)
	if r, err := young.Sweep(t.Context()); err != nil || r != (Report{}) {
		t.Fatalf("%+v, %v: no session is an hour old", r, err)
	}
	w.purge(ended)
	sweep(Report{Removed: 1})
	w.holds(0, 0)
}

package fold

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

// All laws at once, on one log: what `make unit` does to a hundred thousand of
// them. The tests below look for each law by itself, on longer logs, and shrink
// to what breaks it.
func TestLaws(t *testing.T) {
	laws(t, 16, func(t *rapid.T, a *author) {
		plain, saved, twice := New(session), New(session), New(session)
		for i, rec := range a.all {
			log := a.survivors(i + 1)
			plain = take(t, plain, rec, log)
			// A save and a load after every record: at every cut at once.
			saved = take(t, reload(t, saved), rec, log)
			equal(t, "saved and loaded", saved, plain)
			twice = take(t, take(t, twice, rec, log), rec, log)
		}
		again := a.all[:rapid.IntRange(0, len(a.all)).Draw(t, "again")]
		for _, rec := range again {
			twice = take(t, twice, rec, again)
		}
		equal(t, "twice", twice, plain)
		twinAgrees(t, a, plain)
		if n := len(a.all); n > 0 && len(plain.gone) == 0 {
			equal(t, "the survivors", read(t, New(session), a.survivors(n)), plain)
		}
	})
}

// Folding a prefix, saving, loading and folding the rest is folding all: at
// every cut, with and without the finished messages in memory.
func TestPrefixSaveLoadRestIsAll(t *testing.T) {
	laws(t, 60, func(t *rapid.T, a *author) {
		want := whole(t, a, len(a.all), false)
		cut := rapid.IntRange(0, len(a.all)).Draw(t, "cut")
		s := reload(t, whole(t, a, cut, false))
		for i, rec := range a.all[cut:] {
			s = take(t, s, rec, a.all[:cut+i+1])
		}
		equal(t, "prefix, save, load, rest", s, want)
	})
}

// The same with a save and a load after every single record, which also proves
// that nothing the fold needs is left out of the stored form.
func TestSaveAndLoadAfterEveryRecord(t *testing.T) {
	laws(t, 40, func(t *rapid.T, a *author) {
		plain, saved := New(session), New(session)
		for i, rec := range a.all {
			plain = take(t, plain, rec, a.all[:i+1])
			saved = take(t, reload(t, saved), rec, a.all[:i+1])
			equal(t, "record by record", saved, plain)
		}
	})
}

// A snapshot without its finished messages folds the same head.
func TestReleasedFoldsTheSame(t *testing.T) {
	laws(t, 60, func(t *rapid.T, a *author) {
		want, lean := New(session), New(session)
		var finished []Finished // what a store would hold
		for i, rec := range a.all {
			want = take(t, want, rec, a.all[:i+1])
			lean = take(t, lean, rec, a.all[:i+1])
			first := lean.FinishedCount() - len(lean.Finished())
			finished = append(finished[:min(first, len(finished))], lean.Finished()...)
			finished = finished[:lean.FinishedCount()]
			lean = lean.Release()
		}
		data := make([][]byte, len(finished))
		for i, f := range finished {
			data[i] = f.Data
			if f.Generation != lean.Generation(i) || f.Index != i {
				t.Fatalf("message %d: index %d, generation %d, want %d", i, f.Index, f.Generation, lean.Generation(i))
			}
		}
		lean, err := lean.Hold(data)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "lean", lean, want)
	})
}

// Applying a record twice is applying it once, now or later.
func TestTwiceIsOnce(t *testing.T) {
	laws(t, 60, func(t *rapid.T, a *author) {
		once, twice := New(session), New(session)
		for i, rec := range a.all {
			once = take(t, once, rec, a.all[:i+1])
			twice = take(t, twice, rec, a.all[:i+1])
			again := a.all[rapid.IntRange(0, i).Draw(t, "again")]
			twice = take(t, twice, again, a.all[:i+1])
			twice = take(t, twice, rec, a.all[:i+1])
		}
		equal(t, "twice", twice, once)
	})
}

// Records that come in any order are applied in the right one, because those
// that are missing are read from the log.
func TestAnyOrderOfDelivery(t *testing.T) {
	laws(t, 60, func(t *rapid.T, a *author) {
		want := whole(t, a, len(a.all), false)
		s := New(session)
		for _, rec := range rapid.Permutation(a.all).Draw(t, "order") {
			s = take(t, s, rec, a.all)
		}
		equal(t, "shuffled", s, want)
	})
}

// A clean-up leaves one truth: whoever folded everything as it came and whoever
// reads only what survived have the same snapshot from the mark on, whether or
// not the deletes are through when the mark is seen.
func TestCleanUpLeavesOneTruth(t *testing.T) {
	laws(t, 80, func(t *rapid.T, a *author) {
		for n := 1; n <= len(a.all); n++ {
			if n < len(a.all) && a.all[n-1].Type != chunk.TypeTruncated {
				continue
			}
			survivors := read(t, New(session), a.survivors(n))
			if len(survivors.gone) > 0 {
				t.Fatalf("unexplained: %v", survivors.gone)
			}
			equal(t, "deleted", whole(t, a, n, true), survivors)
			equal(t, "not yet deleted", whole(t, a, n, false), survivors)
		}
	})
}

// The same through a save and a load anywhere between: what a mark takes back
// may have been folded by a process that is long dead.
func TestCleanUpAfterReload(t *testing.T) {
	laws(t, 80, func(t *rapid.T, a *author) {
		cut := rapid.IntRange(0, len(a.all)).Draw(t, "cut")
		s := reload(t, whole(t, a, cut, true))
		for i, rec := range a.all[cut:] {
			s = take(t, s, rec, a.survivors(cut+i+1))
		}
		equal(t, "reloaded", s, read(t, New(session), a.survivors(len(a.all))))
	})
}

// Deletes are not atomic: whatever part of what the marks list is gone when
// somebody looks, and wherever he begins, the end is the same.
func TestCleanUpHalfThrough(t *testing.T) {
	laws(t, 80, func(t *rapid.T, a *author) {
		gone := make(map[chunk.Ordinal]bool)
		look := func(n int) []chunk.Record {
			var log []chunk.Record
			for i, rec := range a.all[:n] {
				if a.removed[i] != 0 && a.removed[i] < n && !gone[rec.Ordinal] {
					gone[rec.Ordinal] = rapid.Bool().Draw(t, "deleted")
				}
				if !gone[rec.Ordinal] {
					log = append(log, rec)
				}
			}
			return log
		}
		s := New(session)
		for i, rec := range a.all {
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				s = read(t, New(session), look(i))
			}
			s = take(t, s, rec, look(i+1))
		}
		equal(t, "half through", s, read(t, New(session), a.survivors(len(a.all))))
	})
}

// One index and generation name one content, whoever folds, whatever was
// deleted when: finished messages can be stored under them without a lock.
func TestOneNameOneContent(t *testing.T) {
	laws(t, 80, func(t *rapid.T, a *author) {
		type name struct {
			index      int
			generation chunk.Ordinal
		}
		content := make(map[name]string)
		note := func(s Snapshot) {
			for _, f := range s.Finished() {
				n := name{f.Index, f.Generation}
				if had, ok := content[n]; ok && had != string(f.Data) {
					t.Fatalf("%v:\n one %s\n two %s", n, had, f.Data)
				}
				content[n] = string(f.Data)
			}
		}
		s := New(session)
		for i, rec := range a.all {
			s = take(t, s, rec, a.survivors(i+1))
			note(s)
		}
		// A reader of the survivors at the end, at every place on its way.
		log := a.survivors(len(a.all))
		r := New(session)
		for _, rec := range log {
			r = take(t, Across(r, rec, TakenBack), rec, log)
			note(r)
		}
	})
}

// What a page shows without the answer in flight is what the snapshot at its
// cursor shows: the stream from there brings the rest, nothing twice.
func TestPageIsTheSnapshotAtItsCursor(t *testing.T) {
	laws(t, 60, func(t *rapid.T, a *author) {
		log := a.survivors(len(a.all))
		s := read(t, New(session), log)
		page := s.Frontend(false, 5)
		at := New(session)
		for _, rec := range log {
			if rec.Seq <= page.StreamSequence {
				at = read(t, at, append(log[:0:0], rec))
			}
		}
		want := at.Frontend(true, 5)
		want.Status = page.Status // a run is at work, which its first record may not say
		want.AgentType = page.AgentType
		if got, want := string(page.AppendJSON(nil)), string(want.AppendJSON(nil)); got != want {
			t.Fatalf("page:\n got %s\nwant %s", got, want)
		}
	})
}

// Bounded: what is complete leaves the head, so that a head holds the turn in
// flight and not the session.
func TestHeadStaysSmall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newAuthor(t)
		s := New(session)
		size := 0
		for turn := range 30 {
			from := len(a.all)
			a.start("execute")
			for range 5 {
				a.step++
				a.write(chunk.StepStart{})
				a.write(chunk.TextDelta{Delta: strings.Repeat("x", 100)})
				a.write(chunk.StepEnd{})
			}
			a.write(chunk.StreamEnd{StreamID: "s1"})
			for i, rec := range a.all[from:] {
				s = take(t, s, rec, a.all[:from+i+1])
			}
			s = s.Release()
			if head := len(s.AppendHead(nil)); turn == 0 {
				size = head
			} else if head > size+size/4+1000 {
				t.Fatalf("turn %d: head has %d bytes, the first had %d", turn, head, size)
			}
		}
	})
}

package fold

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

// TestLaws checks all laws for one log; `make unit` runs it for a hundred thousand logs. The tests below check each law
// separately, for longer logs, and shrink failures.
func TestLaws(t *testing.T) {
	laws(t, 16, func(t *rapid.T, a *generator) {
		plain, saved, twice := newSnapshot(session), newSnapshot(session), newSnapshot(session)
		for i, rec := range a.all {
			log := a.survivors(i + 1)
			plain = take(t, plain, rec, log)
			// Save and load after every record covers every split.
			saved = take(t, reload(t, saved), rec, log)
			equal(t, "saved and loaded", saved, plain)
			twice = take(t, take(t, twice, rec, log), rec, log)
		}
		again := a.all[:rapid.IntRange(0, len(a.all)).Draw(t, "again")]
		for _, rec := range again {
			twice = take(t, twice, rec, again)
		}
		equal(t, "twice", twice, plain)
		checkReference(t, a, plain)
		if n := len(a.all); n > 0 && len(plain.removedAhead) == 0 {
			equal(t, "remaining records", read(t, newSnapshot(session), a.survivors(n)), plain)
		}
	})
}

// TestPrefixSaveLoadRestIsAll checks that folding a prefix, saving, loading and folding the rest equals folding all records: at
// every split, with and without the finished messages in memory.
func TestPrefixSaveLoadRestIsAll(t *testing.T) {
	laws(t, 60, func(t *rapid.T, a *generator) {
		want := whole(t, a, len(a.all), false)
		cut := rapid.IntRange(0, len(a.all)).Draw(t, "cut")
		s := reload(t, whole(t, a, cut, false))
		for i, rec := range a.all[cut:] {
			s = take(t, s, rec, a.all[:cut+i+1])
		}
		equal(t, "prefix, save, load, rest", s, want)
	})
}

// TestSaveAndLoadAfterEveryRecord does the same after every record, which also proves that the stored form is complete.
func TestSaveAndLoadAfterEveryRecord(t *testing.T) {
	laws(t, 40, func(t *rapid.T, a *generator) {
		plain, saved := newSnapshot(session), newSnapshot(session)
		for i, rec := range a.all {
			plain = take(t, plain, rec, a.all[:i+1])
			saved = take(t, reload(t, saved), rec, a.all[:i+1])
			equal(t, "record by record", saved, plain)
		}
	})
}

// TestTrimmedFoldsTheSame checks that a snapshot without its finished messages folds to the same head.
func TestTrimmedFoldsTheSame(t *testing.T) {
	laws(t, 60, func(t *rapid.T, a *generator) {
		want, lean := newSnapshot(session), newSnapshot(session)
		var finished []FinishedMessage // the stored messages
		for i, rec := range a.all {
			want = take(t, want, rec, a.all[:i+1])
			lean = take(t, lean, rec, a.all[:i+1])
			first := lean.TrimmedCount()
			finished = append(finished[:min(first, len(finished))], lean.FinishedMessages()...)
			finished = finished[:first+len(lean.FinishedMessages())]
			lean = lean.trimFinished()
		}
		data := make([][]byte, lean.TrimmedCount())
		for i, f := range finished {
			if i < len(data) {
				data[i] = f.Data
			}
			if f.Generation != lean.Generation(i) || f.Index != i {
				t.Fatalf("message %d: index %d, generation %d, want %d", i, f.Index, f.Generation, lean.Generation(i))
			}
		}
		lean, err := lean.attachFinished(data)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "trimmed", lean, want)
	})
}

// TestTwiceIsOnce checks that a record that is applied again, immediately or later, changes nothing.
func TestTwiceIsOnce(t *testing.T) {
	laws(t, 60, func(t *rapid.T, a *generator) {
		once, twice := newSnapshot(session), newSnapshot(session)
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

// TestAnyOrderOfDelivery checks that records in any order are applied in the right order, because missing records are read from
// the log.
func TestAnyOrderOfDelivery(t *testing.T) {
	laws(t, 60, func(t *rapid.T, a *generator) {
		want := whole(t, a, len(a.all), false)
		s := newSnapshot(session)
		for _, rec := range rapid.Permutation(a.all).Draw(t, "order") {
			s = take(t, s, rec, a.all)
		}
		equal(t, "shuffled", s, want)
	})
}

// TestCleanUpIsConsistent checks that a fold of all records as they were written and a fold of the remaining records are equal
// from the truncated record on, whether or not the deletes are complete.
func TestCleanUpIsConsistent(t *testing.T) {
	laws(t, 80, func(t *rapid.T, a *generator) {
		for n := 1; n <= len(a.all); n++ {
			if n < len(a.all) && a.all[n-1].Type != chunk.TypeTruncated {
				continue
			}
			survivors := read(t, newSnapshot(session), a.survivors(n))
			if len(survivors.removedAhead) > 0 {
				t.Fatalf("unexplained: %v", survivors.removedAhead)
			}
			equal(t, "deleted", whole(t, a, n, true), survivors)
			equal(t, "not yet deleted", whole(t, a, n, false), survivors)
		}
	})
}

// TestCleanUpAfterReload checks the same with a save and a load in between: another process may have folded the removed
// records.
func TestCleanUpAfterReload(t *testing.T) {
	laws(t, 80, func(t *rapid.T, a *generator) {
		cut := rapid.IntRange(0, len(a.all)).Draw(t, "cut")
		s := reload(t, whole(t, a, cut, true))
		for i, rec := range a.all[cut:] {
			s = take(t, s, rec, a.survivors(cut+i+1))
		}
		equal(t, "reloaded", s, read(t, newSnapshot(session), a.survivors(len(a.all))))
	})
}

// TestCleanUpHalfThrough checks the same with an arbitrary part of the deletes complete, and from any position.
func TestCleanUpHalfThrough(t *testing.T) {
	laws(t, 80, func(t *rapid.T, a *generator) {
		deleted := make(map[chunk.Ordinal]bool)
		look := func(n int) []chunk.Record {
			var log []chunk.Record
			for i, rec := range a.all[:n] {
				if a.removed[i] != 0 && a.removed[i] < n && !deleted[rec.Ordinal] {
					deleted[rec.Ordinal] = rapid.Bool().Draw(t, "deleted")
				}
				if !deleted[rec.Ordinal] {
					log = append(log, rec)
				}
			}
			return log
		}
		s := newSnapshot(session)
		for i, rec := range a.all {
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				s = read(t, newSnapshot(session), look(i))
			}
			s = take(t, s, rec, look(i+1))
		}
		equal(t, "half through", s, read(t, newSnapshot(session), a.survivors(len(a.all))))
	})
}

// TestOneNameOneContent checks that an index and a generation identify one content for all folds and all deletes: finished
// messages can be stored under that key without a lock.
func TestOneNameOneContent(t *testing.T) {
	laws(t, 80, func(t *rapid.T, a *generator) {
		type name struct {
			index      int
			generation chunk.Ordinal
		}
		content := make(map[name]string)
		note := func(s Snapshot) {
			for _, f := range s.FinishedMessages() {
				n := name{f.Index, f.Generation}
				if had, ok := content[n]; ok && had != string(f.Data) {
					t.Fatalf("%v:\n one %s\n two %s", n, had, f.Data)
				}
				content[n] = string(f.Data)
			}
		}
		s := newSnapshot(session)
		for i, rec := range a.all {
			s = take(t, s, rec, a.survivors(i+1))
			note(s)
		}
		// A reader of the remaining records, after each of them.
		log := a.survivors(len(a.all))
		r := newSnapshot(session)
		for _, rec := range log {
			r = take(t, skipGap(r, rec, GapRemoved), rec, log)
			note(r)
		}
	})
}

// TestPageIsTheSnapshotAtItsCursor checks that a page without the answer in flight equals the snapshot at its cursor: the
// stream from there contains the rest without duplicates.
func TestPageIsTheSnapshotAtItsCursor(t *testing.T) {
	laws(t, 60, func(t *rapid.T, a *generator) {
		log := a.survivors(len(a.all))
		s := read(t, newSnapshot(session), log)
		page := BrowserForm(s, false, 5)
		at := newSnapshot(session)
		for _, rec := range log {
			if rec.Seq <= page.Cursor {
				at = read(t, at, append(log[:0:0], rec))
			}
		}
		at.Status = s.Status // a run is active, which its first record does not always contain
		at.AgentType = s.AgentType
		if got, want := string(page.JSON), string(BrowserForm(at, true, 5).JSON); got != want {
			t.Fatalf("page:\n got %s\nwant %s", got, want)
		}
	})
}

// TestHeadStaysSmall checks that complete messages leave the head, so its size depends on the open turn and not on the session.
func TestHeadStaysSmall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newGenerator(t)
		s := newSnapshot(session)
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
			s = s.trimFinished()
			if head := len(s.AppendHead(nil)); turn == 0 {
				size = head
			} else if head > size+size/4+1000+packBytes {
				t.Fatalf("turn %d: head has %d bytes, the first had %d", turn, head, size)
			}
		}
	})
}

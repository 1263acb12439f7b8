package fold

import (
	"errors"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

// drive applies one record to a Folder like take.
func drive(t failer, folder *Folder, rec chunk.Record, log []chunk.Record) {
	t.Helper()
	err := folder.Apply(rec)
	refold, isRefold := errors.AsType[*RefoldError](err)
	switch {
	case err == nil:
		return
	case errors.Is(err, ErrInvalidRecord):
		if err := folder.Skip(rec, err.Error()); err != nil {
			t.Fatalf("skip %d: %v", rec.Ordinal, err)
		}
		return
	case isRefold:
		folder.Reset(refold.Base)
	case !errors.Is(err, ErrGap):
		t.Fatalf("apply %d: %v", rec.Ordinal, err)
	}
	for _, rec := range log {
		if rec.Ordinal > folder.Position().Ordinal {
			folder.SkipGap(rec, GapRemoved)
			drive(t, folder, rec, log)
		}
	}
}

// TestFolderIsTheFold checks that a Folder returns what the fold returns, whether or not its snapshots were read, stored or
// trimmed in between.
func TestFolderIsTheFold(t *testing.T) {
	laws(t, 60, func(t *rapid.T, a *generator) {
		f, s := New(session), newSnapshot(session)
		for i, rec := range a.all {
			log := a.all[:i+1]
			if rapid.Bool().Draw(t, "read") {
				equal(t, "before the record", f.Snapshot(), s)
			}
			if rapid.IntRange(0, 3).Draw(t, "save") == 0 {
				s = s.trimFinished()
				f.Trim()
			}
			s = take(t, s, rec, log)
			drive(t, f, rec, log)
		}
		equal(t, "all records", f.Snapshot(), s)
	})
}

// TestSnapshotsDoNotChange checks that no Folder changes a snapshot, neither the one that returned it nor those that continue
// from it, also if they continue differently.
func TestSnapshotsDoNotChange(t *testing.T) {
	laws(t, 60, func(t *rapid.T, a *generator) {
		type taken struct {
			snap         Snapshot
			stored, page string
		}
		var list []taken
		read := func(s Snapshot) {
			list = append(list, taken{s, stored(s), string(BrowserForm(s, true, 0).JSON)})
		}
		f := New(session)
		for i, rec := range a.all {
			read(f.Snapshot())
			log := a.all[:i+1]
			other := From(f.Snapshot())
			if err := other.Skip(rec, "not this one"); err == nil {
				read(other.Snapshot())
			}
			drive(t, f, rec, log)
			again := From(list[rapid.IntRange(0, len(list)-1).Draw(t, "again")].snap)
			for _, rec := range log {
				if rec.Ordinal > again.Position().Ordinal {
					again.SkipGap(rec, GapRemoved)
					drive(t, again, rec, log)
				}
			}
		}
		for i, at := range list {
			if got := stored(at.snap); got != at.stored {
				t.Fatalf("snapshot %d is\n%s, was\n%s", i, got, at.stored)
			}
			if got := string(BrowserForm(at.snap, true, 0).JSON); got != at.page {
				t.Fatalf("page %d is\n%s, was\n%s", i, got, at.page)
			}
		}
	})
}

// TestSnapshotIsReadWhileFolding reads each snapshot while its Folder continues, as the agent of a worker does: `go test -race`
// finds memory that both use.
func TestSnapshotIsReadWhileFolding(t *testing.T) {
	laws(t, 60, func(t *rapid.T, a *generator) {
		f := New(session)
		var readers sync.WaitGroup
		defer readers.Wait()
		for i, rec := range a.all {
			s := f.Snapshot()
			readers.Go(func() {
				_, _, _, _ = stored(s), BrowserForm(s, false, 0), s.OpenCalls(), s.Inputs()
				_ = From(s).Skip(rec, "not this one")
			})
			drive(t, f, rec, a.all[:i+1])
		}
	})
}

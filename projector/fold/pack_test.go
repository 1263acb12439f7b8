package fold

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

// smallPacks lets the short messages of random logs fill packs.
func smallPacks(t *testing.T, size int) {
	t.Helper()
	old := packBytes
	packBytes = size
	t.Cleanup(func() { packBytes = old })
}

// TestLawsWithPacks checks the laws for packs of one message and of a few.
func TestLawsWithPacks(t *testing.T) {
	for _, size := range []int{1, 400, 2000} {
		t.Run(fmt.Sprintf("bytes=%d", size), func(t *testing.T) {
			smallPacks(t, size)
			t.Run("cut", TestPrefixSaveLoadRestIsAll)
			t.Run("every record", TestSaveAndLoadAfterEveryRecord)
			t.Run("trimmed", TestTrimmedFoldsTheSame)
			t.Run("cleanup", TestCleanUpIsConsistent)
			t.Run("cleanup after reload", TestCleanUpAfterReload)
			t.Run("cleanup half through", TestCleanUpHalfThrough)
			t.Run("one name", TestOneNameOneContent)
			t.Run("packs", TestPacksExtendEachOther)
			t.Run("segments", TestSegmentsChangeNoMessage)
		})
	}
}

// TestPacksExtendEachOther stores the packs of folds of a random log: one that reads every record, saves after each and drops
// what it has saved, and readers of the records that remain after a cleanup, after each record. Of two packs of the same index
// and generation one begins with the other; each covered message has one content; and the bounds hold.
func TestPacksExtendEachOther(t *testing.T) {
	laws(t, 80, func(t *rapid.T, a *generator) {
		type name struct {
			index      int
			generation chunk.Ordinal
		}
		stored := make(map[name][]FinishedMessage)
		content := make(map[name][]byte)
		save := func(s Snapshot) Snapshot {
			for _, p := range s.Packs() {
				size := 0
				for _, m := range p {
					size += len(m.Data)
					at := name{m.Index, m.Generation}
					if had, ok := content[at]; ok && !bytes.Equal(had, m.Data) {
						t.Fatalf("%v is %s and %s", at, had, m.Data)
					}
					content[at] = m.Data
					if m.Generation != p[0].Generation {
						t.Fatalf("a pack of generation %d has a message of %d", p[0].Generation, m.Generation)
					}
				}
				if n := len(p); n > MaxPackMessages || n > 1 && size > packBytes {
					t.Fatalf("a pack of %d messages, %d bytes", n, size)
				}
				at := name{p[0].Index, p[0].Generation}
				for i, m := range stored[at] {
					if i < len(p) && !bytes.Equal(m.Data, p[i].Data) {
						t.Fatalf("pack %v has two contents", at)
					}
				}
				if len(p) > len(stored[at]) {
					stored[at] = p
				}
			}
			trimmed := s.trimFinished()
			for n := range trimmed.TrimmedCount() {
				found := false
				for back := 0; back < MaxPackMessages && !found; back++ {
					found = len(stored[name{n - back, trimmed.Generation(n)}]) > back
				}
				if !found {
					t.Fatalf("message %d is neither in a pack nor in the head", n)
				}
			}
			size := 0
			for _, m := range trimmed.FinishedMessages() {
				size += len(m.Data)
			}
			if n := len(trimmed.FinishedMessages()); n >= MaxPackMessages || size >= packBytes && n > 0 {
				t.Fatalf("%d messages of %d bytes are in the head", n, size)
			}
			return trimmed
		}
		s := newSnapshot(session)
		for i, rec := range a.all {
			s = save(take(t, s, rec, a.survivors(i+1)))
		}
		log := a.survivors(len(a.all))
		r := newSnapshot(session)
		for _, rec := range log {
			r = save(take(t, skipGap(r, rec, GapRemoved), rec, log))
		}
		if got, want := stripped(s), stripped(r); !bytes.Equal(got, want) {
			t.Fatalf("head of the fold of all records:\n%s\nof the remaining ones:\n%s", got, want)
		}
	})
}

// stripped returns the head without what may differ while no truncated record has explained a gap.
func stripped(s Snapshot) []byte {
	if s.HasUnexplainedGap() {
		return nil
	}
	m, err := members(s.AppendHead(nil))
	if err != nil {
		panic(err)
	}
	return append(append([]byte(nil), m["tail"]...), m["finished"]...)
}

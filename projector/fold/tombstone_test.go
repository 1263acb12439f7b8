package fold

import (
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// TestTombstone checks that a deleted session ignores all earlier records, also after a save, and restarts with the first later
// record.
func TestTombstone(t *testing.T) {
	g := NewTombstone(session, chunk.Position{Seq: 300, Ordinal: 3}, 7)
	loaded, err := ParseHead(g.AppendHead(nil))
	if err != nil || !loaded.Deleted() || loaded.Position != g.Position || loaded.Epoch != 7 {
		t.Fatalf("loaded %+v, %v", loaded, err)
	}
	late := record(t, 2, chunk.TextDelta{Delta: "a"})
	late.Epoch = 5
	loaded, err = applyRecord(loaded, late)
	if err != nil || stored(loaded) != stored(g) {
		t.Errorf("after a late record: %s, %v", stored(loaded), err)
	}
	restarted := record(t, 4, chunk.RunStarted{RunID: "r", Epoch: 8, Mode: "execute", Input: []chunk.InputMessage{{Content: "q"}}})
	restarted.Epoch, restarted.StoredAt = 8, time.UnixMilli(1234)
	loaded, err = applyRecord(loaded, restarted)
	if err != nil || loaded.Deleted() || loaded.Status != Active || loaded.FinishedCount() != 1 {
		t.Errorf("a new run: %s, %v", stored(loaded), err)
	}
	if loaded.Created != 1234 || loaded.Run.StartedAt != 1234 {
		t.Errorf("created %d, began %d, want 1234", loaded.Created, loaded.Run.StartedAt)
	}
}

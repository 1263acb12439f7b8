package fold

import (
	"fmt"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// startedBy is the run_started record of a run that a user requested; "" for a writer that does not know who did.
func startedBy(user string, ordinal chunk.Ordinal, epoch chunk.Epoch) chunk.Record {
	by := ""
	if user != "" {
		by = fmt.Sprintf(`,"by":{"subject":%q,"issuer":"https://login.example","x":1}`, user)
	}
	data := fmt.Sprintf(`{"type":"run_started","agentId":"s1","agentType":"a","timestamp":1,"step":0,"runId":"r%d","epoch":%d,"mode":"execute","input":[]%s}`, epoch, epoch, by)
	return chunk.Record{
		Session: chunk.RootSession("acme", "s1"), Seq: chunk.Seq(100 + ordinal), Ordinal: ordinal, Epoch: epoch, Type: chunk.TypeRunStarted,
		Data: []byte(data), StoredAt: time.UnixMilli(1),
	}
}

// The owner is who requested the first run, if the snapshot has the first record. It survives the stored form, a later run of another user, and not a deletion.
func TestOwner(t *testing.T) {
	s := chunk.RootSession("acme", "s1")
	for _, tt := range []struct {
		name    string
		base    Snapshot
		skipped bool // the records before the first one have expired
		records []chunk.Record
		want    string
	}{
		{"one run", newSnapshot(s), false, []chunk.Record{startedBy("ann", 1, 1)}, "ann"},
		{"a second run of another user", newSnapshot(s), false, []chunk.Record{startedBy("ann", 1, 1), startedBy("bob", 2, 2)}, "ann"},
		{"a first run without a user", newSnapshot(s), false, []chunk.Record{startedBy("", 1, 1), startedBy("bob", 2, 2)}, ""},
		{"the first record has expired", newSnapshot(s), true, []chunk.Record{startedBy("bob", 7, 3)}, ""},
		{"after a deletion", NewTombstone(s, chunk.Position{Seq: 90, Ordinal: 4}, 2), false, []chunk.Record{startedBy("bob", 5, 3)}, "bob"},
	} {
		f := From(tt.base)
		for i, rec := range tt.records {
			if tt.skipped && i == 0 {
				f.SkipGap(rec, GapExpired)
			}
			if err := f.Apply(rec); err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
		}
		stored, err := ParseHead(f.Snapshot().AppendHead(nil))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		for form, snap := range map[string]Snapshot{"folded": f.Snapshot(), "stored": stored} {
			got := ""
			if snap.Owner != nil {
				got = snap.Owner.Subject
			}
			if got != tt.want || snap.Owner != nil && *snap.Owner.Issuer != "https://login.example" {
				t.Errorf("%s, %s: owner %+v, want %q", tt.name, form, snap.Owner, tt.want)
			}
		}
	}
}

package fold

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// TestChain checks that the chain differs for two logs with otherwise equal snapshots, and is the same for a copy of the log,
// which has other storage times.
func TestChain(t *testing.T) {
	fold := func(change func(rec *chunk.Record)) Snapshot {
		s := begun(t)
		for i, body := range []chunk.Body{chunk.ToolArgStreamEnd{ToolCallID: "c"}, chunk.TextDelta{Delta: "b"}} {
			rec := record(t, 3+i, body)
			rec.Epoch = 5
			if i == 0 {
				change(&rec)
			}
			var err error
			if s, err = applyRecord(s, rec); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	want := fold(func(*chunk.Record) {}).Chain()
	if want.FirstOrdinal != 1 || want.String() == newSnapshot(session).Chain().String() {
		t.Fatalf("chain %+v", want)
	}
	if got := fold(func(rec *chunk.Record) { rec.StoredAt = time.UnixMilli(7) }).Chain(); got != want {
		t.Errorf("the copy has %s, want %s", got, want)
	}
	for name, change := range map[string]func(rec *chunk.Record){
		"another body":     func(rec *chunk.Record) { rec.Data = record(t, 3, chunk.ToolArgStreamEnd{ToolCallID: "d"}).Data },
		"another sequence": func(rec *chunk.Record) { rec.Seq++ },
		"an older epoch":   func(rec *chunk.Record) { rec.Epoch-- },
	} {
		if got := fold(change).Chain(); got == want {
			t.Errorf("%s does not change the chain", name)
		}
	}
}

// TestChainAfterGap checks that a chain restarts after lost records, because the records before are unknown.
func TestChainAfterGap(t *testing.T) {
	rec := record(t, 10, chunk.TextDelta{Delta: "z"})
	rec.Epoch = 5
	after := func(s Snapshot) Chain {
		s, err := applyRecord(skipGap(s, rec, GapExpired), rec)
		if err != nil {
			t.Fatal(err)
		}
		return s.Chain()
	}
	if one, other := after(begun(t)), after(newSnapshot(session)); one != other || one.FirstOrdinal != 10 {
		t.Errorf("%+v and %+v, want the same since 10", one, other)
	}
	if c := NewTombstone(session, chunk.Position{Seq: 300, Ordinal: 9}, 1).Chain(); c.FirstOrdinal != 10 {
		t.Errorf("the chain of the tombstone starts at %d", c.FirstOrdinal)
	}
}

// A fold that has read a session, its deletion and what was written then has only the latter, as one that begins with the tombstone.
func TestRecordAfterTheDeletion(t *testing.T) {
	code := chunk.CodeSessionDeleted
	deletion := chunk.StreamFailed{Error: "deleted", ErrorDetail: &chunk.ErrorDetail{Message: "deleted", Code: &code}}
	for name, before := range map[string][]chunk.Body{
		"during a run":    {chunk.TextDelta{Delta: "a"}},
		"after its end":   {chunk.TextDelta{Delta: "a"}, chunk.StreamEnd{StreamID: "x"}},
		"after a failure": {chunk.TextDelta{Delta: "a"}, chunk.StreamFailed{Error: "x"}},
		"twice":           {chunk.TextDelta{Delta: "a"}, deletion},
		"of nothing":      nil,
	} {
		f := New(session)
		for _, body := range append(before, deletion) {
			if err := f.Apply(record(t, int(f.Position().Ordinal)+1, body)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := f.Snapshot().WasDeleted() || f.Snapshot().Deleted(); got != (body == chunk.Body(deletion)) {
				t.Errorf("%s: deleted is %t after %T", name, got, body)
			}
		}
		want := From(NewTombstone(session, f.Position(), f.Epoch()))
		next := record(t, int(f.Position().Ordinal)+1, chunk.TextDelta{Delta: "b"})
		if err := errors.Join(f.Apply(next), want.Apply(next)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, want := f.Snapshot().AppendHead(nil), want.Snapshot().AppendHead(nil); !bytes.Equal(got, want) {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// A deletion record of which the log has nothing before makes a tombstone, also if earlier records are missing, and if the session was deleted before.
func TestDeletionRecordAlone(t *testing.T) {
	code := chunk.CodeSessionDeleted
	deletion := record(t, 9, chunk.StreamFailed{Error: "deleted", ErrorDetail: &chunk.ErrorDetail{Message: "deleted", Code: &code}})
	lost := New(session)
	lost.SkipGap(deletion, GapExpired)
	for name, f := range map[string]*Folder{
		"of an expired session": lost, "after a tombstone": From(NewTombstone(session, chunk.Position{Seq: 1, Ordinal: 8}, 1)),
	} {
		if err := f.Apply(deletion); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, want := f.Snapshot().AppendHead(nil), NewTombstone(session, deletion.Position(), deletion.Epoch).AppendHead(nil); !f.Snapshot().Deleted() || !bytes.Equal(got, want) {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

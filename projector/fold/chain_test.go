package fold

import (
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// The chain tells two logs apart that amount to the same snapshot otherwise, and
// does not tell a log from its copy, which was stored at another time.
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
			if s, err = Apply(s, rec); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	want := fold(func(*chunk.Record) {}).Chain()
	if want.Since != 1 || want.String() == New(session).Chain().String() {
		t.Fatalf("chain %+v", want)
	}
	if got := fold(func(rec *chunk.Record) { rec.Stored = time.UnixMilli(7) }).Chain(); got != want {
		t.Errorf("the copy has %s, want %s", got, want)
	}
	for name, change := range map[string]func(rec *chunk.Record){
		"another body":     func(rec *chunk.Record) { rec.Data = record(t, 3, chunk.ToolArgStreamEnd{ToolCallID: "d"}).Data },
		"another sequence": func(rec *chunk.Record) { rec.Seq++ },
		"an older epoch":   func(rec *chunk.Record) { rec.Epoch-- },
	} {
		if got := fold(change).Chain(); got == want {
			t.Errorf("%s is not told", name)
		}
	}
}

// A chain begins anew behind what was lost: what was before is not known, and
// must not look as if it were.
func TestChainBehindAHole(t *testing.T) {
	rec := record(t, 10, chunk.TextDelta{Delta: "z"})
	rec.Epoch = 5
	after := func(s Snapshot) Chain {
		s, err := Apply(Across(s, rec, Expired), rec)
		if err != nil {
			t.Fatal(err)
		}
		return s.Chain()
	}
	if one, other := after(begun(t)), after(New(session)); one != other || one.Since != 10 {
		t.Errorf("%+v and %+v, want the same since 10", one, other)
	}
	if c := Grave(session, chunk.Position{Seq: 300, Ordinal: 9}, 1).Chain(); c.Since != 10 {
		t.Errorf("the grave's chain begins at %d", c.Since)
	}
}

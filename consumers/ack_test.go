package consumers

import (
	"testing"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

func TestParseDelivery(t *testing.T) {
	want := delivery{count: 2, seq: 30, consumed: 40, stored: 1_700_000_000_000_000_001, pending: 5}
	for _, reply := range []string{
		"$JS.ACK.S.c.2.30.40.1700000000000000001.5",
		"$JS.ACK.hub.ACCHASH.S.c.2.30.40.1700000000000000001.5",
		"$JS.ACK._.ACCHASH.S.c.2.30.40.1700000000000000001.5.random",
	} {
		if got, ok := parseDelivery(reply); !ok || got != want {
			t.Errorf("%s: %+v, %v; want %+v", reply, got, ok, want)
		}
	}
	for _, reply := range []string{
		"", "$JS.ACK", "$JS.ACK.", "_INBOX.x", "$JS.ACK.S.c.2.30.40.5", "$JS.ACK.a.S.c.2.30.40.1.5",
		"$JS.ACK.S.c.2.x.40.1.5", "$JS.ACK.S.c.2..40.1.5", "$JS.ACK.S.c.2.-1.40.1.5", "$JS.ACK.S.c.2.99999999999999999999.40.1.5",
	} {
		if got, ok := parseDelivery(reply); ok {
			t.Errorf("%q: %+v, want refusal", reply, got)
		}
	}
}

// Our parser and the library's agree on what both accept.
func FuzzParseDelivery(f *testing.F) {
	f.Add("$JS.ACK.S.c.2.30.40.1700000000000000001.5")
	f.Add("$JS.ACK._.ACCHASH.S.c.2.30.40.1700000000000000001.5.random")
	f.Add("$JS.ACK.a.b.S.c.1.2.3.4.5.6.7.8")
	f.Add("$JS.ACK.......")
	f.Fuzz(func(t *testing.T, reply string) {
		d, ok := parseDelivery(reply)
		if !ok {
			return
		}
		theirs, err := (&nats.Msg{Reply: reply, Sub: &nats.Subscription{}}).Metadata()
		if err != nil {
			t.Fatalf("%q: the library refuses it: %v", reply, err)
		}
		if theirs.Sequence.Stream != d.seq || theirs.Sequence.Consumer != d.consumed || theirs.NumPending != d.pending || theirs.NumDelivered != d.count {
			t.Errorf("%q: %+v, the library says %+v", reply, d, theirs)
		}
	})
}

// A hole is explained when every single ordinal of it is listed somewhere.
func TestExplainsIsTheObviousQuestion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var markers []marker
		for range rapid.IntRange(0, 3).Draw(t, "markers") {
			var m marker
			for range rapid.IntRange(0, 4).Draw(t, "ranges") {
				first := int64(rapid.IntRange(-2, 20).Draw(t, "first"))
				m.body.Removed = append(m.body.Removed, chunk.OrdinalRange{First: first, Last: first + int64(rapid.IntRange(-2, 8).Draw(t, "length"))})
			}
			markers = append(markers, m)
		}
		first := chunk.Ordinal(rapid.IntRange(1, 20).Draw(t, "hole"))
		h := hole{first, first + chunk.Ordinal(rapid.IntRange(0, 8).Draw(t, "size"))}
		all, overlap := true, make([]bool, len(markers))
		for o := h.first; o <= h.last; o++ {
			listed := false
			for i, m := range markers {
				for _, r := range m.body.Removed {
					if r.First <= int64(o) && int64(o) <= r.Last {
						overlap[i] = true
						listed = listed || r.First >= 1
					}
				}
			}
			all = all && listed
		}
		if got := explains(markers, h); got != all {
			t.Fatalf("explains = %v, want %v", got, all)
		}
		for i, m := range markers {
			if m.overlaps(h) != overlap[i] {
				t.Fatalf("overlaps = %v, want %v", m.overlaps(h), overlap[i])
			}
		}
	})
}

func TestHugeRangesAreCheap(t *testing.T) {
	const huge = 1<<63 - 1
	m := []marker{{body: chunk.Truncated{Removed: []chunk.OrdinalRange{{First: 1, Last: huge}, {First: huge, Last: 1}, {First: -huge, Last: huge}}}}}
	if !explains(m, hole{5, 1 << 40}) {
		t.Error("a range that holds everything explains nothing")
	}
	if explains(m, hole{5, 1<<64 - 1}) {
		t.Error("a range explains what lies beyond it")
	}
}

func TestJudge(t *testing.T) {
	c := chain{last: chunk.Position{Seq: 10, Ordinal: 5}, epoch: 3}
	for name, tc := range map[string]struct {
		rec  chunk.Record
		want verdict
	}{
		"next":                          {chunk.Record{Epoch: 3, Ordinal: 6}, follows},
		"next of an heir":               {chunk.Record{Epoch: 4, Ordinal: 6}, follows},
		"hole":                          {chunk.Record{Epoch: 3, Ordinal: 8}, missing},
		"last ordinal there is":         {chunk.Record{Epoch: 3, Ordinal: 1<<64 - 1}, missing},
		"overtaken":                     {chunk.Record{Epoch: 2, Ordinal: 6}, stale},
		"overtaken, with a hole":        {chunk.Record{Epoch: 2, Ordinal: 9}, stale},
		"the same again":                {chunk.Record{Epoch: 3, Ordinal: 5}, broken},
		"an heir that knows too little": {chunk.Record{Epoch: 4, Ordinal: 4}, broken},
		"begun again":                   {chunk.Record{Epoch: 3, Ordinal: 1}, reborn},
		"begun again, from epoch 1":     {chunk.Record{Epoch: 1, Ordinal: 1}, reborn},
	} {
		if got := c.judge(tc.rec); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
	if got := (&chain{}).judge(chunk.Record{Epoch: 1, Ordinal: 1}); got != follows {
		t.Errorf("the first of all: %d, want follows", got)
	}
}

func TestTypeOfAnyCase(t *testing.T) {
	for _, h := range []nats.Header{{"ce-type": {"x"}}, {"Ce-Type": {"x"}}, {"CE-TYPE": {"x"}}} {
		if typeOf(h) != "x" {
			t.Errorf("%v: %q", h, typeOf(h))
		}
	}
	if got := typeOf(nats.Header{"ce-typ": {"x"}, "ce-types": {"x"}}); got != "" {
		t.Errorf("no type: %q", got)
	}
}

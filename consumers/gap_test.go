package consumers

import (
	"testing"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

// A gap is explained if truncation records list every ordinal of it.
func TestCoversEveryOrdinal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var markers []truncationRecord
		for range rapid.IntRange(0, 3).Draw(t, "markers") {
			var m truncationRecord
			for range rapid.IntRange(0, 4).Draw(t, "ranges") {
				first := int64(rapid.IntRange(-2, 20).Draw(t, "first"))
				m.body.Removed = append(m.body.Removed, chunk.OrdinalRange{First: first, Last: first + int64(rapid.IntRange(-2, 8).Draw(t, "length"))})
			}
			markers = append(markers, m)
		}
		first := chunk.Ordinal(rapid.IntRange(1, 20).Draw(t, "gap"))
		h := gap{first, first + chunk.Ordinal(rapid.IntRange(0, 8).Draw(t, "size"))}
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
		if got := covers(removedBy(markers), h); got != all {
			t.Fatalf("covers = %v, want %v", got, all)
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
	m := []chunk.OrdinalRange{{First: 1, Last: huge}, {First: huge, Last: 1}, {First: -huge, Last: huge}}
	if !covers(m, gap{5, 1 << 40}) {
		t.Error("a range that holds everything explains nothing")
	}
	if covers(m, gap{5, 1<<64 - 1}) {
		t.Error("a range explains what lies beyond it")
	}
}

func TestOrdinalCheck(t *testing.T) {
	c := ordinalChecker{last: chunk.Position{Seq: 10, Ordinal: 5}, epoch: 3}
	for name, tc := range map[string]struct {
		rec  chunk.Record
		want checkResult
	}{
		"next":                               {chunk.Record{Epoch: 3, Ordinal: 6}, follows},
		"next of a new writer":               {chunk.Record{Epoch: 4, Ordinal: 6}, follows},
		"gap":                                {chunk.Record{Epoch: 3, Ordinal: 8}, missing},
		"last ordinal there is":              {chunk.Record{Epoch: 3, Ordinal: 1<<64 - 1}, missing},
		"fenced":                             {chunk.Record{Epoch: 2, Ordinal: 6}, fenced},
		"fenced, with a gap":                 {chunk.Record{Epoch: 2, Ordinal: 9}, fenced},
		"the same again":                     {chunk.Record{Epoch: 3, Ordinal: 5}, reused},
		"a new writer that knows too little": {chunk.Record{Epoch: 4, Ordinal: 4}, reused},
		"restarted":                          {chunk.Record{Epoch: 3, Ordinal: 1}, reused},
		"restarted at epoch 1":               {chunk.Record{Epoch: 1, Ordinal: 1}, reused},
		"a run that knows too little":        {chunk.Record{Epoch: 2, Ordinal: 4, Type: chunk.TypeRunStarted}, reused},
		"fenced, at a known ordinal":         {chunk.Record{Epoch: 2, Ordinal: 4}, fenced},
	} {
		if got := c.check(tc.rec); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
	if got := (&ordinalChecker{}).check(chunk.Record{Epoch: 1, Ordinal: 1}); got != follows {
		t.Errorf("the first record: %d, want follows", got)
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

package archive

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

var alice = chunk.RootSession("acme", "alice")

func pack(records []chunk.Record) []Packed {
	var p Packer
	var all []Packed
	for _, rec := range records {
		if full, ok := p.Add(rec); ok {
			all = append(all, full)
		}
	}
	if rest, ok := p.Flush(); ok {
		all = append(all, rest)
	}
	return all
}

func unpack(t interface{ Fatal(args ...any) }, all []Packed) []chunk.Record {
	var records []chunk.Record
	for _, p := range all {
		got, err := Unpack(nil, alice, p.Segment, p.Data)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, got...)
	}
	return records
}

func same(a, b chunk.Record) bool {
	return a.Seq == b.Seq && a.Session == b.Session && a.Epoch == b.Epoch && a.Ordinal == b.Ordinal &&
		a.Type == b.Type && a.StoredAt.Equal(b.StoredAt) && a.StoredAt.Location() == b.StoredAt.Location() && bytes.Equal(a.Data, b.Data)
}

// Unpacking returns the packed records, and a log that has grown changes only its last segment.
func TestSegments(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var records []chunk.Record
		seq, stored, ordinal := chunk.Seq(0), int64(1_700_000_000_000_000_000), chunk.Ordinal(0)
		large := rapid.SampledFrom([]int{10, 10_000, maxSegmentBytes + 10}).Draw(rt, "large")
		for range rapid.IntRange(1, 120).Draw(rt, "records") {
			seq += chunk.Seq(rapid.Uint64Range(1, 1<<40).Draw(rt, "seq"))
			stored += rapid.Int64Range(-1<<40, 1<<50).Draw(rt, "stored") // clocks may be set to an earlier time
			ordinal += chunk.Ordinal(rapid.Uint64Range(1, 3).Draw(rt, "ordinal"))
			records = append(records, chunk.Record{
				Seq: seq, Session: alice, Epoch: chunk.Epoch(rapid.Uint64().Draw(rt, "epoch")), Ordinal: ordinal,
				Type:     chunk.Type(rapid.SampledFrom([]string{"text-delta", "run_started", "x"}).Draw(rt, "type")),
				StoredAt: time.Unix(0, stored).UTC(),
				Data:     bytes.Repeat([]byte(`{"a":1}`), rapid.IntRange(0, large/7).Draw(rt, "size")),
			})
		}
		all := pack(records)
		if got := unpack(rt, all); !slices.EqualFunc(got, records, same) {
			rt.Fatalf("%d records unpacked to %d other records", len(records), len(got))
		}
		before := pack(records[:rapid.IntRange(1, len(records)).Draw(rt, "before")])
		for i, p := range before[:len(before)-1] {
			if p.Segment != all[i].Segment {
				rt.Fatalf("segment %d: %+v has become %+v", i, p.Segment, all[i].Segment)
			}
		}
	})
}

// A segment with any change is rejected.
func TestCorrupt(t *testing.T) {
	p := pack([]chunk.Record{{Seq: 3, Session: alice, Epoch: 1, Ordinal: 1, Type: "x", StoredAt: time.Unix(1, 0), Data: []byte(`{"type":"x"}`)}})[0]
	for name, bad := range map[string]func(*Segment, *[]byte){
		"a bit":            func(_ *Segment, d *[]byte) { (*d)[len(*d)-1] ^= 1 },
		"cut":              func(_ *Segment, d *[]byte) { *d = (*d)[:len(*d)-1] },
		"of another count": func(s *Segment, _ *[]byte) { s.Count++ },
		"of another begin": func(s *Segment, _ *[]byte) { s.First-- },
		"of another end":   func(s *Segment, _ *[]byte) { s.Last++ },
		"nothing":          func(s *Segment, d *[]byte) { *d = nil; s.SHA256 = digest(nil) },
		"no zstd":          func(s *Segment, d *[]byte) { *d = []byte("plain"); s.SHA256 = digest(*d) },
		"short inside": func(s *Segment, d *[]byte) {
			*d = encoder.EncodeAll([]byte{3, 2, 1, 1, 200}, nil)
			s.SHA256 = digest(*d)
		},
	} {
		t.Run(name, func(t *testing.T) {
			segment, data := p.Segment, bytes.Clone(p.Data)
			bad(&segment, &data)
			if got, err := Unpack(nil, alice, segment, data); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%v, %v", got, err)
			}
		})
	}
}

// FuzzUnpack checks that arbitrary bytes unpack to the announced number of records or return ErrCorrupt.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte{3, 2, 1, 1, 1, 'x', 2, '{', '}'}, 1)
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}, 1<<40)
	f.Fuzz(func(t *testing.T, plain []byte, count int) {
		data := encoder.EncodeAll(plain, nil)
		segment := Segment{First: 3, Last: 3, Count: count, SHA256: digest(data)}
		records, err := Unpack(nil, alice, segment, data)
		if err == nil && len(records) != count || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%d records, %v", len(records), err)
		}
	})
}

func TestIndex(t *testing.T) {
	created, last := time.Unix(1, 5).UTC(), LastMessage{Seq: 9, Stored: 7}
	x := NewIndex(created, last)
	x.Messages = 3
	x.Segments = append(x.Segments, Segment{Seq: 1, First: 1, Last: 9, Count: 3, SHA256: "ab"})
	data, err := x.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	back, err := ReadIndex(data)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(*back) != fmt.Sprint(*x) || !back.MatchesLog(created, 3, last) {
		t.Fatalf("%+v was read as %+v", x, back)
	}
	for name, fits := range map[string]bool{
		"a recreated stream": back.MatchesLog(created.Add(1), 3, last),
		"one less":           back.MatchesLog(created, 2, last),
		"one more":           back.MatchesLog(created, 3, LastMessage{Seq: 10, Stored: 7}),
		"rolled back":        back.MatchesLog(created, 3, LastMessage{Seq: 9, Stored: 8}),
	} {
		if fits {
			t.Errorf("%s: fits", name)
		}
	}
	for _, bad := range []string{"", "{}", `{"version":2}`, "[]"} {
		if _, err := ReadIndex([]byte(bad)); err == nil {
			t.Errorf("%q is an index", bad)
		}
	}
}

func TestSubjects(t *testing.T) {
	var l subjects.Layout
	kid := alice.Child("kid")
	index, err := IndexKey(l, kid)
	if err != nil || index != "$O.TR_OBJECTS.C.archive.acme.alice.kid.index" {
		t.Fatal(index, err)
	}
	if s, err := SessionOf(l, index); err != nil || s != kid {
		t.Fatal(s, err)
	}
	for _, bad := range []string{"", "$O.TR_OBJECTS.C.archive.acme.alice.kid.segments", "$O.TR_OBJECTS.C.archive.acme.alice.index", "$O.TR_OBJECTS.C.archive.acme..kid.index"} {
		if s, err := SessionOf(l, bad); err == nil {
			t.Errorf("%q is of %s", bad, s)
		}
	}
	for want, of := range map[string]func(subjects.Layout, chunk.Session) (string, error){
		"$O.TR_OBJECTS.C.archive.acme.alice.kid.segments": SegmentsKey,
		"$O.TR_OBJECTS.C.archive.acme.alice.kid.*":        Keys,
		"$O.TR_OBJECTS.C.archive.acme.alice.*.index":      TreeIndexKeys,
	} {
		if got, err := of(l, kid); err != nil || got != want {
			t.Errorf("%s, %v: want %s", got, err, want)
		}
		if got, err := of(l, chunk.RootSession("acme", "a.*")); err == nil {
			t.Errorf("%s of an invalid session", got)
		}
	}
	if got := IndexKeys(l); got != "$O.TR_OBJECTS.C.archive.*.*.*.index" {
		t.Error(got)
	}
}

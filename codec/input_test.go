package codec

import (
	"testing"

	"pgregory.net/rapid"
)

func anyInput(t *rapid.T) InputPosition {
	p := InputPosition{Run: rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(t, "run"), Line: rapid.Int64Range(0, 1<<53-1).Draw(t, "line")}
	if rapid.Bool().Draw(t, "partial") {
		p.Partial, p.Chunks, p.Bytes = true, rapid.Int64Range(0, 99).Draw(t, "chunks"), rapid.Int64Range(0, 9).Draw(t, "bytes")
	}
	if rapid.Bool().Draw(t, "translated") {
		p.First, p.Step = rapid.Int64Range(1, 99).Draw(t, "first"), rapid.Int64Range(0, 9).Draw(t, "step")
	}
	p.Event = rapid.StringMatching(`[a-z0-9]{0,26}`).Draw(t, "event")
	return p
}

// A position survives its text, and a message in binary and in structured mode.
func TestInputPositionOfAMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyInput(t)
		if q, ok := parseInputPosition(p.String()); !ok || q != p {
			t.Fatalf("%s: got %+v, %v", p, q, ok)
		}
		m := EncodeJSON(Envelope{Session: session, Epoch: 1, Ordinal: 2}, Header{Type: "text_delta"}, []byte(body))
		m.SetInput(p)
		if q, ok := InputOf(m.Header, m.Data); !ok || q != p {
			t.Fatalf("binary %s: got %+v, %v", p, q, ok)
		}
		if _, err := Decode(Stored{Session: session, Seq: 1, Header: m.Header, Data: m.Data}); err != nil {
			t.Fatal(err)
		}
		event := structured(`,"data":` + body + `,"inputposition":"` + p.String() + `"`)
		if q, ok := InputOf(nil, event); !ok || q != p {
			t.Fatalf("structured %s: got %+v, %v", p, q, ok)
		}
		if _, err := Decode(Stored{Session: session, Seq: 1, Data: event}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestMalformedInputPositions(t *testing.T) {
	for _, s := range []string{"", "r", ":1", "r:", "r:-1", "r:+1", "r:01", "r:1.", "r:1.2.3.4", "r:1.2.0", "r:1@", "r:1@2", "r:1@0.1", "r:1#", "r: 1", "r:9007199254740992", "r\n:1"} {
		if p, ok := parseInputPosition(s); ok {
			t.Errorf("%q is read as %+v", s, p)
		}
	}
	for name, h := range map[string]map[string][]string{
		"none": {}, "two": {"ce-inputposition": {"r:1", "r:2"}}, "no event": {"content-type": {"application/cloudevents+json"}}, "malformed": {"CE-InputPosition": {"r"}},
	} {
		if p, ok := InputOf(h, []byte("{")); ok {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if p, ok := InputOf(map[string][]string{"CE-InputPosition": {"r:1"}}, nil); !ok || p.Line != 1 {
		t.Errorf("another case: %+v", p)
	}
}

// What is stored of a line is what its position says.
func TestStoredChunksOfALine(t *testing.T) {
	for _, tt := range []struct {
		at      string
		line, i int64
		whole   bool
		text    int64
	}{
		{"r:17", 17, 5, true, 0}, {"r:17", 16, 0, true, 0}, {"r:17", 18, 0, false, 0},
		{"r:17.2", 16, 9, true, 0}, {"r:17.2", 17, 1, true, 0}, {"r:17.2", 17, 2, false, 0}, {"r:17.2", 18, 0, false, 0},
		{"r:17.2.500", 17, 2, false, 500}, {"r:17.2.500", 17, 3, false, 0}, {"r:0", 1, 0, false, 0},
	} {
		p, ok := parseInputPosition(tt.at)
		if whole, text := p.Stored(tt.line, tt.i); !ok || whole != tt.whole || text != tt.text {
			t.Errorf("%s, chunk %d of line %d: %v, %d", tt.at, tt.i, tt.line, whole, text)
		}
	}
	var before InputPosition
	for i, at := range []string{"r:16", "r:17.0", "r:17.1", "r:17.1.3", "r:17.2", "r:17", "r:18.0"} {
		p, _ := parseInputPosition(at)
		if i > 0 && (before.Compare(p) != -1 || p.Compare(before) != 1) {
			t.Errorf("%s is not after %s", p, before)
		}
		before = p
	}
}

package codec

import (
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

var session = chunk.Session{Tenant: "acme", Root: "s1", ID: "s1-child"}

const body = `{"type":"text_delta","agentId":"s1","agentType":"demo","timestamp":1700000000123,"step":1,"delta":"Hello, wörld"}`

func TestHotPathComesBack(t *testing.T) {
	m := EncodeJSON(session, 3, 17, chunk.TypeTextDelta, 1700000000123, []byte(body))
	stored := time.Unix(1, 2)
	rec, err := Decode(session, 5, stored, m.Header, m.Data)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Seq != 5 || rec.Epoch != 3 || rec.Ordinal != 17 || rec.Type != chunk.TypeTextDelta || rec.Session != session || !rec.Stored.Equal(stored) || string(rec.Data) != body {
		t.Errorf("got %+v", rec)
	}
	packed, ok := toMsgpack([]byte(body))
	if !ok {
		t.Fatal("not packed")
	}
	m.Header[headerContentType] = []string{mediaMsgpack}
	rec, err = Decode(session, 5, stored, m.Header, packed)
	if err != nil || string(rec.Data) != body {
		t.Fatalf("%s %v", rec.Data, err)
	}
}

func BenchmarkEncodeJSON(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		EncodeJSON(session, 3, 17, chunk.TypeTextDelta, 1700000000123, []byte(body))
	}
}

func BenchmarkDecode(b *testing.B) {
	m := EncodeJSON(session, 3, 17, chunk.TypeTextDelta, 1700000000123, []byte(body))
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := Decode(session, 5, time.Time{}, m.Header, m.Data); err != nil {
			b.Fatal(err)
		}
	}
}

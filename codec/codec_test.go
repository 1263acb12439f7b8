package codec

import (
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

func everyChunk(t testing.TB) []chunk.Chunk {
	t.Helper()
	var all []chunk.Chunk
	for _, line := range []string{
		body,
		`{"type":"thinking","agentId":"s1","agentType":"demo","timestamp":1700000000000,"step":0,"content":"half \ud83d","isComplete":true}`,
		`{"type":"tool_start","agentId":"s1","agentType":"demo","timestamp":0,"step":1,"toolCallId":"c1","toolName":"t","arguments":{"n":9007199254740993,"f":1.0,"z":[1,{"k":null}]}}`,
		`{"type":"new_kind%20","agentId":"s1","agentType":"demo","timestamp":253402300799999,"step":1,"z":{"a":[]}}`,
	} {
		c, err := chunk.Decode([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

func BenchmarkEncodeJSON(b *testing.B) {
	b.ReportAllocs()
	data := []byte(body)
	for b.Loop() {
		EncodeJSON(session, 3, 17, chunk.TypeTextDelta, 1700000000123, data)
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

package chunk_test

import (
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
)

var benchmarks = []struct {
	name  string
	chunk chunk.Chunk
}{
	{"text_delta", chunktest.Of(chunk.TextDelta{Delta: "Hello, world"})},
	{"text_delta=4k", chunktest.Of(chunk.TextDelta{Delta: strings.Repeat("Hello, Wörld \"😀\"\n", 220)})},
	{"lone_surrogate", chunktest.Of(chunk.TextDelta{Delta: "Hello \xed\xa0\xbd"})},
	{"tool_start", chunktest.Minimal(chunk.TypeToolStart)},
	{"state_patch", chunktest.Full(chunk.TypeStatePatch)},
	{"unknown", chunktest.All()[len(chunktest.All())-1].Chunk},
}

func BenchmarkDecode(b *testing.B) {
	for _, bb := range benchmarks {
		b.Run(bb.name, func(b *testing.B) {
			text, err := bb.chunk.AppendJSON(nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := chunk.Decode(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	for _, bb := range benchmarks {
		b.Run(bb.name, func(b *testing.B) {
			dst, err := bb.chunk.AppendJSON(nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(dst)))
			for b.Loop() {
				if _, err := bb.chunk.AppendJSON(dst[:0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkMerge(b *testing.B) {
	one, two := chunktest.Of(chunk.TextDelta{Delta: "Hello, "}), chunktest.Of(chunk.TextDelta{Delta: "world"})
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := chunk.Merge(one, two); !ok {
			b.Fatal("not merged")
		}
	}
}

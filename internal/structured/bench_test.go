package structured

import (
	"fmt"
	"strings"
	"testing"
)

// Ten more bytes for a text cost the same for any length of the text.
func BenchmarkTextDelta(b *testing.B) {
	chunk := line(`"kind":"text-delta","path":"sections.0.body","delta":"ten bytes."`)
	for _, length := range []int{0, 1_000_000} {
		b.Run(fmt.Sprintf("text=%d", length), func(b *testing.B) {
			start := set("sections.0.body", `"`+strings.Repeat("x", length)+`"`)
			var s State
			b.ReportAllocs()
			b.SetBytes(int64(len(chunk)))
			for b.Loop() {
				if s.Apply(chunk) == nil {
					continue
				}
				b.StopTimer() // the text has its maximum length
				s = State{}
				if err := s.Apply(start); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

// A chunk for a value with many others.
func BenchmarkSet(b *testing.B) {
	for _, members := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			var s State
			for i := range members {
				if err := s.Apply(set(fmt.Sprint("rows.k", i), "1")); err != nil {
					b.Fatal(err)
				}
			}
			chunk := set("rows.k0", `{"a":[1,2,3],"b":"text"}`)
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Apply(chunk); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

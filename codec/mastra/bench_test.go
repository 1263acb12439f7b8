package mastra

import "testing"

// BenchmarkTranslate translates the chunks of a recorded run.
func BenchmarkTranslate(b *testing.B) {
	for _, name := range []string{"text", "tool", "sub-agent", "workflow"} {
		for _, r := range runs(b) {
			if r.Name != name {
				continue
			}
			b.Run("run="+name, func(b *testing.B) {
				b.ReportAllocs()
				size := 0
				for _, raw := range r.Chunks {
					size += len(raw)
				}
				b.SetBytes(int64(size))
				for b.Loop() {
					tr := New(Config{Session: "s1"})
					for _, raw := range r.Chunks {
						if _, err := tr.Translate(raw); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(b.N*len(r.Chunks))/b.Elapsed().Seconds(), "chunks/s")
			})
		}
	}
}

// Package chunktest has chunks to test with: one full and one minimal sample of
// every type, a generator of arbitrary valid ones, and recorded transcripts.
//
//	for _, s := range chunktest.All() {
//		t.Run(s.Name, func(t *testing.T) { roundTrip(t, s.Chunk) })
//	}
//
//	rapid.Check(t, func(t *rapid.T) {
//		c := chunktest.Chunks().Draw(t, "chunk")
//		…
//	})
//
//	for _, line := range chunktest.Lines("tools") { … } // JSON lines, one chunk each
//
// It is for tests only: it draws in pgregory.net/rapid.
package chunktest

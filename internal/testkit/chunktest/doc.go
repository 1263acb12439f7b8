// Package chunktest provides chunks for tests: one full and one minimal sample of
// every type, a generator of arbitrary valid chunks, and recorded transcripts.
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
// Only tests may import the package, because it imports pgregory.net/rapid.
package chunktest

package chunktest_test

import (
	"slices"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The samples are valid, two of each type, and each call returns new ones.
func TestSamples(t *testing.T) {
	seen := make(map[chunk.Type]int)
	for _, s := range chunktest.All() {
		if err := s.Chunk.Validate(); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		seen[s.Chunk.Type()]++
	}
	for _, typ := range chunktest.Types() {
		if seen[typ] != 2 {
			t.Errorf("%d samples of %s, want 2", seen[typ], typ)
		}
		if chunktest.Full(typ).Type() != typ || chunktest.Minimal(typ).Type() != typ {
			t.Errorf("samples of %s are of another type", typ)
		}
	}
	chunktest.Full(chunk.TypeStatePatch).Body.(chunk.StatePatch).Patches[0].Op = "changed"
	if err := chunktest.Full(chunk.TypeStatePatch).Validate(); err != nil {
		t.Errorf("samples share memory: %v", err)
	}
}

// The generators return valid chunks of all requested types.
func TestGenerators(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.OneOf(chunktest.Chunks(), chunktest.Deltas(), chunktest.Unknowns()).Draw(t, "chunk")
		if err := c.Validate(); err != nil {
			t.Fatalf("%#v: %v", c, err)
		}
		typ := rapid.SampledFrom(chunktest.Types()).Draw(t, "type")
		if got := chunktest.ChunksOf(typ).Draw(t, "of type").Type(); got != typ {
			t.Fatalf("%s, want %s", got, typ)
		}
	})
}

// The transcripts together have every type except rare ones.
func TestTranscriptsCoverTheCatalogue(t *testing.T) {
	seen := make(map[chunk.Type]bool)
	for _, name := range chunktest.Transcripts() {
		for _, r := range chunktest.Records(name, chunk.RootSession("t", "root")) {
			seen[r.Type] = true
		}
	}
	for _, typ := range chunktest.Types() {
		if !seen[typ] && typ != chunk.TypeStreamActive {
			t.Errorf("no transcript has a %s", typ)
		}
	}
}

// Records returns what a reader of the log gets: increasing sequences, contiguous ordinals, and the sessions of sub-agents in addition to that of the root.
func TestRecords(t *testing.T) {
	root := chunk.RootSession("t", "root")
	last := make(map[chunk.Session]chunk.Ordinal)
	seq := chunk.Seq(0)
	for _, r := range chunktest.Records("subagents", root) {
		if r.Seq <= seq || r.Ordinal != last[r.Session]+1 || r.Session.Tree() != root || r.Epoch != 1 {
			t.Errorf("record %+v follows %d and ordinal %d", r, seq, last[r.Session])
		}
		seq, last[r.Session] = r.Seq, r.Ordinal
	}
	if len(last) != 4 {
		t.Errorf("%d sessions, want the root and three sub-agents", len(last))
	}
	names := chunktest.Transcripts()
	want := []string{"approval", "failure", "plain", "subagents", "thinking", "tools", "truncation", "unknown"}
	if !slices.Equal(names, want) {
		t.Errorf("transcripts %v, want %v", names, want)
	}
}

package chunktest

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

//go:embed transcripts/*.jsonl
var transcripts embed.FS

// Transcripts lists the names of the recorded sessions: the output of a worker, one JSON object per line, in order. Sub-agents are interleaved, as in the tree.
func Transcripts() []string {
	entries, err := transcripts.ReadDir("transcripts")
	if err != nil {
		panic(err) // embedded above
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".jsonl"))
	}
	return names
}

// Lines returns the JSON of one transcript, one chunk or control record per line. It panics for a name that is not in Transcripts.
func Lines(name string) [][]byte {
	data, err := transcripts.ReadFile(path.Join("transcripts", name+".jsonl"))
	if err != nil {
		panic(fmt.Sprintf("chunktest: no transcript %q", name))
	}
	return slices.Collect(bytes.Lines(data))
}

// Records returns a transcript as a reader of the tree of root gets it: sequences with gaps, the records of each agent in a session of its own with ordinals
// from 1, epochs from the run_started records. It panics for a name that is not in Transcripts.
func Records(name string, root chunk.Session) []chunk.Record {
	ordinals := make(map[chunk.Session]chunk.Ordinal)
	epochs := make(map[chunk.Session]chunk.Epoch)
	var records []chunk.Record
	for i, line := range Lines(name) {
		line = bytes.TrimSpace(line)
		c, err := chunk.Decode(line)
		if err != nil {
			panic(fmt.Sprintf("chunktest: %s line %d: %v", name, i+1, err))
		}
		s := root
		if c.AgentID != "root" {
			s = root.Child(c.AgentID)
		}
		if run, ok := chunk.As[chunk.RunStarted](c); ok {
			epochs[s] = chunk.Epoch(run.Epoch)
		}
		ordinals[s]++
		records = append(records, chunk.Record{
			Seq: chunk.Seq(100 + 3*i), Session: s, Epoch: epochs[s], Ordinal: ordinals[s], Type: c.Type(),
			StoredAt: time.UnixMilli(c.Timestamp).UTC(), Data: line,
		})
	}
	return records
}

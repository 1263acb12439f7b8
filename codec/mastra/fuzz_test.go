package mastra

import (
	"bytes"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// FuzzTranslate checks for any lines that Translate and End return valid chunks that fold without a fault, that a sub-agent starts before its first chunk and
// ends after its last one, and that the same lines give the same chunks.
func FuzzTranslate(f *testing.F) {
	for _, r := range append(runs(f), cases(f)...) {
		var lines [][]byte
		for _, raw := range r.Chunks {
			lines = append(lines, raw)
		}
		f.Add(bytes.Join(lines, []byte("\n")))
	}
	for _, line := range catalogue {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		steps := fuzzed(t, text)
		checkChildren(t, steps)
		for _, records := range log(t, steps) {
			if s := foldAll(t, records); s.Status == "active" && records[0].Session == root {
				t.Fatal("the run is still running at the end of its body")
			}
		}
		again := fuzzed(t, text)
		if a, b := spell(t, steps), spell(t, again); !bytes.Equal(a, b) {
			t.Fatalf("once %s\nthen %s", a, b)
		}
	})
}

func fuzzed(tb testing.TB, text []byte) []step {
	tb.Helper()
	tr := New(Config{Session: "s1", RunID: "run-0"})
	var steps []step
	for line := range bytes.Lines(text) {
		if isSeparator(line) {
			steps = append(steps, step{chunks: tr.End()})
			continue
		}
		chunks, err := tr.Translate(line)
		if err != nil {
			continue
		}
		steps = append(steps, step{raw: line, chunks: chunks})
	}
	return append(steps, step{chunks: tr.End()})
}

func spell(tb testing.TB, steps []step) []byte {
	tb.Helper()
	var out []byte
	for _, s := range steps {
		for _, c := range s.chunks {
			var err error
			if out, err = c.AppendJSON(append(out, '\n')); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return out
}

// checkChildren fails the test if a session has chunks before its start or after its end.
func checkChildren(tb testing.TB, steps []step) {
	tb.Helper()
	open := map[string]int{root.ID: 1}
	for _, s := range steps {
		for _, c := range s.chunks {
			if open[c.AgentID] == 0 {
				tb.Fatalf("%s says %s, and was not announced", c.AgentID, c.Type())
			}
			switch b := c.Body.(type) {
			case chunk.SubagentStart:
				open[b.SubSessionID]++
			case chunk.SubagentEnd:
				open[b.SubSessionID]--
			}
		}
	}
	for id, n := range open {
		if id != root.ID && n < 0 {
			tb.Fatalf("%s ended more often than it began", id)
		}
	}
}

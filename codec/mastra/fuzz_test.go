package mastra

import (
	"bytes"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// FuzzTranslate: whatever comes, line by line, Translate and End return. What
// they say is valid and folds without a fault; sub-agents are announced before
// they speak and ended after; the same lines give the same again.
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
		if newLeg(line) {
			steps = append(steps, step{said: tr.End()})
			continue
		}
		said, err := tr.Translate(line)
		if err != nil {
			continue
		}
		steps = append(steps, step{raw: line, said: said})
	}
	return append(steps, step{said: tr.End()})
}

func spell(tb testing.TB, steps []step) []byte {
	tb.Helper()
	var out []byte
	for _, s := range steps {
		for _, c := range s.said {
			var err error
			if out, err = c.AppendJSON(append(out, '\n')); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return out
}

// checkChildren fails when a session speaks that was not announced, or not any more.
func checkChildren(tb testing.TB, steps []step) {
	tb.Helper()
	open := map[string]int{root.ID: 1}
	for _, s := range steps {
		for _, c := range s.said {
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

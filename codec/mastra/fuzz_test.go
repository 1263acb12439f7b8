package mastra

import (
	"bytes"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/dialect"
)

// FuzzTranslate checks for any lines that Translate and End return valid chunks that fold without a fault, that a sub-agent starts before its first chunk and
// ends after its last one, that the same lines give the same chunks, and that what a Writer makes of these reaches the client.
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
		for _, frames := range write("msg-1", tree(log(t, steps))).frames {
			chunksIn(t, frames)
		}
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

func fuzzed(tb fataler, text []byte) []step {
	tb.Helper()
	tr := New(codec.Run{Session: "s1", RunID: "run-0"})
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

func spell(tb fataler, steps []step) []byte {
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
func checkChildren(tb fataler, steps []step) {
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

// FuzzWrite checks for any records, one on each line, that a client gets every frame, from the beginning and after any record.
func FuzzWrite(f *testing.F) {
	for _, r := range append(runs(f), example(f, "network.jsonl"), example(f, "nested-workflow.jsonl")) {
		var lines [][]byte
		for _, rec := range tree(log(f, translate(f, r))) {
			lines = append(lines, rec.Data)
		}
		f.Add(bytes.Join(lines, []byte("\n")), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		var records []chunk.Record
		last := map[string]chunk.Ordinal{}
		for line := range bytes.Lines(text) {
			m := dialect.Read(bytes.TrimSpace(line))
			kind, _ := m.Text("type")
			agent, _ := m.Text("agentId")
			s := root
			if agent != root.ID {
				s = root.Child(agent)
			}
			last[agent]++
			records = append(records, chunk.Record{
				Seq: chunk.Seq(len(records) + 1), Session: s, Epoch: 1, Ordinal: last[agent], Type: chunk.Type(kind), Data: bytes.TrimSpace(line),
			})
		}
		messageID := "msg-1"
		live := write(messageID, records)
		for _, frames := range live.frames {
			chunksIn(t, frames)
		}
		if len(records) == 0 {
			return
		}
		if again := primed(messageID, records, int(uint(cut)%uint(len(records)))); !bytes.Equal(again.body(), live.body()) {
			t.Fatalf("got %s\nwant %s", again.body(), live.body())
		}
	})
}

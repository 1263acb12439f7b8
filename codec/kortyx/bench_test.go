package kortyx_test

import (
	"slices"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/codec/helix"
	"github.com/tailrace/tailrace/codec/kortyx"
)

func logOf(tb testing.TB, bodies []chunk.Body) []chunk.Record {
	tb.Helper()
	var log []chunk.Record
	for i, body := range bodies {
		c := chunk.Chunk{AgentID: "session-1", AgentType: "assistant", Timestamp: 1767225600037, Step: 1, Body: body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			tb.Fatal(err)
		}
		log = append(log, chunk.Record{
			Seq: chunk.Seq(100_001 + i), Session: chunk.RootSession("t", "session-1"), Epoch: 1, Ordinal: chunk.Ordinal(1 + i), Type: c.Type(), Data: data,
		})
	}
	return log
}

// turn returns a turn of three steps as a model writes them: reasoning, a tool call, text.
func turn(tb testing.TB) []chunk.Record {
	tb.Helper()
	ours := true
	bodies := []chunk.Body{chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "why?"}}}}
	for _, id := range []string{"c1", "c2", "c3"} {
		bodies = append(bodies, chunk.StepStart{})
		bodies = append(bodies, slices.Repeat([]chunk.Body{chunk.Thinking{Content: "a thought of some words "}}, 10)...)
		bodies = append(bodies,
			chunk.ToolStart{ToolCallID: id, ToolName: "search", Arguments: chunk.Value(`{"query":"weather in Oslo"}`)},
			chunk.ToolEnd{ToolCallID: id, ToolName: "search", Result: chunk.Value(`{"celsius":21.5,"sky":"blue"}`), ProviderExecuted: &ours})
		bodies = append(bodies, slices.Repeat([]chunk.Body{chunk.TextDelta{Delta: "so the sky "}}, 80)...)
		bodies = append(bodies, chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "100", OutputTokens: "20"}})
	}
	return logOf(tb, append(bodies, chunk.StreamEnd{StreamID: "session-1"}))
}

// BenchmarkWriter writes a turn: deltas are copied, other records are parsed. The native frames are copies of all records.
func BenchmarkWriter(b *testing.B) { compare(b, turn(b)) }

// BenchmarkText writes a turn of text.
func BenchmarkText(b *testing.B) {
	bodies := []chunk.Body{chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}}
	bodies = append(bodies, slices.Repeat([]chunk.Body{chunk.TextDelta{Delta: "so the sky "}}, 1000)...)
	compare(b, logOf(b, append(bodies, chunk.StreamEnd{StreamID: "session-1"})))
}

func compare(b *testing.B, log []chunk.Record) {
	b.Helper()
	var frames []byte
	b.Run("kortyx", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w := kortyx.NewWriter(nil)
			for _, rec := range log {
				frames = w.Append(frames[:0], rec)
			}
		}
		b.ReportMetric(float64(b.N*len(log))/b.Elapsed().Seconds(), "chunks/s")
	})
	b.Run("native", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, rec := range log {
				frames = helix.Encode(frames[:0], rec, chunk.ScopeTree)
			}
		}
		b.ReportMetric(float64(b.N*len(log))/b.Elapsed().Seconds(), "chunks/s")
	})
}

// BenchmarkTranslate translates pieces of text, which are most chunks.
func BenchmarkTranslate(b *testing.B) {
	tr := kortyx.New(codec.Run{Session: "s1"})
	raw := []byte(`{"type":"text-delta","node":"plan","opId":"op-1","segmentId":"1","delta":"so the sky "}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tr.Translate(raw); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "chunks/s")
}

// A piece of text needs no allocation.
func TestDeltaAllocatesNothing(t *testing.T) {
	log := logOf(t, slices.Concat([]chunk.Body{chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}}, slices.Repeat([]chunk.Body{chunk.TextDelta{Delta: "so the sky "}}, 4)))
	w := kortyx.NewWriter(nil)
	frames := make([]byte, 0, 1024)
	for _, rec := range log[:4] {
		frames = w.Append(frames[:0], rec)
	}
	rec := log[4]
	if n := testing.AllocsPerRun(100, func() {
		frames = w.Append(frames[:0], rec)
		rec.Ordinal++
	}); n > 0 || len(frames) == 0 {
		t.Errorf("%v allocations per delta, want none; %q", n, frames)
	}
}

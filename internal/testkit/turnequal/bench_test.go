//go:build !race

package turnequal_test

import (
	"slices"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/turnequal"
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
			Seq: chunk.Seq(100_001 + i), Session: chunk.RootSession("t", "session-1"), Epoch: 1, Ordinal: chunk.Ordinal(1 + i), Type: body.Type(), Data: data,
		})
	}
	return log
}

// turnLog returns a turn of three steps as a model writes them: reasoning, a tool call, text.
func turnLog(tb testing.TB) []chunk.Record {
	tb.Helper()
	bodies := []chunk.Body{chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "why?"}}}}
	for _, id := range []string{"c1", "c2", "c3"} {
		bodies = append(bodies, chunk.StepStart{})
		bodies = append(bodies, slices.Repeat([]chunk.Body{chunk.Thinking{Content: "a thought of some words "}}, 10)...)
		bodies = append(bodies,
			chunk.ToolStart{ToolCallID: id, ToolName: "search", Arguments: chunk.Value(`{"query":"weather in Oslo"}`)},
			chunk.ToolEnd{ToolCallID: id, ToolName: "search", Result: chunk.Value(`{"celsius":21.5,"sky":"blue"}`), ProviderExecuted: new(true)})
		bodies = append(bodies, slices.Repeat([]chunk.Body{chunk.TextDelta{Delta: "so the sky "}}, 80)...)
		bodies = append(bodies, chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "100", OutputTokens: "20"}})
	}
	return logOf(tb, append(bodies, chunk.StreamEnd{StreamID: "session-1"}))
}

// BenchmarkTurn writes a turn, which is mostly text, with the old writer and the new one of each dialect.
func BenchmarkTurn(b *testing.B) {
	log := turnLog(b)
	each(b, func(b *testing.B, open func() turnequal.Writer) {
		b.Helper()
		var frames []byte
		for b.Loop() {
			w := open()
			for _, rec := range log {
				frames = w.Append(frames[:0], rec)
			}
		}
	})
}

// BenchmarkDelta writes a piece of an open text with both.
func BenchmarkDelta(b *testing.B) {
	log := logOf(b, []chunk.Body{chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}, chunk.TextDelta{Delta: "so the sky "}, chunk.TextDelta{Delta: "so the sky "}})
	each(b, func(b *testing.B, open func() turnequal.Writer) {
		b.Helper()
		w, frames := open(), []byte(nil)
		for _, rec := range log {
			frames = w.Append(frames[:0], rec)
		}
		rec := log[2]
		for b.Loop() {
			rec.Ordinal++
			frames = w.Append(frames[:0], rec)
		}
	})
}

// each runs a benchmark for the writers of each dialect.
func each(b *testing.B, run func(b *testing.B, open func() turnequal.Writer)) {
	b.Helper()
	of := turnequal.Turn{ID: "msg-1"}
	for _, dialect := range []string{turnequal.AGUI, turnequal.AISDK, turnequal.Kortyx, turnequal.Mastra} {
		b.Run(dialect+"/old", func(b *testing.B) {
			b.ReportAllocs()
			run(b, func() turnequal.Writer { return turnequal.Old(dialect, of) })
		})
		b.Run(dialect+"/new", func(b *testing.B) {
			b.ReportAllocs()
			run(b, func() turnequal.Writer { return writers[dialect](of) })
		})
	}
}

package agui_test

import (
	"slices"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/codec/agui"
	"github.com/tailrace/tailrace/codec/helix"
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

// BenchmarkTurn writes a turn, which is mostly text, next to a copy of the records as native frames.
func BenchmarkTurn(b *testing.B) {
	log := turn(b)
	var frames []byte
	b.Run("agui", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w := agui.New("msg-1", agui.Options{})
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

// BenchmarkDelta writes one text delta next to its native frame.
func BenchmarkDelta(b *testing.B) {
	log := logOf(b, []chunk.Body{chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}, chunk.TextDelta{Delta: "so the sky "}, chunk.TextDelta{Delta: "so the sky "}})
	var frames []byte
	rec := log[2]
	b.Run("agui", func(b *testing.B) {
		w := agui.New("msg-1", agui.Options{})
		for _, rec := range log {
			frames = w.Append(frames[:0], rec)
		}
		rec := rec
		b.ReportAllocs()
		for b.Loop() {
			rec.Ordinal++
			frames = w.Append(frames[:0], rec)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "chunks/s")
	})
	b.Run("native", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			frames = helix.Encode(frames[:0], rec, chunk.ScopeTree)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "chunks/s")
	})
}

// BenchmarkTranslate translates the events of a turn.
func BenchmarkTranslate(b *testing.B) {
	event := []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg-1-3-0","delta":"so the sky "}`)
	tr := agui.NewTranslator(codec.Run{Session: "s1"})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tr.Translate(event); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// TestDeltaAllocatesNothing checks that a delta needs no allocation.
func TestDeltaAllocatesNothing(t *testing.T) {
	log := logOf(t, append([]chunk.Body{chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}}, slices.Repeat([]chunk.Body{chunk.TextDelta{Delta: "sky"}}, 4)...))
	w := agui.New("msg-1", agui.Options{})
	frames := make([]byte, 0, 1024)
	for _, rec := range log[:4] {
		frames = w.Append(frames[:0], rec)
	}
	rec := log[4]
	if n := testing.AllocsPerRun(100, func() {
		frames = w.Append(frames[:0], rec)
		rec.Ordinal++
	}); n > 0 {
		t.Errorf("%v allocations per delta, want none", n)
	}
}

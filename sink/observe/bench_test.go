package observe_test

import (
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/row"
)

// A log of many turns, nine tenths of whose records are pieces of text.
func BenchmarkAppend(b *testing.B) {
	w := newScript(b)
	for range 20 {
		w.start(call(len(w.log)))
		for range 5 {
			w.write(chunk.StepStart{})
			for range 54 {
				w.write(chunk.TextDelta{Delta: "some words "})
			}
			for range 2 {
				id := call(len(w.log))
				w.write(chunk.ToolStart{ToolCallID: id, ToolName: "search", Arguments: chunk.Value(`{"q":"words"}`)})
				w.write(chunk.ToolEnd{ToolCallID: id, ToolName: "search", Result: chunk.Value(`{"found":["some","words"]}`)})
			}
			w.write(chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "10", OutputTokens: "3"}})
		}
		w.write(chunk.StreamEnd{StreamID: "s1"})
	}
	public, err := view.View{Preset: view.Public}.Compile()
	if err != nil {
		b.Fatal(err)
	}
	for name, show := range map[string]func(chunk.Record) (chunk.Record, bool){"view=none": nil, "view=public": public.Record} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			f := observe.New(observe.Config{Position: position, Show: show})
			var batch row.Batch
			seq := chunk.Seq(0)
			ordinal := chunk.Ordinal(0)
			for b.Loop() {
				i := int(seq) % len(w.log)
				rec := w.log[i]
				seq++
				ordinal++
				rec.Seq, rec.Ordinal = seq, ordinal
				if i == 0 {
					batch = row.Batch{}
				}
				f.Append(&batch, rec)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

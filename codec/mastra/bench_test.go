package mastra

import (
	"bytes"
	"slices"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/codec/helix"
)

// BenchmarkTranslate translates the chunks of a recorded run.
func BenchmarkTranslate(b *testing.B) {
	for _, name := range []string{"text", "tool", "sub-agent", "workflow"} {
		for _, r := range runs(b) {
			if r.Name != name {
				continue
			}
			b.Run("run="+name, func(b *testing.B) {
				b.ReportAllocs()
				size := 0
				for _, raw := range r.Chunks {
					size += len(raw)
				}
				b.SetBytes(int64(size))
				for b.Loop() {
					tr := New(codec.Run{Session: "s1"})
					for _, raw := range r.Chunks {
						if _, err := tr.Translate(raw); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(b.N*len(r.Chunks))/b.Elapsed().Seconds(), "chunks/s")
			})
		}
	}
}

// turnLog returns a turn of three steps as a model writes them: reasoning, a tool call, text.
func turnLog(tb fataler) []chunk.Record {
	tb.Helper()
	bodies := []chunk.Body{chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "why?"}}}}
	for _, id := range []string{"c1", "c2", "c3"} {
		bodies = append(bodies, chunk.StepStart{})
		bodies = append(bodies, slices.Repeat([]chunk.Body{chunk.Thinking{Content: "a thought of some words "}}, 10)...)
		bodies = append(bodies,
			chunk.ToolStart{ToolCallID: id, ToolName: "search", Arguments: chunk.Value(`{"query":"weather in Oslo"}`)},
			chunk.ToolEnd{ToolCallID: id, ToolName: "search", Result: chunk.Value(`{"celsius":21.5,"sky":"blue"}`), ProviderExecuted: &serverSide})
		bodies = append(bodies, slices.Repeat([]chunk.Body{chunk.TextDelta{Delta: "so the sky "}}, 80)...)
		bodies = append(bodies, chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "100", OutputTokens: "20"}})
	}
	bodies = append(bodies, chunk.StreamEnd{StreamID: root.ID})
	var records []chunk.Record
	for i, body := range bodies {
		c := chunk.Chunk{AgentID: root.ID, AgentType: "assistant", Timestamp: 1767225600037, Step: 1, Body: body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			tb.Fatal(err)
		}
		records = append(records, chunk.Record{
			Seq: chunk.Seq(100_001 + i), Session: root, Epoch: 1, Ordinal: chunk.Ordinal(1 + i), Type: c.Type(), Data: data,
		})
	}
	return records
}

// BenchmarkWrite compares the cost of a turn with that of the native protocol, whose frames are copies of the records.
func BenchmarkWrite(b *testing.B) {
	records := turnLog(b)
	var frames []byte
	b.Run("mastra", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w := NewWriter("msg-1")
			for _, rec := range records {
				frames = w.Append(frames[:0], rec)
			}
		}
		b.ReportMetric(float64(b.N*len(records))/b.Elapsed().Seconds(), "chunks/s")
	})
	b.Run("native", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, rec := range records {
				frames = helix.Encode(frames[:0], rec, chunk.ScopeTree)
			}
		}
		b.ReportMetric(float64(b.N*len(records))/b.Elapsed().Seconds(), "chunks/s")
	})
}

// BenchmarkDelta is BenchmarkWrite for one text delta.
func BenchmarkDelta(b *testing.B) {
	records := turnLog(b)
	at := slices.IndexFunc(records, func(rec chunk.Record) bool { return rec.Type == chunk.TypeTextDelta }) + 1
	b.Run("mastra", func(b *testing.B) {
		w, rec := NewWriter("msg-1"), records[at]
		var frames []byte
		for _, rec := range records[:at+1] {
			frames = w.Append(frames[:0], rec)
		}
		b.ReportAllocs()
		for b.Loop() {
			rec.Ordinal++
			frames = w.Append(frames[:0], rec)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "chunks/s")
	})
	b.Run("native", func(b *testing.B) {
		var frames []byte
		b.ReportAllocs()
		for b.Loop() {
			frames = helix.Encode(frames[:0], records[at], chunk.ScopeTree)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "chunks/s")
	})
}

// TestDeltaAllocatesNothing checks that a delta needs no allocation.
func TestDeltaAllocatesNothing(t *testing.T) {
	records := turnLog(t)
	at := slices.IndexFunc(records, func(rec chunk.Record) bool { return rec.Type == chunk.TypeTextDelta }) + 1
	w, rec := NewWriter("msg-1"), records[at]
	frames := make([]byte, 0, 1024)
	for _, rec := range records[:at+1] {
		frames = w.Append(frames[:0], rec)
	}
	if n := testing.AllocsPerRun(100, func() {
		rec.Ordinal++
		frames = w.Append(frames[:0], rec)
	}); n > 0 {
		t.Errorf("%v allocations per delta, want none", n)
	}
}

// TestFastPath checks that the frames of a delta that is only copied are those of one that is parsed.
func TestFastPath(t *testing.T) {
	records := turnLog(t)
	fast := write("msg-1", records)
	slow := NewWriter("msg-1")
	for i, rec := range records {
		rec.Data = append([]byte(" "), rec.Data...) // another spelling
		if got := slow.Append(nil, rec); !bytes.Equal(got, fast.frames[i]) {
			t.Fatalf("record %d %s\n got %s\nwant %s", i, rec.Data, fast.frames[i], got)
		}
	}
}

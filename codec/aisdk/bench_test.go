package aisdk_test

import (
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/sseedge/native"
)

// answer is a turn of one step that says n words.
func answer(tb testing.TB, n int) []chunk.Record {
	tb.Helper()
	var log []chunk.Record
	say := func(body chunk.Body) {
		c := chunk.Chunk{AgentID: "session-1", AgentType: "assistant", Timestamp: 1767225600037, Step: 1, Body: body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			tb.Fatal(err)
		}
		i := len(log) + 1
		log = append(log, chunk.Record{
			Seq: chunk.Seq(100_000 + i), Session: chunk.RootSession("t", "session-1"), Epoch: 1, Ordinal: chunk.Ordinal(i), Type: body.Type(), Data: data,
		})
	}
	say(chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	say(chunk.StepStart{})
	for range n {
		say(chunk.TextDelta{Delta: "so the sky "})
	}
	return log
}

// What a chunk costs against the frame of the agent protocol, which is a copy of
// the record: chunks of text, one by one.
func BenchmarkDelta(b *testing.B) {
	log := answer(b, 1000)
	deltas := log[2:]
	b.Run("aisdk", func(b *testing.B) {
		m := aisdk.New("msg-1", aisdk.Options{})
		var frames []byte
		for _, rec := range log[:3] {
			frames = m.Append(frames[:0], rec)
		}
		rec := deltas[1]
		b.ReportAllocs()
		for b.Loop() {
			rec.Ordinal++
			frames = m.Append(frames[:0], rec)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "chunks/s")
	})
	b.Run("native", func(b *testing.B) {
		var frames []byte
		rec := deltas[1]
		b.ReportAllocs()
		for b.Loop() {
			frames = native.Encode(frames[:0], rec, chunk.ScopeTree)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "chunks/s")
	})
}

// A page that comes when a thousand chunks are written.
func BenchmarkReplay(b *testing.B) {
	log := answer(b, 1000)
	b.ReportAllocs()
	var frames []byte
	for b.Loop() {
		frames = aisdk.New("msg-1", aisdk.Options{}).Replay(frames[:0], log)
	}
	b.ReportMetric(float64(b.N*len(log))/b.Elapsed().Seconds(), "chunks/s")
}

// Every kind of call once: the records that are read whole.
func BenchmarkTool(b *testing.B) {
	yes := true
	log := answer(b, 1)
	for _, body := range []chunk.Body{
		chunk.ToolStart{ToolCallID: "c1", ToolName: "search", Arguments: chunk.Value(`{"query":"weather in Oslo"}`)},
		chunk.ToolEnd{ToolCallID: "c1", ToolName: "search", Result: chunk.Value(`{"celsius":21.5,"sky":"blue"}`), ProviderExecuted: &yes},
	} {
		rec := log[0]
		data, err := chunk.Chunk{AgentID: "session-1", AgentType: "assistant", Step: 1, Body: body}.AppendJSON(nil)
		if err != nil {
			b.Fatal(err)
		}
		rec.Seq, rec.Ordinal, rec.Type, rec.Data = chunk.Seq(len(log)+200_000), chunk.Ordinal(len(log)+1), body.Type(), data
		log = append(log, rec)
	}
	b.ReportAllocs()
	var frames []byte
	for b.Loop() {
		m := aisdk.New("msg-1", aisdk.Options{})
		for _, rec := range log {
			frames = m.Append(frames[:0], rec)
		}
	}
	b.ReportMetric(float64(b.N*len(log))/b.Elapsed().Seconds(), "chunks/s")
}

// A delta costs no memory.
func TestDeltaAllocatesNothing(t *testing.T) {
	log := answer(t, 3)
	m := aisdk.New("msg-1", aisdk.Options{})
	frames := make([]byte, 0, 1024)
	for _, rec := range log[:4] {
		frames = m.Append(frames[:0], rec)
	}
	rec := log[4]
	if n := testing.AllocsPerRun(100, func() {
		frames = m.Append(frames[:0], rec)
		rec.Ordinal++
	}); n > 0 {
		t.Errorf("%v allocations per delta, want none", n)
	}
}

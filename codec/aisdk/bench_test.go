package aisdk_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/codec/helix"
	"github.com/tailrace/tailrace/projector/fold"
)

// answer returns a turn of one step with n text deltas.
func answer(tb testing.TB, n int) []chunk.Record {
	tb.Helper()
	bodies := []chunk.Body{chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}, chunk.StepStart{}}
	return logOf(tb, append(bodies, slices.Repeat([]chunk.Body{chunk.TextDelta{Delta: "so the sky "}}, n)...))
}

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

// BenchmarkDelta compares the cost of one text delta with the frame of the agent protocol, which is a copy of the record.
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
			frames = helix.Encode(frames[:0], rec, chunk.ScopeTree)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "chunks/s")
	})
}

// BenchmarkReplay replays a thousand records to a new client.
func BenchmarkReplay(b *testing.B) {
	log := answer(b, 1000)
	b.ReportAllocs()
	var frames []byte
	for b.Loop() {
		frames = aisdk.New("msg-1", aisdk.Options{}).Replay(frames[:0], log)
	}
	b.ReportMetric(float64(b.N*len(log))/b.Elapsed().Seconds(), "chunks/s")
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

// BenchmarkTurn encodes a turn: deltas are copied, other records are parsed.
func BenchmarkTurn(b *testing.B) {
	log := turn(b)
	var frames []byte
	b.Run("aisdk", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m := aisdk.New("msg-1", aisdk.Options{})
			for _, rec := range log {
				frames = m.Append(frames[:0], rec)
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

// TestDeltaAllocatesNothing checks that a delta needs no allocation.
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

// TestTurnAllocatesLittle checks that a turn allocates little more than the state of its calls.
func TestTurnAllocatesLittle(t *testing.T) {
	log := turn(t)
	frames := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(20, func() {
		m := aisdk.New("msg-1", aisdk.Options{})
		for _, rec := range log {
			frames = m.Append(frames[:0], rec)
		}
	}); n > 60 {
		t.Errorf("%v allocations for %d records, want at most 60", n, len(log))
	}
}

// BenchmarkSnapshot measures the conversion of a conversation of 50 turns with 3 steps each.
func BenchmarkSnapshot(b *testing.B) {
	session := chunk.RootSession("acme", "s1")
	f, n := fold.New(session), 0
	add := func(step int64, body chunk.Body) {
		n++
		c := chunk.Chunk{AgentID: session.ID, AgentType: "a", Timestamp: 1, Step: step, Body: body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			b.Fatal(err)
		}
		rec := chunk.Record{Seq: chunk.Seq(n), Session: session, Epoch: 1, Ordinal: chunk.Ordinal(n), Type: c.Type(), Data: data}
		if err := f.Apply(rec); err != nil {
			b.Fatal(err)
		}
	}
	for turn := range 50 {
		add(0, chunk.RunStarted{RunID: fmt.Sprint("r", turn), Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "a question of some length"}}})
		for step := range int64(3) {
			add(step+1, chunk.StepStart{})
			for range 20 {
				add(step+1, chunk.TextDelta{Delta: "some words of an answer, which has twenty pieces. "})
			}
			id := fmt.Sprintf("c%d-%d", turn, step)
			add(step+1, chunk.ToolStart{ToolCallID: id, ToolName: "search", Arguments: chunk.Value(`{"query":"something to look for","n":10}`)})
			hits := chunk.Value(`{"hits":[{"title":"one","url":"https://example.com/1"},{"title":"two","url":"https://example.com/2"}]}`)
			add(step+1, chunk.ToolEnd{ToolCallID: id, ToolName: "search", Result: hits})
			add(step+1, chunk.SourceURL{SourceID: "s1", URL: "https://example.com/1"})
			add(step+1, chunk.Custom{EventName: "progress", Data: chunk.Value(`{"done":3,"of":10,"what":"a longer text in here"}`)})
			add(step+1, chunk.StepEnd{})
		}
		add(4, chunk.StreamEnd{StreamID: session.ID})
	}
	s := f.Snapshot()
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = aisdk.Snapshot(s, aisdk.SnapshotOptions{Partial: true}).AppendJSON(dst[:0])
	}
	b.SetBytes(int64(len(dst)))
}

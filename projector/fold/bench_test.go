package fold

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/structured"
)

// stream returns a session like those of models: turns of three steps, each with reasoning, a tool call and many deltas.
func stream(b *testing.B, n int) []chunk.Record {
	b.Helper()
	executed := true
	log := make([]chunk.Record, 0, n)
	add := func(body chunk.Body, step int64) {
		c := chunk.Chunk{AgentID: session.ID, AgentType: "agent", Timestamp: 1_760_000_000_000, Step: step, Body: body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			b.Fatal(err)
		}
		o := chunk.Ordinal(len(log) + 1)
		log = append(log, chunk.Record{Seq: chunk.Seq(3 * o), Session: session, Epoch: 1, Ordinal: o, Type: c.Type(), Data: data})
	}
	for turn := 0; len(log) < n; turn++ {
		add(chunk.RunStarted{RunID: fmt.Sprint("r", turn), Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "question"}}}, 0)
		for step := range int64(3) {
			add(chunk.StepStart{}, step+1)
			for range 10 {
				add(chunk.Thinking{Content: "thought "}, step+1)
			}
			call := fmt.Sprintf("c%d-%d", turn, step)
			add(chunk.ToolStart{ToolCallID: call, ToolName: "search", Arguments: chunk.Value(`{"q":"tailrace"}`)}, step+1)
			add(chunk.ToolEnd{ToolCallID: call, ToolName: "search", Result: chunk.Value(`{"hits":[1,2,3]}`), ProviderExecuted: &executed}, step+1)
			for range 80 {
				add(chunk.TextDelta{Delta: "some words "}, step+1)
			}
			add(chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "100", OutputTokens: "20"}}, step+1)
		}
		add(chunk.StreamEnd{StreamID: session.ID}, 3)
	}
	return log[:n]
}

// BenchmarkApply measures one chunk, for sessions of any length.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("chunks=%d", n), func(b *testing.B) {
			log := stream(b, n)
			b.ReportAllocs()
			b.ResetTimer()
			f, i := New(session), 0
			for b.Loop() {
				if i == len(log) {
					f, i = New(session), 0
				}
				if err := f.Apply(log[i]); err != nil {
					b.Fatal(err)
				}
				if i++; i%200 == 0 {
					f.Trim()
				}
			}
		})
	}
}

// BenchmarkLink measures the part of the chain over the records.
func BenchmarkLink(b *testing.B) {
	log := stream(b, 1000)
	s := newSnapshot(session)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.link(log[i%len(log)])
	}
}

// BenchmarkStructuredStep measures a step that changes a structured stream. The step copies the stream once, because the
// snapshot from before the step shares it.
func BenchmarkStructuredStep(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10, 1<<20 - 4096} {
		for _, changes := range []bool{false, true} {
			b.Run(fmt.Sprintf("stream=%d/changes=%t", size, changes), func(b *testing.B) {
				s := newSnapshot(session)
				add := func(step int64, body chunk.Body) {
					c := chunk.Chunk{AgentID: session.ID, AgentType: "agent", Timestamp: 1, Step: step, Body: body}
					data, err := c.AppendJSON(nil)
					if err != nil {
						b.Fatal(err)
					}
					rec := chunk.Record{Seq: s.Position.Seq + 1, Session: session, Epoch: 1, Ordinal: s.Position.Ordinal + 1, Type: c.Type(), Data: data}
					if s, err = applyRecord(s, rec); err != nil {
						b.Fatal(err)
					}
				}
				piece := func(delta string) chunk.Body {
					return chunk.Custom{EventName: structured.PieceEvent, Data: fmt.Appendf(nil,
						`{"type":"structured-data","streamId":"s","dataType":"t","kind":"text-delta","path":"t","delta":%q}`, delta)}
				}
				add(0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
				for range size / 1024 {
					add(1, piece(strings.Repeat("x", 1024)))
				}
				b.ReportAllocs()
				for step := int64(2); b.Loop(); step++ {
					add(step, chunk.StepStart{})
					if changes {
						add(step, piece(""))
					}
				}
			})
		}
	}
}

// BenchmarkDecodeOnly measures the part of the decoder: the lower bound of BenchmarkApply.
func BenchmarkDecodeOnly(b *testing.B) {
	log := stream(b, 1000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := log[i%len(log)].Decode(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLongText measures a delta of a long text; the cost must not depend on the length.
func BenchmarkLongText(b *testing.B) {
	s, err := applyRecord(newSnapshot(session), record(b, 1, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}))
	if err != nil {
		b.Fatal(err)
	}
	rec := record(b, 2, chunk.TextDelta{Delta: strings.Repeat("x", 20)})
	b.ReportAllocs()
	for b.Loop() {
		rec.Ordinal, rec.Seq = s.Position.Ordinal+1, s.Position.Seq+1
		if s, err = applyRecord(s, rec); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppendHead measures the encoding of a head.
func BenchmarkAppendHead(b *testing.B) {
	s := newSnapshot(session)
	for _, rec := range stream(b, 10_000) {
		var err error
		if s, err = applyRecord(s, rec); err != nil {
			b.Fatal(err)
		}
	}
	buf := s.AppendHead(nil)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf = s.AppendHead(buf[:0])
	}
}

func BenchmarkParseHead(b *testing.B) {
	s := newSnapshot(session)
	for _, rec := range stream(b, 10_000) {
		var err error
		if s, err = applyRecord(s, rec); err != nil {
			b.Fatal(err)
		}
	}
	head := s.AppendHead(nil)
	b.SetBytes(int64(len(head)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseHead(head); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPatch measures a patch, whose cost grows with the state because the library reads all of it.
func BenchmarkPatch(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 512 << 10} {
		b.Run(fmt.Sprintf("state=%d", size), func(b *testing.B) {
			state := chunk.Value(fmt.Sprintf(`{"n":0,"rest":{"text":%q}}`, strings.Repeat("x", size)))
			v := chunk.Value("1")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ApplyPatch(state, []chunk.PatchOp{{Op: "replace", Path: "/n", Value: &v}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package aisdk

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/structured"
)

// arbitraryLog returns a log with records in any order, which workers do not write and clients must handle. Each byte of the script is a record; its last bits
// select the agent and the call.
func arbitraryLog(script []byte) []chunk.Record {
	var log []chunk.Record
	last := map[string]chunk.Ordinal{}
	epoch, step := chunk.Epoch(1), int64(0)
	for i, b := range script {
		agent := "s1"
		if b >= 0xE0 {
			agent = "k1"
		}
		s := session
		if agent == "k1" {
			s = session.Child(agent)
		}
		if b%41 == 0 {
			step++
		}
		body := drawBody(b, i, int64(last[agent]))
		if _, ok := body.(chunk.RunStarted); ok {
			epoch++
		}
		last[agent]++
		rec := chunk.Record{
			Seq: chunk.Seq(i + 1), Session: s, Epoch: epoch, Ordinal: last[agent], Type: chunk.Chunk{Body: body}.Type(), StoredAt: time.UnixMilli(1),
		}
		data, err := chunk.Chunk{AgentID: agent, Step: step, Body: body}.AppendJSON(nil)
		if err != nil {
			continue
		}
		if rec.Data = data; b == 0xDF {
			rec.Data = data[:len(data)/2]
		}
		log = append(log, rec)
	}
	return log
}

func drawBody(b byte, i int, ordinal int64) chunk.Body {
	id := []string{"c1", "c1", "c2", "__proto__"}[b%4]
	name := []string{"search", "browser", "subagent__x", "search", "__finish__"}[int(b)/4%5]
	yes, boom, input := true, "boom\n", chunk.Value(`{"__proto__":[1e400]}`)
	bodies := []chunk.Body{
		chunk.TextDelta{Delta: "a\xed\xa0\xbd"}, chunk.TextDelta{Delta: "\xed\xb8\x80\""},
		chunk.Thinking{Content: "a"}, chunk.Thinking{Content: "aa", IsComplete: true},
		chunk.ToolArgStreamStart{ToolCallID: id, ToolName: name}, chunk.ToolArgStreamDelta{ToolCallID: id, Delta: `{"q":`},
		chunk.ToolArgStreamEnd{ToolCallID: id}, chunk.ToolStart{ToolCallID: id, ToolName: name, Arguments: input},
		chunk.ToolEnd{ToolCallID: id, ToolName: name, Result: input, ProviderExecuted: &yes}, chunk.ToolEnd{ToolCallID: id, ToolName: name, Error: &boom},
		chunk.ToolInputError{ToolCallID: id, ToolName: name, Error: boom}, chunk.ToolOutputError{ToolCallID: id, ToolName: name, Error: boom},
		chunk.ToolApprovalRequest{ToolCallID: id, ToolName: name, ApprovalID: "a" + id, Input: input},
		chunk.ToolApprovalResponse{ToolCallID: id, ToolName: name, ApprovalID: "a" + id, Approved: true},
		chunk.ToolApprovalResponse{ToolCallID: id, ToolName: name, ApprovalID: "b" + id},
		chunk.SubagentStart{SubAgentType: "x", SubSessionID: "k1", CallID: id}, chunk.SubagentEnd{SubAgentType: "x", SubSessionID: "k1", CallID: id, Result: input},
		chunk.Custom{EventName: "e\"", Data: input}, chunk.Custom{EventName: structured.PieceEvent, Data: chunk.Value(`{"type":"structured-data","streamId":"d","dataType":"t","kind":"final","data":1}`)},
		chunk.Custom{EventName: structured.InvalidatedEvent, Data: chunk.Value(`{"streamId":"d"}`)},
		chunk.StatePatch{}, chunk.Error{Error: boom, Recoverable: true}, chunk.Error{Error: boom}, chunk.Output{Output: input},
		chunk.SourceURL{SourceID: "1", URL: "u"}, chunk.SourceDocument{SourceID: "1", MediaType: "m", Title: "t"}, chunk.File{URL: "u", MediaType: "m"},
		chunk.StepStart{}, chunk.StepStart{}, chunk.StepEnd{}, chunk.RunInterrupted{RunID: "r"}, chunk.RunResumed{RunID: "r"}, chunk.RunPaused{RunID: "r"},
		chunk.ExecutorSuperseded{}, chunk.StepDiscarded{}, chunk.StreamResync{}, chunk.SuspensionMarker{Kind: "suspended_client_tool", Payload: chunk.Value("{}")},
		chunk.StreamPaused{}, chunk.StreamActive{}, chunk.StreamEnd{}, chunk.StreamFailed{Error: boom},
		chunk.RunStarted{RunID: fmt.Sprint("r", b%3), Mode: "continue"}, chunk.RunStarted{RunID: "r9", Mode: "execute"},
		chunk.Truncated{Removed: []chunk.OrdinalRange{{First: max(1, ordinal-int64(b%8)), Last: ordinal}}},
		chunk.Opaque{Kind: "new", Raw: chunk.Value(`{"type":"new","agentId":"s1"}`)},
	}
	return bodies[(int(b)+i*7)%len(bodies)]
}

// FuzzMessage: for any log no client stops, the frames after a cursor do not depend on it, and the buffer keeps its content.
func FuzzMessage(f *testing.F) {
	f.Add(byte(0), []byte("\x00\x01\x02\x03"))
	f.Add(byte(5), []byte("hello, this is a log of some length that says many things in no order at all"))
	f.Fuzz(func(t *testing.T, flags byte, script []byte) {
		if len(script) > 200 {
			return
		}
		log := arbitraryLog(script)
		opt := Options{Major: 6 + int(flags&1), SubAgents: SubAgentContent((flags >> 1 & 3) % 3), ClientTool: isClientTool}
		m, c := New("m", opt), newClient(opt.Major)
		c.reload = true // records that are removed between responses may be written again
		var frames [][]byte
		for i, rec := range log {
			out := m.Append([]byte("before"), rec)
			if !bytes.HasPrefix(out, []byte("before")) {
				t.Fatalf("the buffer was changed: %q", out)
			}
			frames = append(frames, out[6:])
			if c.ended {
				c.open()
			}
			if err := c.read(out[6:]); err != nil {
				t.Fatalf("%v\nafter %s", err, listing(log[:i+1]))
			}
		}
		cut := int(flags>>4) % (len(log) + 1)
		tail := New("m", opt)
		for _, rec := range log[:cut] {
			tail.Advance(rec)
		}
		for i, rec := range log[cut:] {
			if got := tail.Append(nil, rec); cut > 0 && !bytes.Equal(got, frames[cut+i]) {
				t.Fatalf("after %d: %q, want %q\nof %s", cut, got, frames[cut+i], listing(log))
			}
		}
		again, late := New("m", opt), newClient(opt.Major)
		if err := late.read(again.Replay(nil, log)); err != nil {
			t.Fatalf("replay: %v\nof %s", err, listing(log))
		}
		if err := late.read(again.Finish(nil)); err != nil || !late.ended {
			t.Fatalf("replay: %v, ended %v\nof %s", err, late.ended, listing(log))
		}
	})
}

func listing(log []chunk.Record) string {
	var b bytes.Buffer
	for _, rec := range log {
		fmt.Fprintf(&b, "%d %s/%d %s\n", rec.Seq, rec.Session.ID, rec.Ordinal, rec.Data)
	}
	return b.String()
}

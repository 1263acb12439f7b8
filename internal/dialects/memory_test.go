//go:build !race

// The tests of this file compare sizes of the heap. The race detector would find nothing in them, since they start no goroutine, and takes 20 times as long.

package dialects_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/dialects"
)

var session = chunk.RootSession("acme", "s1")

// longTurn passes the records of a turn to do, one at a time: the tests measure what a writer keeps of them. The data of a record is valid during the call.
type longTurn struct {
	tb      testing.TB
	do      func(chunk.Record)
	ordinal chunk.Ordinal
	data    []byte
}

func (l *longTurn) record(body chunk.Body) {
	l.ordinal++
	l.write(session, l.ordinal, body)
}

func (l *longTurn) write(s chunk.Session, ordinal chunk.Ordinal, body chunk.Body) {
	c := chunk.Chunk{AgentID: s.ID, AgentType: "planner", Timestamp: 1, Step: 1, Body: body}
	data, err := c.AppendJSON(l.data[:0])
	if err != nil {
		l.tb.Fatal(err)
	}
	l.data = data
	l.do(chunk.Record{Seq: chunk.Seq(l.ordinal), Session: s, Epoch: 1, Ordinal: ordinal, Type: c.Type(), StoredAt: time.UnixMilli(int64(l.ordinal)), Data: data})
}

// liveHeap returns the bytes of the heap that are reachable.
func liveHeap() int {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one leaves what a finalizer or a pool kept
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc)
}

// held returns the bytes that a writer of a dialect keeps of a turn.
func held(tb testing.TB, name string, pass func(*longTurn)) int {
	tb.Helper()
	l := &longTurn{tb: tb, data: make([]byte, 0, 4096)}
	frames := make([]byte, 0, 64<<10)
	before := liveHeap()
	w := dialects.NewWriter(name, dialects.Turn{Session: session, MessageID: "msg-1", State: chunk.Value(`{}`)})
	l.do = func(rec chunk.Record) { frames = w.Append(frames[:0], rec) }
	pass(l)
	after := liveHeap()
	runtime.KeepAlive(w)
	runtime.KeepAlive(l)
	runtime.KeepAlive(frames)
	return after - before
}

// TestLongTurnKeepsLittle: a client may follow a turn of many thousand calls for hours. Its writer keeps a few bytes of a call that has its outcome, in every dialect.
func TestLongTurnKeepsLittle(t *testing.T) {
	const calls, most = 10_000, 64 // bytes; the id has 29
	for _, name := range dialects.Written() {
		if name == dialect.Native {
			continue
		}
		t.Run(name, func(t *testing.T) {
			size := held(t, name, func(l *longTurn) {
				l.record(chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
				for n := range calls {
					id := fmt.Sprintf("call_%024d", n)
					l.record(chunk.StepStart{})
					l.record(chunk.ToolStart{ToolCallID: id, ToolName: "search", Arguments: chunk.Value(`{"query":"chunks per second"}`)})
					l.record(chunk.ToolEnd{ToolCallID: id, ToolName: "search", Result: chunk.Value(`{"hits":[1,2,3]}`), ProviderExecuted: new(true)})
					l.record(chunk.StepEnd{})
				}
			})
			t.Logf("%.1f bytes per call", float64(size)/calls)
			if perCall := size / calls; perCall > most {
				t.Errorf("the writer keeps %d bytes per call, want at most %d", perCall, most)
			}
		})
	}
}

// TestEndedSubAgentsKeepLittle: a long turn may start thousands of sub-agents. A writer keeps of one that has ended where its log is, and its calls.
func TestEndedSubAgentsKeepLittle(t *testing.T) {
	const agents, most = 2000, 700 // bytes
	for _, name := range dialects.Written() {
		if name == dialect.Native {
			continue
		}
		t.Run(name, func(t *testing.T) {
			size := held(t, name, func(l *longTurn) {
				l.record(chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
				for n := range agents {
					l.subAgent(n)
				}
			})
			t.Logf("%d bytes per sub-agent", size/agents)
			if perAgent := size / agents; perAgent > most {
				t.Errorf("the writer keeps %d bytes per sub-agent, want at most %d", perAgent, most)
			}
		})
	}
}

// subAgent passes the records of a step with one sub-agent, which has three calls.
func (l *longTurn) subAgent(n int) {
	id, child := fmt.Sprintf("call_%024d", n), session.Child(fmt.Sprintf("session_%028d", n))
	l.record(chunk.StepStart{})
	l.record(chunk.ToolStart{ToolCallID: id, ToolName: "subagent__x", Arguments: chunk.Value(`{}`)})
	l.record(chunk.SubagentStart{SubAgentType: "x", SubSessionID: child.ID, CallID: id})
	bodies := []chunk.Body{chunk.RunStarted{RunID: "child", Epoch: 1, Mode: "execute"}}
	bodies = append(bodies, slices.Repeat([]chunk.Body{chunk.Thinking{Content: "a thought of some words about something "}}, 10)...)
	bodies = append(bodies, chunk.TextDelta{Delta: "text"})
	for i := range 3 {
		call := fmt.Sprintf("call_%024d", i)
		bodies = append(bodies, chunk.ToolStart{ToolCallID: call, ToolName: "search", Arguments: chunk.Value(`{}`)},
			chunk.ToolEnd{ToolCallID: call, ToolName: "search", Result: chunk.Value(`null`), ProviderExecuted: new(true)})
	}
	for i, body := range append(bodies, chunk.StreamEnd{StreamID: child.ID}) {
		l.write(child, chunk.Ordinal(i+1), body)
	}
	l.record(chunk.SubagentEnd{SubAgentType: "x", SubSessionID: child.ID, CallID: id, Result: chunk.Value(`null`)})
	l.record(chunk.ToolEnd{ToolCallID: id, ToolName: "subagent__x", Result: chunk.Value(`null`), ProviderExecuted: new(true)})
	l.record(chunk.StepEnd{})
}

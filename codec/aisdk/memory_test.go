//go:build !race

// The tests of this file compare sizes of the heap. The race detector would find nothing in them, since they start no goroutine, and takes 20 times as long.

package aisdk

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// longTurn generates the records of one turn with many calls, one at a time: the test measures what the writer keeps of them.
type longTurn struct {
	tb      testing.TB
	steps   bool // each call has a step
	ask     func(n int) bool
	again   bool // all calls have the same id
	ordinal chunk.Ordinal
	data    []byte
}

func (l *longTurn) record(step int, body chunk.Body, do func(chunk.Record)) {
	l.ordinal++
	c := chunk.Chunk{AgentID: session.ID, AgentType: "planner", Timestamp: 1, Step: int64(step), Body: body}
	data, err := c.AppendJSON(l.data[:0])
	if err != nil {
		l.tb.Fatal(err)
	}
	l.data = data
	do(chunk.Record{
		Seq: chunk.Seq(l.ordinal), Session: session, Epoch: 1, Ordinal: l.ordinal, Type: c.Type(), StoredAt: time.UnixMilli(int64(l.ordinal)), Data: data,
	})
}

// each passes the records of a turn with this number of calls to do. The data of a record is valid during the call.
func (l *longTurn) each(calls int, do func(chunk.Record)) {
	l.ordinal = 0
	l.record(0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}, do)
	step := 1
	l.record(step, chunk.StepStart{}, do)
	yes := true
	for n := range calls {
		if l.steps && n > 0 {
			l.record(step, chunk.StepEnd{}, do)
			step++
			l.record(step, chunk.StepStart{}, do)
		}
		id, name := fmt.Sprintf("call_%024d", n), "search"
		if l.again {
			id = "call_0"
		}
		args := chunk.Value(fmt.Sprintf(`{"query":"chunks per second","page":%d}`, n))
		if l.ask != nil {
			l.record(step, chunk.ToolApprovalRequest{ToolCallID: id, ToolName: name, ApprovalID: "r::" + id, Input: args, IsAutomatic: new(!l.ask(n))}, do)
			l.record(step, chunk.ToolApprovalResponse{ToolCallID: id, ToolName: name, ApprovalID: "r::" + id, Approved: true}, do)
		}
		l.record(step, chunk.ToolStart{ToolCallID: id, ToolName: name, Arguments: args}, do)
		l.record(step, chunk.ToolEnd{ToolCallID: id, ToolName: name, Result: chunk.Value(`{"hits":[1,2,3]}`), ProviderExecuted: &yes}, do)
	}
}

// liveHeap returns the bytes of the heap that are reachable.
func liveHeap() int {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one leaves what a finalizer or a pool kept
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc)
}

// held returns the bytes that a client's writer keeps after a turn with this number of calls, and the most that a replay of it keeps while it is in progress.
func (l *longTurn) held(opt Options, calls int, resumed bool) (after, during int) {
	before := liveHeap()
	m := New("msg-1", opt)
	frames := make([]byte, 0, 64<<10)
	size := cap(frames)
	if resumed {
		r := m.BeginReplay()
		l.each(calls, r.FindRemoved)
		passes := 0
		records := func(yield func(chunk.Record, bool) bool) {
			l.each(calls, func(rec chunk.Record) { yield(rec, true) })
			if passes++; passes == 2 {
				during = liveHeap() - before - size
			}
		}
		frames = r.Write(frames, records, func(frames []byte) []byte { return frames[:0] })
	} else {
		l.each(calls, func(rec chunk.Record) { frames = m.Append(frames[:0], rec) })
	}
	after = liveHeap() - before - size
	runtime.KeepAlive(m)
	runtime.KeepAlive(frames)
	return after, during
}

// longTurns are the forms of a long turn.
var longTurns = []struct {
	name string
	turn longTurn
}{
	{"steps", longTurn{steps: true}},
	{"one step", longTurn{}},
	{"steps, approved by a rule", longTurn{steps: true, ask: func(int) bool { return false }}},
	{"steps, approved by a user", longTurn{steps: true, ask: func(int) bool { return true }}},
	{"steps, same id", longTurn{steps: true, again: true}},
	{"one step, same id", longTurn{again: true}},
}

// TestLongTurnKeepsLittle: a client may follow a turn of many thousand calls for hours. Its writer keeps a few bytes of a call that has its outcome.
func TestLongTurnKeepsLittle(t *testing.T) {
	const calls = 10_000
	for _, c := range longTurns {
		for _, major := range []int{6, 7} {
			for _, resumed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/major=%d/resumed=%t", c.name, major, resumed), func(t *testing.T) {
					turn := c.turn
					turn.tb = t
					after, during := turn.held(Options{Major: major}, calls, resumed)
					t.Logf("%.1f bytes per call, %.1f during the replay", float64(after)/calls, float64(during)/calls)
					if perCall := after / calls; perCall > maxBytesPerCall {
						t.Errorf("the writer keeps %d bytes per call, want at most %d", perCall, maxBytesPerCall)
					}
					if perCall := during / calls; perCall > 2*maxBytesPerCall {
						t.Errorf("a replay in progress keeps %d bytes per call, want at most %d", perCall, 2*maxBytesPerCall)
					}
				})
			}
		}
	}
}

// maxBytesPerCall limits what a writer keeps of a call that has its outcome: 52 bytes if the id has 29, as those of the large providers.
const maxBytesPerCall = 64

// BenchmarkLongTurn reports what a writer keeps of a turn.
func BenchmarkLongTurn(b *testing.B) {
	for _, c := range longTurns {
		for _, resumed := range []bool{false, true} {
			for _, calls := range []int{1_000, 10_000, 100_000} {
				b.Run(fmt.Sprintf("%s/resumed=%t/calls=%d", c.name, resumed, calls), func(b *testing.B) {
					turn := c.turn
					turn.tb = b
					var after, during int
					for b.Loop() {
						after, during = turn.held(Options{}, calls, resumed)
					}
					b.ReportMetric(float64(after)/float64(calls), "B/call")
					if resumed {
						b.ReportMetric(float64(during)/float64(calls), "B/call-replaying")
					}
				})
			}
		}
	}
}

// TestEndedSubAgentsKeepLittle: a long turn may start thousands of sub-agents. The writer keeps of one that has ended where its log is, and its calls.
func TestEndedSubAgentsKeepLittle(t *testing.T) {
	const agents = 2000
	for content, most := range map[SubAgentContent]int{Drop: 400, Inline: 700} {
		turn := &longTurn{tb: t}
		before := liveHeap()
		m := New("msg-1", Options{SubAgents: content})
		frames := make([]byte, 0, 4096)
		do := func(rec chunk.Record) { frames = m.Append(frames[:0], rec) }
		turn.record(0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}, do)
		for n := range agents {
			turn.subAgent(n, do)
		}
		perAgent := (liveHeap() - before) / agents
		t.Logf("%d bytes per sub-agent", perAgent)
		if perAgent > most {
			t.Errorf("content %d: the writer keeps %d bytes per sub-agent, want at most %d", content, perAgent, most)
		}
		runtime.KeepAlive(m)
	}
}

// subAgent passes the records of a step with one sub-agent, which has three calls, to do.
func (l *longTurn) subAgent(n int, do func(chunk.Record)) {
	yes, id, child := true, fmt.Sprintf("call_%024d", n), fmt.Sprintf("session_%028d", n)
	l.record(1, chunk.StepStart{}, do)
	l.record(1, chunk.ToolStart{ToolCallID: id, ToolName: "subagent__x", Arguments: chunk.Value(`{}`)}, do)
	l.record(1, chunk.SubagentStart{SubAgentType: "x", SubSessionID: child, CallID: id}, do)
	bodies := []chunk.Body{chunk.RunStarted{RunID: "child", Epoch: 1, Mode: "execute"}}
	bodies = append(bodies, slices.Repeat([]chunk.Body{chunk.Thinking{Content: "a thought of some words about something "}}, 10)...)
	bodies = append(bodies, chunk.TextDelta{Delta: "text"})
	for i := range 3 {
		call := fmt.Sprintf("call_%024d", i)
		bodies = append(bodies,
			chunk.ToolStart{ToolCallID: call, ToolName: "search", Arguments: chunk.Value(`{}`)},
			chunk.ToolEnd{ToolCallID: call, ToolName: "search", Result: null, ProviderExecuted: &yes})
	}
	for i, body := range append(bodies, chunk.StreamEnd{StreamID: child}) {
		c := chunk.Chunk{AgentID: child, AgentType: "x", Timestamp: 1, Step: 1, Body: body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			l.tb.Fatal(err)
		}
		do(chunk.Record{Seq: chunk.Seq(l.ordinal), Session: session.Child(child), Epoch: 1, Ordinal: chunk.Ordinal(i + 1), Type: c.Type(), Data: data})
	}
	l.record(1, chunk.SubagentEnd{SubAgentType: "x", SubSessionID: child, CallID: id, Result: null}, do)
	l.record(1, chunk.ToolEnd{ToolCallID: id, ToolName: "subagent__x", Result: null, ProviderExecuted: &yes}, do)
	l.record(1, chunk.StepEnd{}, do)
}

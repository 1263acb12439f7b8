package mastra

import (
	"fmt"
	"slices"
	"time"

	"github.com/tailrace/tailrace/internal/turn"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
)

// generator writes random logs of one turn: runs of steps, tool calls, pauses, sub-agents of sub-agents, crashes of workers.
type generator struct {
	t       *rapid.T
	records []chunk.Record
	removed map[chunk.Seq]bool // by a later truncated record
	last    map[string]chunk.Ordinal
	steps   map[string]int64
	epoch   chunk.Epoch
	runs    int
	calls   int
	asked   []question
	crashes bool // workers die
	value   *rapid.Generator[chunk.Value]
	words   *rapid.Generator[string]
}

type question struct {
	id       string
	approval bool
}

func newGenerator(t *rapid.T) *generator {
	return &generator{
		t: t, removed: map[chunk.Seq]bool{}, last: map[string]chunk.Ordinal{}, steps: map[string]int64{}, epoch: 1,
		value: chunktest.Values(), words: chunktest.Texts(),
	}
}

func (g *generator) pick(what string, n int) int { return rapid.IntRange(0, n-1).Draw(g.t, what) }

func (g *generator) emit(session string, bodies ...chunk.Body) {
	for _, body := range bodies {
		if _, ok := body.(chunk.StepStart); ok {
			g.steps[session]++
		}
		c := chunk.Chunk{AgentID: session, AgentType: "planner", Timestamp: 1, Step: g.steps[session], Body: body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			g.t.Fatalf("%T: %v", body, err)
		}
		s := root
		if session != root.ID {
			s = root.Child(session)
		}
		g.last[session]++
		n := chunk.Seq(len(g.records) + 1)
		g.records = append(g.records, chunk.Record{
			Seq: n, Session: s, Epoch: g.epoch, Ordinal: g.last[session], Type: c.Type(), StoredAt: time.UnixMilli(int64(n)), Data: data,
		})
	}
}

func (g *generator) run(mode string, input ...chunk.InputMessage) {
	g.emit(root.ID, chunk.RunStarted{RunID: fmt.Sprintf("r%d", g.runs), Epoch: int64(g.epoch), Mode: mode, Input: input})
}

// turn writes a turn, which may be incomplete.
func (g *generator) turn() {
	g.run("execute", chunk.InputMessage{Content: "hello"})
	for range 3 {
		for range g.pick("steps", 4) {
			g.step()
			if len(g.asked) > 0 {
				break
			}
		}
		if len(g.asked) == 0 {
			break
		}
		g.emit(root.ID, chunk.RunPaused{RunID: "r0", Reason: "asks"}, chunk.StreamPaused{})
		if g.pick("answered", 6) == 0 {
			return
		}
		g.answer()
	}
	switch g.pick("end", 7) {
	case 0: // still running
	case 1:
		g.emit(root.ID, chunk.StreamFailed{Error: "dead \""})
	case 2:
		g.emit(root.ID, chunk.Error{Error: "the model went away"}, chunk.StreamFailed{Error: "the model went away"})
	case 3:
		g.emit(root.ID, chunk.RunInterrupted{RunID: "r0"}, chunk.StreamEnd{StreamID: root.ID})
	default:
		g.emit(root.ID, chunk.StreamEnd{StreamID: root.ID})
	}
}

func (g *generator) step() {
	from := len(g.records)
	g.emit(root.ID, chunk.StepStart{})
	for range g.pick("things", 7) {
		g.part(root.ID, 2)
	}
	if g.crashes && g.pick("dies", 4) == 0 {
		g.takeOver(from)
		return
	}
	if g.pick("asks", 4) == 0 {
		g.ask()
	}
	if g.pick("closed", 6) > 0 {
		g.emit(root.ID, chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "10", OutputTokens: "3"}, FinishReason: new("stop")})
	}
}

// takeOver writes the records of a worker that continues for a dead one: the step is removed.
func (g *generator) takeOver(from int) {
	mark := chunk.Truncated{TruncatedAtStep: g.steps[root.ID] - 1, AtSequence: int64(len(g.records))}
	for _, rec := range g.records[from:] {
		if rec.Session == root && !rec.Type.Control() {
			g.removed[rec.Seq] = true
			mark.Removed = append(mark.Removed, chunk.OrdinalRange{First: int64(rec.Ordinal), Last: int64(rec.Ordinal)})
		}
	}
	g.epoch++
	g.steps[root.ID]--
	g.run("takeover")
	g.emit(root.ID, mark, chunk.StreamResync{CheckpointID: "cp", Reason: "crash_recovery"})
}

// part writes something that an agent does; depth is how many levels of sub-agents may follow.
func (g *generator) part(agent string, depth int) {
	switch g.pick("part", 10) {
	case 0, 1, 2:
		for range 1 + g.pick("deltas", 3) {
			g.emit(agent, chunk.TextDelta{Delta: g.words.Draw(g.t, "delta")})
		}
	case 3:
		for range g.pick("pieces", 3) {
			g.emit(agent, chunk.Thinking{Content: g.words.Draw(g.t, "thought")})
		}
		g.emit(agent, chunk.Thinking{IsComplete: true})
	case 4, 5:
		g.tool(agent)
	case 6:
		g.emit(agent, g.attachment())
	case 7:
		g.emit(agent, chunk.Custom{EventName: []string{"progress", "a b", "тест", "__proto__"}[g.pick("name", 4)], Data: g.value.Draw(g.t, "data")})
	case 8:
		if agent == root.ID {
			g.emit(agent, g.notice())
		}
	case 9:
		if depth > 0 {
			g.subAgent(agent, depth-1)
		}
	}
}

func (g *generator) tool(agent string) {
	g.calls++
	id, name := fmt.Sprintf("c%d", g.calls), []string{"search", "a b", turn.FinishTool}[g.pick("tool", 3)]
	if g.pick("streams", 2) == 0 {
		g.emit(agent, chunk.ToolArgStreamStart{ToolCallID: id, ToolName: name})
		for range g.pick("args", 3) {
			g.emit(agent, chunk.ToolArgStreamDelta{ToolCallID: id, Delta: []string{`{"q`, `":1`, "}", "\xed\xa0\xbd"}[g.pick("arg", 4)]})
		}
		g.emit(agent, chunk.ToolArgStreamEnd{ToolCallID: id})
	}
	if g.pick("late outcome", 12) == 0 { // of the same call, or of one without a start
		g.emit(agent, chunk.TextDelta{Delta: "before "})
		g.outcome(agent, id, name)
		g.emit(agent, chunk.TextDelta{Delta: "between "})
		g.emit(agent, chunk.ToolInputError{ToolCallID: id, ToolName: name, Error: "late"})
		g.emit(agent, chunk.TextDelta{Delta: "after "})
		return
	}
	if g.pick("bad", 6) == 0 {
		g.emit(agent, chunk.ToolInputError{ToolCallID: id, ToolName: name, Error: "bad"})
		return
	}
	g.emit(agent, chunk.ToolStart{ToolCallID: id, ToolName: name, Arguments: chunk.Value(`{"q":1}`)})
	g.outcome(agent, id, name)
}

func (g *generator) outcome(agent, id, name string) {
	boom, code := "boom", "code"
	switch g.pick("outcome", 4) {
	case 0:
		g.emit(agent, chunk.ToolEnd{ToolCallID: id, ToolName: name, Result: chunk.Value("null"), Error: &boom, ErrorCode: &code, ProviderExecuted: &serverSide})
	case 1:
		g.emit(agent, chunk.ToolOutputError{ToolCallID: id, ToolName: name, Error: boom})
	default:
		g.emit(agent, chunk.ToolEnd{ToolCallID: id, ToolName: name, Result: g.value.Draw(g.t, "result"), ProviderExecuted: &serverSide})
	}
}

func (g *generator) attachment() chunk.Body {
	return []chunk.Body{
		chunk.File{URL: "https://e.test/f", MediaType: "image/png", Filename: new("f\n")},
		chunk.File{URL: "data:image/png;base64,AAEC", MediaType: "image/png"},
		chunk.SourceURL{SourceID: "1", URL: "https://e.test/", Title: new("T")},
		chunk.SourceDocument{SourceID: "2", MediaType: "text/plain", Title: "t\n"},
	}[g.pick("attachment", 4)]
}

func (g *generator) notice() chunk.Body {
	return []chunk.Body{
		chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/a", Value: new(g.value.Draw(g.t, "value"))}}},
		chunk.Output{Output: g.value.Draw(g.t, "output")},
		chunk.Error{Error: "busy", Recoverable: true},
		chunk.CheckpointCreated{RunID: "r", CheckpointID: "cp", StepCount: 1},
		chunk.SuspensionMarker{Kind: "suspended_client_tool", Payload: chunk.Value(`{}`)},
		chunk.Custom{EventName: "mastra.background-task-progress", Data: chunk.Value(`{"type":"background-task-progress","runId":"r","from":"AGENT","payload":{"taskIds":[]}}`)},
	}[g.pick("notice", 6)]
}

func (g *generator) subAgent(parent string, depth int) {
	g.calls++
	id, session := fmt.Sprintf("c%d", g.calls), fmt.Sprintf("k%d", g.calls)
	g.emit(parent, chunk.ToolStart{ToolCallID: id, ToolName: "subagent__x", Arguments: chunk.Value(`{}`)},
		chunk.SubagentStart{SubAgentType: "x", SubSessionID: session, CallID: id})
	g.emit(session, chunk.RunStarted{RunID: "run-" + session, Epoch: 1, Mode: "execute", Parent: &chunk.Parent{SessionID: parent, CallID: id}})
	for range g.pick("said", 5) {
		if g.pick("between", 4) == 0 {
			g.emit(parent, chunk.TextDelta{Delta: "between "})
			continue
		}
		if g.pick("step", 3) == 0 {
			g.emit(session, chunk.StepStart{})
		}
		g.part(session, depth)
	}
	result := chunk.Value(`"ok"`)
	if g.pick("breaks", 4) == 0 {
		g.emit(session, chunk.StreamFailed{Error: "broke"})
		result = chunk.Value(`{"error":"broke"}`)
	} else {
		g.emit(session, chunk.StreamEnd{StreamID: session})
	}
	g.emit(parent, chunk.SubagentEnd{SubAgentType: "x", SubSessionID: session, CallID: id, Result: result},
		chunk.ToolEnd{ToolCallID: id, ToolName: "subagent__x", Result: result, ProviderExecuted: &serverSide})
}

// ask writes calls that wait for a user or for the client: a pause is for one of both.
func (g *generator) ask() {
	approval := g.pick("approval", 2) == 0
	for range 1 + g.pick("questions", 2) {
		g.calls++
		q := question{id: fmt.Sprintf("q%d", g.calls), approval: approval}
		if !approval || g.pick("first", 2) == 0 {
			g.emit(root.ID, chunk.ToolStart{ToolCallID: q.id, ToolName: "act", Arguments: chunk.Value(`{"q":1}`)})
		}
		if approval {
			g.emit(root.ID, chunk.ToolApprovalRequest{ToolCallID: q.id, ToolName: "act", ApprovalID: "r0::" + q.id, Input: chunk.Value(`{"q":1}`)})
		}
		g.asked = append(g.asked, q)
	}
}

func (g *generator) answer() {
	g.epoch++
	g.runs++
	g.run("with_confirmation")
	g.emit(root.ID, chunk.RunResumed{RunID: "r0", FromStepCount: 1, Mode: "with_confirmation"})
	for _, q := range g.asked {
		yes := g.pick("approved", 3) > 0
		if q.approval {
			g.emit(root.ID, chunk.ToolApprovalResponse{ToolCallID: q.id, ToolName: "act", ApprovalID: "r0::" + q.id, Approved: yes})
		}
		switch {
		case q.approval && !yes:
			reason, code := "denied", "client_tool_denied"
			g.emit(root.ID, chunk.ToolEnd{ToolCallID: q.id, ToolName: "act", Result: chunk.Value("null"), Error: &reason, ErrorCode: &code})
		case q.approval:
			g.outcome(root.ID, q.id, "act")
		default:
			g.emit(root.ID, chunk.ToolEnd{ToolCallID: q.id, ToolName: "act", Result: g.value.Draw(g.t, "answer")})
		}
	}
	g.asked = nil
}

// survivors returns the records that a reader of the log gets after the end of it.
func (g *generator) survivors() []chunk.Record {
	return slices.DeleteFunc(slices.Clone(g.records), func(rec chunk.Record) bool { return g.removed[rec.Seq] })
}

package kortyx

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
	"github.com/tailrace/tailrace/internal/turn"
	"github.com/tailrace/tailrace/projector/fold"
)

var session = chunk.RootSession("acme", "s1")

// generator writes random logs of one turn as workers write them.
type generator struct {
	t     *rapid.T
	log   []chunk.Record
	seq   chunk.Seq
	epoch chunk.Epoch
	last  map[string]chunk.Ordinal
	step  int64
	calls int

	// intact: no records are removed, and no stream of structured data is invalidated.
	intact bool
	asked  []string // calls that wait for a decision
	doc    chunk.Value
	runID  string
}

func newGenerator(t *rapid.T, intact bool) *generator {
	return &generator{t: t, epoch: 1, last: map[string]chunk.Ordinal{}, doc: chunk.Value(`{}`), intact: intact}
}

func (g *generator) pick(what string, n int) int { return rapid.IntRange(0, n-1).Draw(g.t, what) }
func (g *generator) text() string                { return chunktest.Texts().Draw(g.t, "text") }
func (g *generator) value() chunk.Value          { return chunktest.Values().Draw(g.t, "value") }

func (g *generator) write(body chunk.Body) { g.writeAs("s1", body) }

func (g *generator) writeAs(id string, body chunk.Body) {
	s := session
	if id != session.ID {
		s = session.Child(id)
	}
	g.seq += chunk.Seq(1 + g.pick("gap", 3))
	g.last[id]++
	g.log = append(g.log, recordOf(g.t, s, g.seq, g.epoch, g.last[id], g.step, body))
}

func recordOf(tb failer, s chunk.Session, seq chunk.Seq, epoch chunk.Epoch, ordinal chunk.Ordinal, step int64, body chunk.Body) chunk.Record {
	tb.Helper()
	c := chunk.Chunk{AgentID: s.ID, AgentType: "planner", Timestamp: 1, Step: step, Body: body}
	data, err := c.AppendJSON(nil)
	if err != nil {
		tb.Fatalf("%T: %v", body, err)
	}
	return chunk.Record{
		Seq: seq, Session: s, Epoch: epoch, Ordinal: ordinal, Type: c.Type(), StoredAt: time.UnixMilli(int64(seq)), Data: data,
	}
}

func (g *generator) run(mode string, inputs ...chunk.InputMessage) {
	g.step = 0
	if mode != "takeover" {
		g.runID = fmt.Sprintf("r%d", g.epoch)
	}
	g.write(chunk.RunStarted{RunID: g.runID, Epoch: int64(g.epoch), Mode: mode, Input: inputs})
}

// turn writes a turn, which may be incomplete.
func (g *generator) turn() {
	g.run("execute", chunk.InputMessage{Content: "hello"})
	for range 3 {
		g.steps()
		switch {
		case len(g.asked) > 0:
			g.write(chunk.StreamPaused{})
			if g.pick("answered", 4) == 0 {
				return
			}
			g.resume()
		case g.pick("interrupted", 6) == 0:
			g.write(chunk.RunInterrupted{RunID: "r"})
			g.epoch++
			g.run("continue")
		default:
			g.end()
			return
		}
	}
}

func (g *generator) end() {
	switch g.pick("end", 6) {
	case 0: // still running
	case 1:
		g.write(chunk.StreamFailed{Error: g.text()})
	case 2:
		text := "the model went away" + g.text()
		g.write(chunk.Error{Error: text})
		g.write(chunk.StreamFailed{Error: text})
	default:
		g.write(chunk.StreamEnd{StreamID: "s1"})
	}
}

func (g *generator) resume() {
	g.epoch++
	g.run("with_confirmation")
	for _, id := range g.asked {
		approved := g.pick("approved", 2) == 0
		r := chunk.ToolApprovalResponse{ToolCallID: id, ToolName: "delete", ApprovalID: "a::" + id, Approved: approved}
		if g.pick("reason", 2) == 0 {
			r.Reason = new(g.text())
		}
		g.write(r)
		if approved {
			g.write(chunk.ToolEnd{ToolCallID: id, ToolName: "delete", Result: g.value(), ProviderExecuted: &serverSide})
		} else {
			g.write(chunk.ToolEnd{ToolCallID: id, ToolName: "delete", Error: new("denied"), ProviderExecuted: &serverSide})
		}
	}
	g.asked = nil
}

func (g *generator) steps() {
	stepless := g.pick("stepless", 6) == 0
	for range g.pick("steps", 4) {
		g.step++
		from, doc := len(g.log), g.doc
		if !stepless {
			g.write(chunk.StepStart{})
		}
		for range g.pick("things", 8) {
			g.thing()
		}
		if !g.intact && g.pick("dies", 6) == 0 {
			g.takeOver(from)
			g.doc = doc
			continue
		}
		if g.pick("asks", 5) == 0 {
			g.ask()
			return
		}
		if !stepless {
			g.write(chunk.StepEnd{})
		}
		if g.pick("saved", 3) == 0 {
			g.write(chunk.CheckpointCreated{RunID: "r", CheckpointID: fmt.Sprintf("cp%d", g.seq), StepCount: g.step})
		}
	}
}

// takeOver simulates a crash of the worker: the next worker rolls the step back.
func (g *generator) takeOver(from int) {
	first, last := chunk.Ordinal(0), g.last["s1"]
	for _, rec := range g.log[from:] {
		if rec.Session == session {
			first = rec.Ordinal
			break
		}
	}
	if first == 0 {
		return // it has no records
	}
	step := g.step
	g.epoch++
	g.run("takeover")
	g.write(chunk.Truncated{TruncatedAtStep: step - 1, AtSequence: int64(g.seq), Removed: []chunk.OrdinalRange{{First: int64(first), Last: int64(last)}}})
	g.step = step - 1
	g.write(chunk.StreamResync{CheckpointID: "cp", Reason: "crash_recovery"})
}

func (g *generator) ask() {
	for range 1 + g.pick("questions", 2) {
		g.calls++
		id := fmt.Sprintf("q%d", g.calls)
		if g.pick("first", 2) == 0 {
			g.write(chunk.ToolStart{ToolCallID: id, ToolName: "delete", Arguments: chunk.Value(`{"q":1}`)})
		}
		g.write(chunk.ToolApprovalRequest{ToolCallID: id, ToolName: "delete", ApprovalID: "a::" + id, Input: chunk.Value(`{"q":1}`)})
		g.asked = append(g.asked, id)
	}
}

func (g *generator) thing() {
	switch g.pick("thing", 14) {
	case 0, 1, 2:
		for range 1 + g.pick("deltas", 3) {
			g.write(chunk.TextDelta{Delta: g.text()})
		}
	case 3:
		g.think()
	case 4, 5:
		g.tool()
	case 6:
		g.attachment()
	case 7:
		name := rapid.OneOf(rapid.SampledFrom([]string{"progress", "kortyx.transition", "kortyx.status", "kortyx.tool-result", "kortyx.other", ""}), chunktest.IDs()).Draw(g.t, "name")
		data := g.value()
		if g.pick("fits", 2) == 0 {
			data = chunk.Value(`{"type":"x","message":"m","transitionTo":"w","payload":[1],"node":5,"content":"c"}`)
		}
		g.write(chunk.Custom{EventName: name, Data: data})
	case 8, 9:
		g.structured()
	case 10, 11:
		g.patch()
	case 12:
		g.notice()
	case 13:
		g.subAgent()
	}
}

func (g *generator) think() {
	whole := ""
	for range g.pick("pieces", 3) {
		piece := g.text()
		whole = chunk.Concat(whole, piece)
		g.write(chunk.Thinking{Content: piece})
	}
	switch g.pick("complete", 4) {
	case 0:
		g.write(chunk.Thinking{Content: whole, IsComplete: true})
	case 1:
		g.write(chunk.Thinking{IsComplete: true})
	case 2:
		g.write(chunk.Thinking{Content: g.text(), IsComplete: true})
	}
}

func (g *generator) tool() {
	g.calls++
	id, name := fmt.Sprintf("c%d", g.calls), "search"
	if g.pick("streams", 2) == 0 {
		g.write(chunk.ToolArgStreamStart{ToolCallID: id, ToolName: name})
		g.write(chunk.ToolArgStreamDelta{ToolCallID: id, Delta: g.text()})
		g.write(chunk.ToolArgStreamEnd{ToolCallID: id})
	}
	if g.pick("late outcome", 12) == 0 { // of the same call, or of one without a start
		g.write(chunk.TextDelta{Delta: "before "})
		g.outcome(id, name)
		g.write(chunk.TextDelta{Delta: "between "})
		g.write(chunk.ToolInputError{ToolCallID: id, ToolName: name, Error: "late"})
		g.write(chunk.TextDelta{Delta: "after "})
		return
	}
	if g.pick("bad", 6) == 0 {
		g.write(chunk.ToolInputError{ToolCallID: id, ToolName: name, Error: g.text()})
		return
	}
	g.write(chunk.ToolStart{ToolCallID: id, ToolName: name, Arguments: chunk.Value(`{"q":1}`)})
	if g.pick("meanwhile", 3) == 0 {
		g.write(chunk.TextDelta{Delta: g.text()})
	}
	g.outcome(id, name)
}

func (g *generator) outcome(id, name string) {
	switch g.pick("outcome", 4) {
	case 0:
		g.write(chunk.ToolEnd{ToolCallID: id, ToolName: name, Error: new(g.text()), ProviderExecuted: &serverSide})
	case 1:
		g.write(chunk.ToolOutputError{ToolCallID: id, ToolName: name, Error: g.text()})
	default:
		g.write(chunk.ToolEnd{ToolCallID: id, ToolName: name, Result: g.value(), ProviderExecuted: &serverSide})
	}
}

func (g *generator) attachment() {
	switch g.pick("attachment", 3) {
	case 0:
		g.write(chunk.File{URL: "https://f", MediaType: "image/png", Filename: new(g.text())})
	case 1:
		g.write(chunk.SourceURL{SourceID: chunktest.IDs().Draw(g.t, "source"), URL: "https://u"})
	case 2:
		g.write(chunk.SourceDocument{SourceID: "2", MediaType: "text/plain", Title: "t\n"})
	}
}

func (g *generator) structured() {
	id := rapid.SampledFrom([]string{"d0", "d1", "d2", "__proto__", "toString", ""}).Draw(g.t, "stream")
	pieces := []string{
		`"kind":"set","path":"a.b","value":1`, `"kind":"set","path":"a","value":null`, `"kind":"text-delta","path":"t","delta":"x\ud83d"`,
		`"kind":"append","path":"l","items":[1,"\ud800"]`, `"kind":"set","path":"l.9999","value":1`, `"kind":"set","path":"constructor.x","value":1`,
		`"kind":"final","data":{"f":[1],"__proto__":2}`, `"kind":"final"`, `"kind":"none"`, `"kind":"append","path":"toString","items":[]`,
	}
	if !g.intact && g.pick("void", 6) == 0 {
		g.write(chunk.Custom{EventName: "structured-data-invalidated", Data: chunk.Value(fmt.Sprintf(`{"streamId":%q,"checkpointId":"cp"}`, id))})
		return
	}
	g.write(chunk.Custom{EventName: "structured-data", Data: chunk.Value(fmt.Sprintf(
		`{"type":"structured-data","streamId":%q,"dataType":"t",%s}`, id, pieces[g.pick("piece", len(pieces))]))})
}

// names are awkward members of the custom state.
var names = []string{"a", "b", "list", "0", "12", "x.y", "__proto__", "constructor", "toString", "prototype", "a~1b", "ä"}

// patch writes a patch that applies, or any.
func (g *generator) patch() {
	var ops []chunk.PatchOp
	if g.pick("applies", 4) > 0 {
		if ops, g.doc = applicable(g.t, g.doc); len(ops) > 0 {
			g.write(chunk.StatePatch{Patches: ops})
		}
		return
	}
	for range 1 + g.pick("ops", 3) {
		op := chunk.PatchOp{Op: rapid.SampledFrom([]string{"add", "add", "add", "replace", "remove", "move", "copy"}).Draw(g.t, "op"), Path: g.pointer()}
		switch op.Op {
		case "add", "replace":
			op.Value = new(g.stateValue())
		case "move", "copy":
			op.From = new(g.pointer())
		}
		ops = append(ops, op)
	}
	if doc, err := fold.ApplyPatch(g.doc, ops); err == nil {
		g.doc = doc
	}
	g.write(chunk.StatePatch{Patches: ops})
}

func (g *generator) stateValue() chunk.Value {
	return rapid.OneOf(rapid.SampledFrom([]chunk.Value{
		chunk.Value(`{"list":[],"a":{"b":1}}`), chunk.Value(`[1,{"a":2},[3]]`), chunk.Value(`[]`), chunk.Value(`{}`), chunk.Value(`"x"`), chunk.Value(`null`),
	}), chunktest.Values()).Draw(g.t, "state value")
}

func (g *generator) pointer() string {
	p := ""
	for range 1 + g.pick("depth", 3) {
		p += "/" + rapid.SampledFrom(append([]string{"0", "1", "2", "-", "list", "a"}, names...)).Draw(g.t, "token")
	}
	return p
}

func (g *generator) notice() {
	switch g.pick("notice", 5) {
	case 0:
		g.write(chunk.Output{Output: g.value()})
	case 1:
		g.write(chunk.Error{Error: g.text(), Recoverable: true})
	case 2:
		g.write(chunk.SuspensionMarker{Kind: "suspended_client_tool", Payload: chunk.Value(`{"secret":"marker"}`)})
	case 3:
		g.write(chunk.ExecutorSuperseded{})
	case 4:
		g.write(chunk.ToolStart{ToolCallID: "f", ToolName: turn.FinishTool, Arguments: chunk.Value(`{}`)})
		g.write(chunk.ToolEnd{ToolCallID: "f", ToolName: turn.FinishTool, ProviderExecuted: &serverSide})
	}
}

// subAgent writes a call of a sub-agent and its records.
func (g *generator) subAgent() {
	g.calls++
	id, child := fmt.Sprintf("c%d", g.calls), fmt.Sprintf("k%d", g.calls)
	step := g.step
	g.write(chunk.ToolStart{ToolCallID: id, ToolName: "subagent__x", Arguments: chunk.Value(`{}`)})
	g.write(chunk.SubagentStart{SubAgentType: "x", SubSessionID: child, CallID: id})
	g.writeAs(child, chunk.RunStarted{RunID: "child", Epoch: 1, Mode: "execute", Parent: &chunk.Parent{SessionID: "s1", CallID: id}})
	for range g.pick("said", 4) {
		if g.pick("who", 3) == 0 {
			g.write(chunk.TextDelta{Delta: "between "})
		}
		g.writeAs(child, chunk.TextDelta{Delta: g.text()})
	}
	g.writeAs(child, chunk.StreamEnd{StreamID: child})
	g.step = step
	g.write(chunk.SubagentEnd{SubAgentType: "x", SubSessionID: child, CallID: id, Result: chunk.Value(`"ok"`)})
	g.write(chunk.ToolEnd{ToolCallID: id, ToolName: "subagent__x", Result: chunk.Value(`"ok"`), ProviderExecuted: &serverSide})
}

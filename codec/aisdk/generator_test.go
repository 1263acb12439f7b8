package aisdk

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/structured"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
	"github.com/tailrace/tailrace/internal/turn"
)

var session = chunk.RootSession("acme", "s1")

// generator writes random logs of one turn as workers write them: runs of steps, tool calls, pending calls, interleaved sub-agents, crashes of workers.
type generator struct {
	t     *rapid.T
	log   []chunk.Record
	seq   chunk.Seq
	epoch chunk.Epoch
	last  map[string]chunk.Ordinal
	step  int64
	run   int
	calls int
	// plain: without crashes and sub-agents, so that the log has one session.
	plain bool
	// intact: without crashes, and without a text of a sub-agent that continues when the parent suspends, see doc.go.
	intact bool
	// stepless: the worker writes no step_start and step_end.
	stepless bool
	asked    []asked
	value    *rapid.Generator[chunk.Value]
	text     *rapid.Generator[string]
}

type asked struct {
	id, name string
	approval bool
}

func isClientTool(name string) bool { return name == "browser" }

func newGenerator(t *rapid.T) *generator {
	return &generator{
		t: t, epoch: 1, last: map[string]chunk.Ordinal{}, value: hostileValues(),
		text: chunktest.Texts(),
	}
}

// hostileValues generates values, some of them with member names that the SDK rejects.
func hostileValues() *rapid.Generator[chunk.Value] {
	return rapid.OneOf(chunktest.Values(), rapid.Map(chunktest.Values(), func(v chunk.Value) chunk.Value {
		return chunk.Value(`{"__proto__":` + v.String() + `,"a":[{"\u005f_proto__":1,"$__proto__":2,"constructor":{"x":"prototype","prototype":{"\u0070rototype":3}}}],"prototype":"__proto__"}`)
	}))
}

func (a *generator) pick(what string, n int) int { return rapid.IntRange(0, n-1).Draw(a.t, what) }
func (a *generator) often(what string) bool      { return a.pick(what, 10) > 0 }

func (a *generator) write(body chunk.Body, extra ...chunk.Member) chunk.Record {
	return a.writeAs("s1", body, extra...)
}

// writeAs writes a record of a session.
func (a *generator) writeAs(agent string, body chunk.Body, extra ...chunk.Member) chunk.Record {
	c := chunk.Chunk{AgentID: agent, AgentType: "planner", Timestamp: 1, Step: a.step, Body: body, Extra: extra}
	data, err := c.AppendJSON(nil)
	if err != nil {
		a.t.Fatalf("%T: %v", body, err)
	}
	s := session
	if agent != session.ID {
		s = session.Child(agent)
	}
	a.seq += chunk.Seq(1 + a.pick("gap", 3))
	a.last[agent]++
	rec := chunk.Record{
		Seq: a.seq, Session: s, Epoch: a.epoch, Ordinal: a.last[agent], Type: c.Type(), StoredAt: time.UnixMilli(int64(a.seq)), Data: data,
	}
	a.log = append(a.log, rec)
	return rec
}

func (a *generator) start(mode string, inputs ...chunk.InputMessage) {
	a.step = 0
	a.write(chunk.RunStarted{RunID: fmt.Sprintf("r%d", a.run), Epoch: int64(a.epoch), Mode: mode, Input: inputs})
}

// turn writes a turn, which may be incomplete.
func (a *generator) turn() {
	a.stepless = a.pick("stepless", 8) == 0
	a.start("execute", chunk.InputMessage{Content: "hello"})
	for range 3 {
		a.steps()
		switch {
		case len(a.asked) > 0:
			a.pause()
			if !a.often("answered") {
				return
			}
			a.resume()
		case a.pick("interrupt", 6) == 0:
			a.interrupt()
			if !a.often("resumed") {
				return
			}
		default:
			a.end()
			return
		}
	}
}

func (a *generator) end() {
	switch a.pick("end", 8) {
	case 0: // still running
	case 1:
		a.write(chunk.StreamFailed{Error: "dead\n"})
	case 2:
		a.write(chunk.Error{Error: "the model went away", Recoverable: false})
		a.write(chunk.StreamFailed{Error: "dead"})
	case 3:
		code := CodeAborted
		a.write(chunk.StreamFailed{Error: "stopped", ErrorDetail: &chunk.ErrorDetail{Message: "stopped", Code: &code}})
	default:
		a.write(chunk.StreamEnd{StreamID: "s1"})
	}
}

func (a *generator) pause() {
	if a.often("said") {
		a.write(chunk.RunPaused{RunID: "r0", Reason: "asks"})
	}
	a.write(chunk.StreamPaused{})
}

func (a *generator) resume() {
	a.epoch++
	a.run++
	a.start("with_confirmation")
	a.write(chunk.RunResumed{RunID: "r0", FromStepCount: 1, Mode: "with_confirmation"})
	for _, q := range a.asked {
		yes, reason := true, "because"
		approved := a.pick("approved", 3) > 0
		if q.approval {
			r := chunk.ToolApprovalResponse{ToolCallID: q.id, ToolName: q.name, ApprovalID: "r0::" + q.id, Approved: approved}
			if a.pick("reason", 2) == 0 {
				r.Reason = &reason
			}
			a.write(r)
		}
		denied := "client_tool_denied"
		switch {
		case q.approval && !approved:
			a.write(chunk.ToolEnd{ToolCallID: q.id, ToolName: q.name, Result: null, Error: &reason, ErrorCode: &denied})
		case q.approval:
			if a.pick("started", 2) == 0 {
				a.write(chunk.ToolStart{ToolCallID: q.id, ToolName: q.name, Arguments: chunk.Value(`{"q":1}`)})
			}
			a.write(chunk.ToolEnd{ToolCallID: q.id, ToolName: q.name, Result: a.value.Draw(a.t, "result"), ProviderExecuted: &yes})
		default:
			a.write(chunk.ToolEnd{ToolCallID: q.id, ToolName: q.name, Result: a.value.Draw(a.t, "result")})
		}
	}
	a.asked = nil
}

func (a *generator) interrupt() {
	a.write(chunk.RunInterrupted{RunID: "r0"})
	if a.often("ended") {
		a.write(chunk.StreamEnd{StreamID: "s1"})
	}
	a.epoch++
	a.run++
	a.start("continue")
	a.write(chunk.RunResumed{RunID: "r0", FromStepCount: 1, Mode: "continue"})
}

func (a *generator) steps() {
	for range a.pick("steps", 4) {
		a.step++
		from := len(a.log)
		if !a.stepless {
			a.write(chunk.StepStart{})
		}
		for range a.pick("things", 7) {
			a.part()
		}
		if !a.plain && !a.intact && a.pick("dies", 8) == 0 {
			a.takeOver(from)
			continue
		}
		if a.pick("asks", 4) == 0 {
			a.ask()
		}
		if !a.stepless && a.often("closed") {
			reason := "stop"
			a.write(chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "10", OutputTokens: "3"}, FinishReason: &reason})
		}
		if len(a.asked) > 0 {
			return
		}
	}
}

// takeOver simulates a crash of the worker: the next worker rolls the step back.
func (a *generator) takeOver(from int) {
	var first, last chunk.Ordinal
	for _, rec := range a.log[from:] {
		if rec.Session == session {
			if first == 0 {
				first = rec.Ordinal
			}
			last = rec.Ordinal
		}
	}
	a.epoch++
	step := a.step
	a.start("takeover")
	if first > 0 {
		a.write(chunk.Truncated{TruncatedAtStep: step - 1, AtSequence: int64(a.seq), Removed: []chunk.OrdinalRange{{First: int64(first), Last: int64(last)}}})
	}
	a.step = step - 1
	a.write(chunk.StreamResync{CheckpointID: "cp", Reason: "crash_recovery"})
}

func (a *generator) part() {
	switch a.pick("part", 14) {
	case 0, 1, 2:
		for range 1 + a.pick("deltas", 3) {
			a.write(chunk.TextDelta{Delta: a.text.Draw(a.t, "delta")})
		}
	case 3, 4:
		a.think("s1")
	case 5, 6, 7:
		a.tool("s1")
	case 8:
		a.attachment()
	case 9:
		a.write(chunk.Custom{EventName: "progress", Data: a.value.Draw(a.t, "data")})
	case 10:
		a.structured()
	case 11:
		a.notice()
	case 12:
		a.finishTool()
	case 13:
		if !a.plain {
			a.subAgent()
		}
	}
}

func (a *generator) think(agent string) {
	whole := ""
	for range a.pick("pieces", 3) {
		piece := a.text.Draw(a.t, "piece")
		whole = chunk.Concat(whole, piece)
		a.writeAs(agent, chunk.Thinking{Content: piece})
	}
	switch a.pick("complete", 4) {
	case 0:
		a.writeAs(agent, chunk.Thinking{Content: whole, IsComplete: true})
	case 1:
		a.writeAs(agent, chunk.Thinking{IsComplete: true})
	case 2:
		a.writeAs(agent, chunk.Thinking{Content: a.text.Draw(a.t, "rest"), IsComplete: true})
	}
}

// tool writes a complete call of a server-side tool.
func (a *generator) tool(agent string) {
	a.calls++
	id, name := fmt.Sprintf("c%d", a.calls), "search"
	if a.pick("again", 6) == 0 {
		id = "c1" // a model that reuses an id
	}
	yes := true
	if a.pick("streams", 2) == 0 {
		a.writeAs(agent, chunk.ToolArgStreamStart{ToolCallID: id, ToolName: name})
		for range a.pick("args", 3) {
			a.writeAs(agent, chunk.ToolArgStreamDelta{ToolCallID: id, Delta: a.text.Draw(a.t, "arg")})
		}
		a.writeAs(agent, chunk.ToolArgStreamEnd{ToolCallID: id})
	}
	if a.pick("late outcome", 12) == 0 { // of the same call, or of one without a start
		a.writeAs(agent, chunk.TextDelta{Delta: "before "})
		a.outcome(agent, id, name)
		a.writeAs(agent, chunk.TextDelta{Delta: "between "})
		a.writeAs(agent, chunk.ToolInputError{ToolCallID: id, ToolName: name, Error: "late"})
		a.writeAs(agent, chunk.TextDelta{Delta: "after "})
		return
	}
	if a.pick("bad", 6) == 0 {
		bad := chunk.ToolInputError{ToolCallID: id, ToolName: name, Error: "bad"}
		if a.pick("partial", 2) == 0 {
			bad.PartialInput = new(a.value.Draw(a.t, "partial input"))
		}
		a.writeAs(agent, bad)
		return
	}
	auto := a.pick("rule", 6) == 0
	if auto {
		a.writeAs(agent, chunk.ToolApprovalRequest{ToolCallID: id, ToolName: name, ApprovalID: "r0::" + id, Input: chunk.Value(`{"q":1}`), IsAutomatic: &yes})
		a.writeAs(agent, chunk.ToolApprovalResponse{ToolCallID: id, ToolName: name, ApprovalID: "r0::" + id, Approved: true, IsAutomatic: &yes})
	}
	a.writeAs(agent, chunk.ToolStart{ToolCallID: id, ToolName: name, Arguments: chunk.Value(`{"q":1}`)})
	if a.pick("says", 3) == 0 {
		a.writeAs(agent, chunk.TextDelta{Delta: "meanwhile "})
	}
	a.outcome(agent, id, name)
}

func (a *generator) outcome(agent, id, name string) {
	yes, boom := true, "boom \xed\xa0\xbd"
	switch a.pick("outcome", 4) {
	case 0:
		a.writeAs(agent, chunk.ToolEnd{ToolCallID: id, ToolName: name, Result: null, Error: &boom, ProviderExecuted: &yes})
	case 1:
		a.writeAs(agent, chunk.ToolOutputError{ToolCallID: id, ToolName: name, Error: boom})
	default:
		a.writeAs(agent, chunk.ToolEnd{ToolCallID: id, ToolName: name, Result: a.value.Draw(a.t, "result"), ProviderExecuted: &yes})
	}
}

// ask writes calls that wait for the user or the browser.
func (a *generator) ask() {
	for range 1 + a.pick("questions", 2) {
		a.calls++
		q := asked{id: fmt.Sprintf("q%d", a.calls), name: "browser", approval: a.pick("approval", 2) == 0}
		if q.approval {
			q.name = "delete"
		}
		if !q.approval || a.pick("first", 2) == 0 {
			a.write(chunk.ToolStart{ToolCallID: q.id, ToolName: q.name, Arguments: chunk.Value(`{"q":1}`)})
		}
		if q.approval {
			a.write(chunk.ToolApprovalRequest{ToolCallID: q.id, ToolName: q.name, ApprovalID: "r0::" + q.id, Input: chunk.Value(`{"q":1}`)})
		}
		a.asked = append(a.asked, q)
	}
}

func (a *generator) attachment() {
	name := "n\xed\xa0\x80"
	switch a.pick("plain", 3) {
	case 0:
		a.write(chunk.File{URL: "https://f", MediaType: "image/png", Filename: &name})
	case 1:
		a.write(chunk.SourceURL{SourceID: "1", URL: "https://u", Title: &name})
	case 2:
		a.write(chunk.SourceDocument{SourceID: "2", MediaType: "text/plain", Title: "t\n"})
	}
}

func (a *generator) structured() {
	id := fmt.Sprintf("d%d", a.pick("stream", 3))
	pieces := []string{
		`"kind":"set","path":"a.b","value":1`, `"kind":"text-delta","path":"t","delta":"x"`,
		`"kind":"append","path":"l","items":[1,"\ud800"]`, `"kind":"final","data":{"f":[1],"__proto__":2}`, `"kind":"final"`, `"kind":"none"`,
	}
	if a.pick("void", 8) == 0 {
		a.write(chunk.Custom{EventName: structured.InvalidatedEvent, Data: chunk.Value(fmt.Sprintf(`{"streamId":%q}`, id))})
		return
	}
	a.write(chunk.Custom{EventName: structured.PieceEvent, Data: chunk.Value(fmt.Sprintf(
		`{"type":"structured-data","streamId":%q,"dataType":"t",%s}`, id, pieces[a.pick("piece", len(pieces))]))})
}

func (a *generator) notice() {
	switch a.pick("notice", 6) {
	case 0:
		a.write(chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/__proto__", Value: new(a.value.Draw(a.t, "value"))}}})
	case 1:
		a.write(chunk.Output{Output: a.value.Draw(a.t, "output")})
	case 2:
		a.write(chunk.Error{Error: "busy", Recoverable: true, ErrorDetail: &chunk.ErrorDetail{Message: "m"}})
	case 3:
		a.write(chunk.CheckpointCreated{RunID: "r", CheckpointID: "cp", StepCount: a.step})
	case 4:
		a.write(chunk.SuspensionMarker{Kind: "suspended_client_tool", Payload: chunk.Value(`{"toolCallIds":["c1"]}`)})
	case 5:
		a.write(chunk.ExecutorSuperseded{})
	}
}

func (a *generator) finishTool() {
	yes := true
	a.write(chunk.ToolArgStreamStart{ToolCallID: "f", ToolName: turn.FinishTool})
	a.write(chunk.ToolArgStreamDelta{ToolCallID: "f", Delta: "{}"})
	a.write(chunk.ToolArgStreamEnd{ToolCallID: "f"})
	a.write(chunk.ToolStart{ToolCallID: "f", ToolName: turn.FinishTool, Arguments: chunk.Value(`{}`)})
	a.write(chunk.ToolEnd{ToolCallID: "f", ToolName: turn.FinishTool, Result: null, ProviderExecuted: &yes})
}

// subAgent writes a call of a sub-agent and its records.
func (a *generator) subAgent() {
	a.calls++
	yes, id, child := true, fmt.Sprintf("c%d", a.calls), fmt.Sprintf("k%d", a.calls)
	step := a.step
	a.write(chunk.ToolStart{ToolCallID: id, ToolName: "subagent__x", Arguments: chunk.Value(`{}`)})
	a.write(chunk.SubagentStart{SubAgentType: "x", SubSessionID: child, CallID: id})
	a.writeAs(child, chunk.RunStarted{RunID: "child", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "do"}}, Parent: &chunk.Parent{SessionID: "s1", CallID: id}})
	for range a.pick("said", 5) {
		switch a.pick("says", 9) {
		case 0:
			a.step++
			a.writeAs(child, chunk.StepStart{})
		case 1:
			a.think(child)
		case 2:
			a.tool(child)
		case 3:
			a.write(chunk.TextDelta{Delta: "between "})
		case 4:
			a.writeAs(child, chunk.Custom{EventName: "progress", Data: chunk.Value(`1`)})
		case 5:
			a.writeAs(child, chunk.StepEnd{})
		case 6:
			a.writeAs(child, chunk.Error{Error: "oops", Recoverable: false})
		case 7:
			a.grandchild(child)
		default:
			a.writeAs(child, chunk.TextDelta{Delta: a.text.Draw(a.t, "child says")})
		}
	}
	waits := a.pick("waits", 3) == 0
	if waits {
		if a.intact {
			a.writeAs(child, chunk.StepEnd{})
		}
		a.write(chunk.StreamPaused{})
		a.askInChild(child)
	}
	a.writeAs(child, chunk.StreamEnd{StreamID: child})
	if waits {
		a.epoch++
		a.run++
		a.start("continue")
	}
	a.step = step
	a.write(chunk.SubagentEnd{SubAgentType: "x", SubSessionID: child, CallID: id, Result: chunk.Value(`"ok"`)})
	a.write(chunk.ToolEnd{ToolCallID: id, ToolName: "subagent__x", Result: chunk.Value(`"ok"`), ProviderExecuted: &yes})
}

// grandchild writes a call of a sub-agent by a sub-agent, and its records among those of its parent.
func (a *generator) grandchild(child string) {
	a.calls++
	yes, id, nested := true, fmt.Sprintf("c%d", a.calls), fmt.Sprintf("k%d", a.calls)
	a.writeAs(child, chunk.ToolStart{ToolCallID: id, ToolName: "subagent__y", Arguments: chunk.Value(`{}`)})
	a.writeAs(child, chunk.SubagentStart{SubAgentType: "y", SubSessionID: nested, CallID: id})
	a.writeAs(nested, chunk.RunStarted{RunID: "nested", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "do"}}, Parent: &chunk.Parent{SessionID: child, CallID: id}})
	for range a.pick("nested said", 4) {
		switch a.pick("nested says", 4) {
		case 0:
			a.think(nested)
		case 1:
			a.tool(nested)
		case 2:
			a.writeAs(child, chunk.TextDelta{Delta: "waits "})
		default:
			a.writeAs(nested, chunk.TextDelta{Delta: a.text.Draw(a.t, "nested text")})
		}
	}
	a.writeAs(nested, chunk.StreamEnd{StreamID: nested})
	a.writeAs(child, chunk.SubagentEnd{SubAgentType: "y", SubSessionID: nested, CallID: id, Result: chunk.Value(`"ok"`)})
	a.writeAs(child, chunk.ToolEnd{ToolCallID: id, ToolName: "subagent__y", Result: chunk.Value(`"ok"`), ProviderExecuted: &yes})
}

// askInChild writes a pending call of a sub-agent, for which the parent waits.
func (a *generator) askInChild(child string) {
	if a.pick("child asks", 2) == 0 {
		a.writeAs(child, chunk.TextDelta{Delta: "thinking"})
		return
	}
	yes, id := true, fmt.Sprintf("q%d", a.calls)
	a.writeAs(child, chunk.ToolApprovalRequest{ToolCallID: id, ToolName: "delete", ApprovalID: "k::" + id, Input: chunk.Value(`{}`)})
	a.writeAs(child, chunk.StreamPaused{})
	a.epoch++
	a.writeAs(child, chunk.RunStarted{RunID: "child2", Epoch: int64(a.epoch), Mode: "with_confirmation"})
	a.writeAs(child, chunk.ToolApprovalResponse{ToolCallID: id, ToolName: "delete", ApprovalID: "k::" + id, Approved: true})
	a.writeAs(child, chunk.ToolEnd{ToolCallID: id, ToolName: "delete", Result: chunk.Value(`1`), ProviderExecuted: &yes})
}

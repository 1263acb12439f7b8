// Package turntest generates random logs of sessions as workers write them, for tests of what is written from logs: runs of steps, text, reasoning, tool calls,
// questions to users and their answers, interleaved sub-agents, structured data, crashes of workers.
//
//	rapid.Check(t, func(t *rapid.T) {
//		log := turntest.Logs(turntest.Config{Turns: 2}).Draw(t, "log")
//		…
//	})
//
// Only tests may import the package, because it imports pgregory.net/rapid.
package turntest

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
)

// Session is the session of the logs.
var Session = chunk.RootSession("acme", "s1")

// Config selects what the logs have.
type Config struct {
	Turns     int  // maximum number of turns, at least 1
	SubAgents bool // sub-agents, whose records are among the others
	Crashes   bool // workers crash: others take over and remove the unfinished step
	Reuse     bool // the model uses ids of calls again
	Plain     bool // text without lone surrogates, and arguments that stream as they are, mostly

	// Wide adds what workers write rarely or never: members of parts, events of other dialects, types of later builds, records that are malformed, repeated, of a
	// fenced writer or missing, outcomes of calls that never began or are of an earlier turn, rollbacks, records in any order after the end of a run.
	Wide bool
}

// IsClientTool reports whether the client runs a tool of the logs.
func IsClientTool(name string) bool { return name == "browser" }

// Logs generates logs. The last turn may be unfinished.
func Logs(c Config) *rapid.Generator[Log] {
	return rapid.Custom(func(t *rapid.T) Log {
		g := &generator{T: t, Config: c, last: map[string]chunk.Ordinal{}, text: chunktest.Texts(), value: chunktest.Values()}
		if c.Plain {
			g.text = rapid.SampledFrom([]string{"a", "Hello ", "é\"\n", "\u2028", "</script>", "data: x\n\n", "\\ud83d", "\x00", "😀", ""})
			g.value = rapid.Map(rapid.SampledFrom([]string{`{}`, `{"q":1}`, `{"a":[1,{"b":null}]}`, `"x"`, `null`, `[1]`, `"{}"`, `0.5`, `true`}),
				func(s string) chunk.Value { return chunk.Value(s) })
		}
		for n := range 1 + g.pick("turns", max(1, c.Turns)) {
			if !g.turn(n) {
				break
			}
		}
		return g.log
	})
}

type generator struct {
	*rapid.T
	Config

	log   Log
	seq   chunk.Seq
	epoch chunk.Epoch
	last  map[string]chunk.Ordinal // of each session
	step  int64
	turns int
	run   int
	calls int
	asked []question
	value *rapid.Generator[chunk.Value]
	text  *rapid.Generator[string]

	children []string // sessions of sub-agents
}

// question is a call that waits for the client.
type question struct {
	id, name string
	approval bool
}

func (g *generator) pick(what string, n int) int { return rapid.IntRange(0, n-1).Draw(g.T, what) }
func (g *generator) often(what string) bool      { return g.pick(what, 10) > 0 }

func (g *generator) write(body chunk.Body) { g.writeAs(Session.ID, body) }

// writeAs writes a record of a session.
func (g *generator) writeAs(agent string, body chunk.Body) {
	c := chunk.Chunk{AgentID: agent, AgentType: "planner", Timestamp: 1, Step: g.step, Body: body}
	if g.Wide {
		g.widen(&c)
	}
	data, err := c.AppendJSON(nil)
	if err != nil {
		g.Fatalf("%T: %v", body, err)
	}
	s := Session
	if agent != s.ID {
		s = s.Child(agent)
	}
	g.seq += chunk.Seq(1 + g.pick("gap", 3))
	g.last[agent]++
	g.log = append(g.log, chunk.Record{
		Seq: g.seq, Session: s, Epoch: g.epoch, Ordinal: g.last[agent], Type: chunk.Chunk{Body: body}.Type(), StoredAt: time.UnixMilli(int64(g.seq)), Data: data,
	})
	if g.Wide {
		g.disturb(agent)
	}
}

func (g *generator) start(mode string, input ...chunk.InputMessage) {
	g.epoch++
	g.run++
	if mode == "execute" {
		g.step = 0
	}
	run := chunk.RunStarted{RunID: fmt.Sprintf("r%d", g.run), Epoch: int64(g.epoch), Mode: mode, Input: input}
	if g.Wide {
		g.runMembers(&run)
	}
	g.write(run)
}

// turn writes a turn, and reports whether it has ended.
func (g *generator) turn(n int) bool {
	g.turns = n
	input := chunk.InputMessage{Content: "hello"}
	if g.pick("named", 2) == 0 {
		id := fmt.Sprintf("client-%d", n)
		input.ClientMessageID = &id
	}
	if g.pick("file", 4) == 0 {
		input.Files = []chunk.InputFile{{URL: "data:image/png;base64,AAAA", MediaType: "image/png"}, {URL: "https://f/x.pdf", MediaType: "application/pdf", Filename: new("x.pdf")}}
	}
	g.start("execute", input)
	for range 3 {
		g.steps()
		switch {
		case len(g.asked) > 0:
			g.pause()
			if !g.often("answered") {
				g.asked = nil
				return false
			}
			g.resume()
		case g.pick("interrupt", 6) == 0:
			g.interrupt()
			if !g.often("resumed") {
				return false
			}
			g.start("continue")
			g.write(chunk.RunResumed{RunID: "r0", FromStepCount: 1, Mode: "continue"})
		default:
			return g.end()
		}
	}
	return g.end()
}

func (g *generator) end() bool {
	switch g.pick("end", 8) {
	case 0:
		return false // still running
	case 1:
		g.write(chunk.StreamFailed{Error: "dead\n"})
	case 2:
		g.write(chunk.Error{Error: "the model went away", Recoverable: false})
		g.write(chunk.StreamFailed{Error: "dead", ErrorDetail: &chunk.ErrorDetail{Message: "dead", Code: new("model")}})
	case 3:
		g.write(chunk.StreamFailed{Error: "stopped", ErrorDetail: &chunk.ErrorDetail{Message: "stopped", Code: new("aborted")}})
	case 4:
		g.write(chunk.StreamEnd{StreamID: Session.ID, FinalOutput: new(g.value.Draw(g.T, "output"))})
	default:
		g.write(chunk.StreamEnd{StreamID: Session.ID})
	}
	if g.Wide {
		g.afterEnd()
	}
	return true
}

func (g *generator) pause() {
	if g.often("said") {
		g.write(chunk.RunPaused{RunID: "r0", Reason: "asks"})
	}
	g.write(chunk.StreamPaused{})
}

func (g *generator) resume() {
	g.start("with_confirmation")
	g.write(chunk.RunResumed{RunID: "r0", FromStepCount: 1, Mode: "with_confirmation"})
	for _, q := range g.asked {
		g.answer(q)
	}
	g.asked = nil
}

func (g *generator) answer(q question) {
	if !q.approval {
		g.write(chunk.ToolEnd{ToolCallID: q.id, ToolName: q.name, Result: g.value.Draw(g.T, "result")})
		return
	}
	approved, reason := g.pick("approved", 3) > 0, "because"
	r := chunk.ToolApprovalResponse{ToolCallID: q.id, ToolName: q.name, ApprovalID: "r0::" + q.id, Approved: approved}
	if g.pick("reason", 2) == 0 {
		r.Reason = &reason
	}
	g.write(r)
	if !approved {
		g.write(chunk.ToolEnd{ToolCallID: q.id, ToolName: q.name, Error: &reason, ErrorCode: new("client_tool_denied")})
		return
	}
	if g.pick("started", 2) == 0 {
		g.write(chunk.ToolStart{ToolCallID: q.id, ToolName: q.name, Arguments: chunk.Value(`{"q":1}`)})
	}
	g.write(chunk.ToolEnd{ToolCallID: q.id, ToolName: q.name, Result: g.value.Draw(g.T, "result"), ProviderExecuted: new(true)})
}

func (g *generator) interrupt() {
	g.write(chunk.RunInterrupted{RunID: "r0"})
	if g.often("ended") {
		g.write(chunk.StreamEnd{StreamID: Session.ID})
	}
}

func (g *generator) steps() {
	stepless := g.pick("stepless", 8) == 0
	for range g.pick("steps", 4) {
		g.step++
		from := len(g.log)
		switch {
		case !stepless && g.Wide:
			g.write(g.stepStart())
		case !stepless:
			g.write(chunk.StepStart{})
		}
		for range g.pick("things", 7) {
			g.part()
		}
		if g.Crashes && g.pick("dies", 8) == 0 {
			g.takeOver(from)
			continue
		}
		if g.pick("asks", 4) == 0 {
			g.ask()
		}
		if g.Wide && g.Crashes && g.rare("rolls back", 8) {
			g.rollBack(Session.ID)
		}
		switch {
		case stepless || !g.often("closed"):
		case g.Wide:
			g.write(g.stepEnd())
		default:
			g.write(chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "10", OutputTokens: "3"}, FinishReason: new("stop")})
		}
		if len(g.asked) > 0 {
			return
		}
	}
}

// takeOver writes what the next worker writes after a crash: it rolls the step back.
func (g *generator) takeOver(from int) {
	var first, last chunk.Ordinal
	for _, rec := range g.log[from:] {
		if rec.Session == Session {
			if first == 0 {
				first = rec.Ordinal
			}
			last = rec.Ordinal
		}
	}
	step, at := g.step, g.seq
	g.start("takeover")
	if first > 0 {
		g.write(chunk.Truncated{TruncatedAtStep: max(0, step-1), AtSequence: int64(at), Removed: []chunk.OrdinalRange{{First: int64(first), Last: int64(last)}}})
	}
	g.step = max(0, step-1)
	g.write(chunk.StreamResync{CheckpointID: "cp", Reason: "crash_recovery"})
	if g.Wide && g.rare("finals", 3) {
		g.finals()
	}
}

func (g *generator) part() {
	if g.Wide && g.rare("wide", 3) {
		g.widePart(Session.ID)
		return
	}
	switch g.pick("part", 13) {
	case 0, 1, 2:
		for range 1 + g.pick("deltas", 3) {
			g.write(chunk.TextDelta{Delta: g.text.Draw(g.T, "delta")})
		}
	case 3, 4:
		g.think(Session.ID)
	case 5, 6, 7:
		g.tool(Session.ID)
	case 8:
		g.attachment()
	case 9:
		g.write(chunk.Custom{EventName: "progress", Data: g.value.Draw(g.T, "data")})
	case 10:
		g.structured()
	case 11:
		g.notice()
	case 12:
		if g.SubAgents {
			g.subAgent(Session.ID, 2)
		}
	}
}

func (g *generator) think(agent string) {
	whole := ""
	for range g.pick("pieces", 3) {
		piece := g.text.Draw(g.T, "piece")
		whole = chunk.Concat(whole, piece)
		g.writeAs(agent, chunk.Thinking{Content: piece})
	}
	switch g.pick("complete", 4) {
	case 0:
		g.writeAs(agent, chunk.Thinking{Content: whole, IsComplete: true})
	case 1:
		g.writeAs(agent, chunk.Thinking{IsComplete: true})
	case 2:
		g.writeAs(agent, chunk.Thinking{Content: g.text.Draw(g.T, "rest"), IsComplete: true})
	}
}

// tool writes a complete call of a tool that runs on the server.
func (g *generator) tool(agent string) {
	g.calls++
	id, name := fmt.Sprintf("c%d", g.calls), "search"
	if g.Reuse && g.pick("again", 6) == 0 {
		id = "c1"
	}
	arguments := `{"q":1}`
	if g.pick("streams", 2) == 0 {
		g.writeAs(agent, chunk.ToolArgStreamStart{ToolCallID: id, ToolName: name})
		if g.Plain && g.often("exact") {
			cut := g.pick("cut", len(arguments)+1)
			g.writeAs(agent, chunk.ToolArgStreamDelta{ToolCallID: id, Delta: arguments[:cut]})
			g.writeAs(agent, chunk.ToolArgStreamDelta{ToolCallID: id, Delta: arguments[cut:]})
		} else {
			for range g.pick("args", 3) {
				g.writeAs(agent, chunk.ToolArgStreamDelta{ToolCallID: id, Delta: g.text.Draw(g.T, "arg")})
			}
		}
		g.writeAs(agent, chunk.ToolArgStreamEnd{ToolCallID: id})
	}
	if g.pick("late outcome", 12) == 0 { // of the same call, or of one without a start
		g.writeAs(agent, chunk.TextDelta{Delta: "before "})
		g.outcome(agent, id, name)
		g.writeAs(agent, chunk.TextDelta{Delta: "between "})
		g.writeAs(agent, chunk.ToolInputError{ToolCallID: id, ToolName: name, Error: "late"})
		g.writeAs(agent, chunk.TextDelta{Delta: "after "})
		return
	}
	if g.pick("bad", 6) == 0 {
		bad := chunk.ToolInputError{ToolCallID: id, ToolName: name, Error: "bad"}
		if g.pick("partial", 2) == 0 {
			bad.PartialInput = new(g.value.Draw(g.T, "partial input"))
		}
		g.writeAs(agent, bad)
		return
	}
	if g.pick("rule", 6) == 0 {
		g.writeAs(agent, chunk.ToolApprovalRequest{ToolCallID: id, ToolName: name, ApprovalID: "r0::" + id, Input: chunk.Value(arguments), IsAutomatic: new(true)})
		g.writeAs(agent, chunk.ToolApprovalResponse{ToolCallID: id, ToolName: name, ApprovalID: "r0::" + id, Approved: true, IsAutomatic: new(true)})
	}
	g.writeAs(agent, chunk.ToolStart{ToolCallID: id, ToolName: name, Arguments: chunk.Value(arguments)})
	if g.pick("says", 3) == 0 {
		g.writeAs(agent, chunk.TextDelta{Delta: "meanwhile "})
	}
	g.outcome(agent, id, name)
}

func (g *generator) outcome(agent, id, name string) {
	boom := "boom"
	switch g.pick("outcome", 4) {
	case 0:
		g.writeAs(agent, chunk.ToolEnd{ToolCallID: id, ToolName: name, Error: &boom, ProviderExecuted: new(true)})
	case 1:
		g.writeAs(agent, chunk.ToolOutputError{ToolCallID: id, ToolName: name, Error: boom})
	default:
		g.writeAs(agent, chunk.ToolEnd{ToolCallID: id, ToolName: name, Result: g.value.Draw(g.T, "result"), ProviderExecuted: new(true)})
	}
}

// ask writes calls that wait for the user or the client.
func (g *generator) ask() {
	for range 1 + g.pick("questions", 2) {
		g.calls++
		q := question{id: fmt.Sprintf("q%d", g.calls), name: "browser", approval: g.pick("approval", 2) == 0}
		if q.approval {
			q.name = "delete"
		}
		if !q.approval || g.pick("first", 2) == 0 {
			g.write(chunk.ToolStart{ToolCallID: q.id, ToolName: q.name, Arguments: chunk.Value(`{"q":1}`)})
		}
		if q.approval {
			g.write(chunk.ToolApprovalRequest{ToolCallID: q.id, ToolName: q.name, ApprovalID: "r0::" + q.id, Input: chunk.Value(`{"q":1}`)})
		}
		g.asked = append(g.asked, q)
	}
}

func (g *generator) attachment() {
	name := "n"
	switch g.pick("attachment", 3) {
	case 0:
		g.write(chunk.File{URL: "https://f", MediaType: "image/png", Filename: &name})
	case 1:
		g.write(chunk.SourceURL{SourceID: "1", URL: "https://u", Title: &name})
	case 2:
		g.write(chunk.SourceDocument{SourceID: "2", MediaType: "text/plain", Title: "t\n"})
	}
}

func (g *generator) structured() {
	id := fmt.Sprintf("d%d-%d", g.turns, g.pick("stream", 3))
	pieces := []string{
		`"kind":"set","path":"a.b","value":1`, `"kind":"text-delta","path":"t","delta":"x"`,
		`"kind":"append","path":"l","items":[1,"x"]`, `"kind":"final","data":{"f":[1]}`, `"kind":"final"`, `"kind":"none"`,
	}
	if g.pick("void", 8) == 0 {
		g.write(chunk.Custom{EventName: "structured-data-invalidated", Data: chunk.Value(fmt.Sprintf(`{"streamId":%q}`, id))})
		return
	}
	g.write(chunk.Custom{EventName: "structured-data", Data: chunk.Value(fmt.Sprintf(
		`{"type":"structured-data","streamId":%q,"dataType":"t",%s}`, id, pieces[g.pick("piece", len(pieces))]))})
}

func (g *generator) notice() {
	switch g.pick("notice", 6) {
	case 0:
		g.write(chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/a", Value: new(g.value.Draw(g.T, "value"))}}})
	case 1:
		g.write(chunk.Output{Output: g.value.Draw(g.T, "output")})
	case 2:
		g.write(chunk.Error{Error: "busy", Recoverable: true, ErrorDetail: &chunk.ErrorDetail{Message: "m"}})
	case 3:
		g.write(chunk.CheckpointCreated{RunID: "r", CheckpointID: "cp", StepCount: g.step})
	case 4:
		g.write(chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "remove", Path: "/a"}, {Op: "add", Path: "/b", Value: new(g.value.Draw(g.T, "value"))}}})
	case 5:
		g.write(chunk.ExecutorSuperseded{})
	}
}

// subAgent writes a call of a sub-agent and its records, among those of its parent.
func (g *generator) subAgent(parent string, depth int) {
	g.calls++
	id, child, step := fmt.Sprintf("c%d", g.calls), fmt.Sprintf("k%d", g.calls), g.step
	g.children = append(g.children, child)
	g.writeAs(parent, chunk.ToolStart{ToolCallID: id, ToolName: "subagent__x", Arguments: chunk.Value(`{}`)})
	g.writeAs(parent, chunk.SubagentStart{SubAgentType: "x", SubSessionID: child, CallID: id})
	g.writeAs(child, chunk.RunStarted{RunID: "run-" + child, Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "do"}},
		Parent: &chunk.Parent{SessionID: parent, CallID: id}})
	for range g.pick("said", 5) {
		if g.Wide && g.rare("wide", 3) {
			g.widePart(child)
			continue
		}
		switch g.pick("says", 9) {
		case 0:
			g.step++
			g.writeAs(child, chunk.StepStart{})
		case 1:
			g.think(child)
		case 2:
			g.tool(child)
		case 3:
			g.writeAs(parent, chunk.TextDelta{Delta: "between "})
		case 4:
			g.writeAs(child, chunk.Custom{EventName: "progress", Data: chunk.Value(`1`)})
		case 5:
			g.writeAs(child, chunk.StepEnd{})
		case 6:
			g.writeAs(child, chunk.Error{Error: "oops"})
		case 7:
			if depth > 1 {
				g.subAgent(child, depth-1)
			}
		default:
			g.writeAs(child, chunk.TextDelta{Delta: g.text.Draw(g.T, "child says")})
		}
	}
	waits := parent == Session.ID && g.pick("waits", 3) == 0
	if waits {
		g.write(chunk.StreamPaused{})
		g.askInChild(child)
	}
	g.writeAs(child, chunk.StreamEnd{StreamID: child})
	if g.step = step; waits {
		g.start("continue")
	}
	result := chunk.Value(`"ok"`)
	if g.pick("fails", 5) == 0 {
		result = chunk.Value(`{"error":"no"}`)
	}
	g.writeAs(parent, chunk.SubagentEnd{SubAgentType: "x", SubSessionID: child, CallID: id, Result: result})
	g.writeAs(parent, chunk.ToolEnd{ToolCallID: id, ToolName: "subagent__x", Result: result, ProviderExecuted: new(true)})
}

// askInChild writes a call of a sub-agent that waits for a user, while the parent waits for the sub-agent.
func (g *generator) askInChild(child string) {
	if g.pick("child asks", 2) == 0 {
		g.writeAs(child, chunk.TextDelta{Delta: "thinking"})
		return
	}
	id := fmt.Sprintf("q%d", g.calls)
	g.writeAs(child, chunk.ToolApprovalRequest{ToolCallID: id, ToolName: "delete", ApprovalID: "k::" + id, Input: chunk.Value(`{}`)})
	g.writeAs(child, chunk.StreamPaused{})
	g.epoch++
	g.writeAs(child, chunk.RunStarted{RunID: "again-" + child, Epoch: int64(g.epoch), Mode: "with_confirmation"})
	g.writeAs(child, chunk.ToolApprovalResponse{ToolCallID: id, ToolName: "delete", ApprovalID: "k::" + id, Approved: true})
	g.writeAs(child, chunk.ToolEnd{ToolCallID: id, ToolName: "delete", Result: chunk.Value(`1`), ProviderExecuted: new(true)})
}

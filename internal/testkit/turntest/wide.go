package turntest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/structured"
)

// one draws an element of a list.
func one[T any](g *generator, what string, list ...T) T { return list[g.pick(what, len(list))] }

// maybe draws a pointer to an element of a list, nil in one of two cases.
func maybe[T any](g *generator, what string, list ...T) *T {
	if g.pick("has "+what, 2) == 0 {
		return nil
	}
	return new(one(g, what, list...))
}

// rare reports true in one of n cases. rapid shrinks to false.
func (g *generator) rare(what string, n int) bool { return g.pick(what, n) == n-1 }

// anyCall returns the id of a call: one that is open, has an outcome, is of an earlier turn or of another agent, or never began.
func (g *generator) anyCall() string {
	number := g.pick("number of a call", g.calls+2)
	if g.rare("recent call", 2) {
		number = max(0, g.calls-g.pick("recent", 2))
	}
	return fmt.Sprintf("%s%d", one(g, "kind of id", "c", "c", "q"), number)
}

func (g *generator) anyTool() string {
	return one(g, "tool", "search", "search", "browser", "delete", "subagent__x", "__finish__", "workflow-x")
}

// widen adds to a chunk what most chunks do not have.
func (g *generator) widen(c *chunk.Chunk) {
	c.Extra = g.extra(c.Body)
	if _, unknown := c.Body.(chunk.Opaque); !unknown && g.rare("other step", 25) { // an Opaque has its step in its JSON
		c.Step = max(0, g.step+int64(g.pick("by", 4)-1))
	}
}

// extra returns additional members for a chunk: how it is shown as a part, what runs a call, and one of a later build.
func (g *generator) extra(body chunk.Body) (extra []chunk.Member) {
	switch body.(type) {
	case chunk.TextDelta, chunk.Thinking, chunk.Custom, chunk.File, chunk.SourceURL, chunk.SourceDocument, chunk.ToolArgStreamStart, chunk.ToolStart, chunk.ToolEnd,
		chunk.ToolInputError, chunk.ToolOutputError, chunk.ToolApprovalRequest, chunk.StepStart, chunk.SubagentStart:
	default:
		return nil
	}
	if g.rare("part member", 5) {
		part := chunk.Part{
			Begins: g.rare("begins", 3), Static: g.rare("static", 4), Transient: g.rare("transient", 4),
		}
		if g.rare("part id", 3) {
			part.ID = one(g, "id of a part", chunk.Value(`"p1"`), chunk.Value(`"p\u0032"`), chunk.Value(`7`))
		}
		if g.rare("title", 4) {
			part.Title = one(g, "text of a title", chunk.Value(`"Search"`), chunk.Value(`""`))
		}
		if g.rare("tool metadata", 4) {
			part.ToolMetadata = one(g, "metadata of a tool", chunk.Value(`{"a":{"__proto__":1}}`), chunk.Value(`{}`), chunk.Value(`[]`))
		}
		if g.rare("provider metadata", 3) {
			part.ProviderMetadata = one(g, "metadata of a provider", chunk.Value(`{"openai":{"itemId":"i1"}}`), chunk.Value(`{"x":{}}`), chunk.Value(`{"x":1}`))
		}
		extra = part.Extra()
	}
	switch body.(type) {
	case chunk.ToolArgStreamStart, chunk.ToolStart, chunk.ToolApprovalRequest:
		if g.rare("run by", 8) {
			extra = append(extra, chunk.RunBy(g.rare("provider", 2)))
		}
	}
	if g.rare("later member", 30) {
		extra = append(extra, chunk.Member{Name: "later", Value: chunk.Value(`{"type":"x"}`)})
	}
	return extra
}

// disturb changes the latest record, or adds what readers must ignore: the record again, an earlier one, one of a fenced writer, a malformed one, a gap.
func (g *generator) disturb(agent string) {
	rec := g.log[len(g.log)-1]
	again := func(of chunk.Record) {
		g.seq++
		of.Seq = g.seq
		g.log = append(g.log, of)
	}
	const most = 59 // that nothing is disturbed is the simplest, to which rapid shrinks
	switch most - g.pick("disturbs", most+1) {
	case 0:
		again(rec)
	case 1:
		again(g.log[g.pick("earlier record", len(g.log))])
	case 2:
		if g.epoch > 1 { // a fenced writer took the same ordinal
			fenced := g.log[g.pick("of a fenced writer", len(g.log))]
			fenced.Session, fenced.Epoch, fenced.Ordinal = rec.Session, g.epoch-1, g.last[agent]+1
			again(fenced)
		}
	case 3:
		g.last[agent] += chunk.Ordinal(1 + g.pick("missing", 3))
	case 4:
		g.last[agent]++
		rec.Ordinal = g.last[agent]
		rec.Data = one(g, "malformed", []byte(`{`), []byte(``), []byte(`null`), []byte(`{}`), rec.Data[:len(rec.Data)-1], []byte(`{"type":"file","agentId":"s1"}`),
			bytes.Replace(rec.Data, []byte(`"step":`), []byte(`"step":"x","step":`), 1), slices.Concat([]byte(`{"type":7,`), rec.Data[1:]),
			bytes.Replace(rec.Data, []byte(`"delta":"`), []byte("\"delta\":\"\n"), 1))
		again(rec)
	case 5:
		last := &g.log[len(g.log)-1]
		name := one(g, "missing member", "toolCallId", "toolName", "result", "data", "delta", "content", "arguments", "runId", "subSessionId", "callId", "eventName",
			"error", "usage", "approvalId", "patches", "mode", "url", "removed", "input", "isComplete", "approved", "finishReason")
		last.Data = bytes.Replace(last.Data, []byte(`"`+name+`":`), one(g, "instead", []byte(`"other":`), []byte(`"`+name+`":7,"other":`)), 1)
	case 6:
		last := &g.log[len(g.log)-1]
		last.Data = slices.Concat([]byte("{\n "), bytes.Replace(last.Data[1:], []byte(`"step":`), []byte("\"\\u0073tep\" :\t"), 1))
	}
}

// runMembers adds to a run what it has besides its mode.
func (g *generator) runMembers(run *chunk.RunStarted) {
	if g.rare("same run", 10) && g.run > 1 {
		g.run--
		run.RunID = fmt.Sprintf("r%d", g.run)
	}
	if g.rare("run with a parent", 12) {
		run.Parent = &chunk.Parent{SessionID: "p", CallID: "c"}
	}
	for i := range run.Input {
		in := &run.Input[i]
		if g.rare("metadata", 4) {
			in.Metadata = new(one(g, "metadata of a message", chunk.Value(`{"hidden":true}`), chunk.Value(`{"agui":{"tools":[]},"a":1}`), chunk.Value(`{"a":"b"}`)))
		}
		if g.rare("replaces", 5) {
			in.Extra = []chunk.Member{{Name: "replaces", Value: one(g, "replaced", chunk.Value(`"msg-0"`), chunk.Value(`"x"`), chunk.Value(`1`))}}
		}
		if g.rare("data of a message", 6) {
			in.Data = []chunk.InputData{{Name: "selection", Data: chunk.Value(`{"a":1}`)}}
		}
	}
	if len(run.Input) > 0 && g.rare("two messages", 6) {
		run.Input = append(run.Input, chunk.InputMessage{Content: "more"})
	}
}

func (g *generator) stepStart() chunk.StepStart {
	return chunk.StepStart{StepID: maybe(g, "step id", "w1", "w2", "step")}
}

func (g *generator) stepEnd() chunk.StepEnd {
	end := chunk.StepEnd{
		StepID: maybe(g, "step id", "w1", "w2"), FinishReason: maybe(g, "finish reason", "stop", "length", "tool-calls", "content-filter", "error", "other"),
		Model: maybe(g, "model", "m"),
	}
	if g.pick("usage", 4) > 0 {
		end.Usage = &chunk.Usage{
			InputTokens: one[chunk.Number](g, "input tokens", "10", "0", "1e3", "1.5", "9007199254740993", "-1"), OutputTokens: one[chunk.Number](g, "output tokens", "3", "0"),
			CachedTokens: maybe[chunk.Number](g, "cached tokens", "4", "0"), CacheWriteTokens: maybe[chunk.Number](g, "cache write tokens", "2"),
			ReasoningTokens: maybe[chunk.Number](g, "reasoning tokens", "1"),
		}
	}
	return end
}

// rollBack removes ranges of the records of a session, also of steps that were complete, and of earlier turns.
func (g *generator) rollBack(agent string) {
	last := int(g.last[agent])
	if last == 0 {
		return
	}
	removed := chunk.Truncated{TruncatedAtStep: max(0, g.step-1), AtSequence: int64(g.seq)}
	for range 1 + g.pick("ranges", 3) {
		first := 1 + g.pick("first removed", last)
		if g.rare("late range", 2) {
			first = max(first, last-5)
		}
		removed.Removed = append(removed.Removed, chunk.OrdinalRange{First: int64(first), Last: int64(min(last, first+one(g, "removed", 0, 0, 1, 3, 8)))})
	}
	g.writeAs(agent, removed)
	if g.rare("step again", 2) {
		g.step = max(0, g.step-1)
	}
	if g.pick("resync", 3) > 0 {
		g.writeAs(agent, chunk.StreamResync{CheckpointID: "cp", Reason: one(g, "reason", "rollback", "retry", "branch")})
	}
	if g.rare("finals", 4) {
		g.finals()
	}
}

// finals writes the ends of values of structured data that began before records were removed, or in them.
func (g *generator) finals() {
	for i := range 3 {
		g.write(chunk.Custom{EventName: structured.PieceEvent, Data: chunk.Value(fmt.Sprintf(`{"type":"structured-data","streamId":"d%d-%d","dataType":"t","kind":"final"}`, g.turns, i))})
	}
}

// widePart writes what workers write rarely, as an agent.
func (g *generator) widePart(agent string) {
	switch g.pick("wide part", 14) {
	case 0:
		g.wideText(agent)
	case 1, 2:
		g.wideCall(agent)
	case 3:
		g.attached(agent)
	case 4:
		g.messageEvent(agent)
	case 5, 6:
		g.keptOfMastra(agent)
	case 7:
		g.keptOfKortyx(agent)
	case 8:
		g.wideState(agent)
	case 9:
		g.wideRun(agent)
	case 10:
		g.wideChild(agent)
	case 11:
		g.finishCall(agent)
	case 12:
		g.event(agent)
	case 13:
		if g.rare("many", 60) {
			g.many(agent)
			return
		}
		if g.Crashes && g.rare("rolls back", 2) {
			g.rollBack(agent)
			return
		}
		kind := one(g, "unknown type", "later_type", "zz")
		g.writeAs(agent, chunk.Opaque{Kind: chunk.Type(kind), Raw: chunk.Value(fmt.Sprintf(
			`{"type":%q,"agentId":%q,"agentType":"planner","timestamp":1,"step":%d,"data":{"a":[1]}}`, kind, agent, g.step))})
	}
}

func (g *generator) wideText(agent string) {
	switch g.pick("wide text", 4) {
	case 0:
		g.writeAs(agent, chunk.TextDelta{})
	case 1:
		g.writeAs(agent, chunk.Thinking{Content: one(g, "thought", "", "hm", "hmm"), IsComplete: g.rare("complete thought", 2)})
	case 2:
		g.writeAs(agent, chunk.Thinking{Content: "a"})
		g.writeAs(agent, chunk.TextDelta{Delta: "b"})
		g.writeAs(agent, chunk.Thinking{Content: "c"})
		g.writeAs(agent, chunk.Thinking{Content: one(g, "whole thought", "c", "cd", "x"), IsComplete: true})
	case 3:
		g.writeAs(agent, g.stepStart())
		g.writeAs(agent, chunk.TextDelta{Delta: "in a step"})
		g.writeAs(agent, g.stepEnd())
	}
}

// wideCall writes a record of a call without those that belong to it.
func (g *generator) wideCall(agent string) {
	id, tool, input := g.anyCall(), g.anyTool(), one(g, "input", chunk.Value(`{"q":1}`), chunk.Value(`{}`), chunk.Value(`{"q":2}`))
	var body chunk.Body
	switch g.pick("wide call", 11) {
	case 10:
		g.calls++
		id = fmt.Sprintf("c%d", g.calls)
		g.writeAs(agent, chunk.ToolArgStreamStart{ToolCallID: id, ToolName: tool})
		for _, piece := range one(g, "pieces of an input", []string{`{"q":`, `1}`}, []string{`{ "q" :`, ` 1}`}, []string{`{"q":`}, []string{`{"q":2}`}, nil) {
			g.writeAs(agent, chunk.ToolArgStreamDelta{ToolCallID: id, Delta: piece})
		}
		if g.rare("ends the input", 2) {
			g.writeAs(agent, chunk.ToolArgStreamEnd{ToolCallID: id})
		}
		body = chunk.ToolStart{ToolCallID: id, ToolName: tool, Arguments: input}
	case 0:
		body = chunk.ToolArgStreamStart{ToolCallID: id, ToolName: tool}
	case 1:
		body = chunk.ToolArgStreamDelta{ToolCallID: id, Delta: one(g, "piece of an input", `{"q":`, `1}`, ``, `x`)}
	case 2:
		body = chunk.ToolArgStreamEnd{ToolCallID: id}
	case 3:
		body = chunk.ToolStart{ToolCallID: id, ToolName: tool, Arguments: input}
	case 4:
		body = chunk.ToolEnd{ToolCallID: id, ToolName: tool, Result: g.value.Draw(g.T, "result"), ProviderExecuted: maybe(g, "provider executed", true, false)}
	case 5:
		body = chunk.ToolEnd{ToolCallID: id, ToolName: tool, Error: new(one(g, "failure", "boom", "")), ErrorCode: maybe(g, "error code", "timeout", "client_tool_denied"),
			ProviderExecuted: maybe(g, "provider executed", true, false)}
	case 6:
		body = chunk.ToolOutputError{ToolCallID: id, ToolName: tool, Error: "late"}
	case 7:
		bad := chunk.ToolInputError{ToolCallID: id, ToolName: tool, Error: "bad"}
		if g.rare("partial", 2) {
			bad.PartialInput = new(g.value.Draw(g.T, "partial input"))
		}
		body = bad
	case 8:
		body = chunk.ToolApprovalRequest{ToolCallID: id, ToolName: tool, ApprovalID: "r0::" + id, Input: input, IsAutomatic: maybe(g, "automatic", true, false)}
	case 9:
		body = chunk.ToolApprovalResponse{ToolCallID: id, ToolName: tool, ApprovalID: "r0::" + id, Approved: g.rare("approves", 2), Reason: maybe(g, "reason", "because", ""),
			IsAutomatic: maybe(g, "automatic", true, false)}
	}
	g.writeAs(agent, body)
}

func (g *generator) attached(agent string) {
	switch g.pick("attached", 4) {
	case 0:
		g.writeAs(agent, chunk.File{URL: "data:image/png;base64,AAAA", MediaType: "image/png"})
	case 1:
		g.writeAs(agent, chunk.File{URL: one(g, "url", "https://f/x", "data:text/plain,x"), MediaType: "text/plain", Filename: maybe(g, "filename", "x.txt")})
	case 2:
		g.writeAs(agent, chunk.SourceURL{SourceID: "1", URL: "https://u"})
	case 3:
		g.writeAs(agent, chunk.SourceDocument{SourceID: "2", MediaType: "application/pdf", Title: "t", Filename: maybe(g, "filename", "x.pdf")})
	}
}

// messageEvent writes an event about the message: its metadata, or an output of a call that a later one replaces.
func (g *generator) messageEvent(agent string) {
	switch g.pick("message event", 4) {
	case 0:
		g.writeAs(agent, chunk.Custom{EventName: chunk.MetadataEvent, Data: one(g, "metadata event",
			chunk.Value(`{"messageMetadata":{"a":{"__proto__":1}}}`), chunk.Value(`{"messageMetadata":1}`), chunk.Value(`[]`))})
	case 1:
		g.writeAs(agent, chunk.Custom{EventName: chunk.PreliminaryEvent, Data: one(g, "preliminary event", chunk.Value(`{}`), chunk.Value(`1`), chunk.Value(`{"toolCallId":7}`))})
	default:
		id := g.anyCall()
		if g.pick("begins a call", 3) > 0 {
			g.calls++
			id = fmt.Sprintf("c%d", g.calls)
			g.writeAs(agent, chunk.ToolStart{ToolCallID: id, ToolName: g.anyTool(), Arguments: chunk.Value(`{"q":1}`)})
		}
		for range 1 + g.pick("preliminary outputs", 2) {
			g.writeAs(agent, chunk.Custom{EventName: chunk.PreliminaryEvent, Data: slices.Concat(
				chunk.Value(fmt.Sprintf(`{"type":"tool-output-available","toolCallId":%q,"preliminary":true,"output":`, id)), g.value.Draw(g.T, "preliminary output"), chunk.Value(`}`))})
		}
		if g.rare("ends the call", 2) {
			g.outcome(agent, id, "search")
		}
	}
}

// wideState writes changes of the custom state, also of the whole of it, and structured data with other labels.
func (g *generator) wideState(agent string) {
	v := func() *chunk.Value { return new(g.value.Draw(g.T, "value")) }
	object := new(one(g, "state", chunk.Value(`{"a":1}`), chunk.Value(`{}`), chunk.Value(`{"b":{"c":[1,2]}}`)))
	switch g.pick("wide state", 13) {
	case 12:
		for _, piece := range one(g, "open structured data",
			[]string{`"kind":"append","path":"l","items":[1]`, `"kind":"append","path":"l","items":[{"a":2}]`}, []string{`"kind":"set","path":"0","value":1`},
			[]string{`"kind":"set","path":"a.b","value":1`, `"kind":"text-delta","path":"a.t","delta":"x"`, `"kind":"set","path":"c.2","value":1`}) {
			g.writeAs(agent, chunk.Custom{EventName: structured.PieceEvent, Data: chunk.Value(`{"type":"structured-data","streamId":"o1","dataType":"t",` + piece + `}`)})
		}
		if g.rare("invalidates", 3) {
			g.writeAs(agent, chunk.Custom{EventName: structured.InvalidatedEvent, Data: chunk.Value(`{"streamId":"o1","checkpointId":"cp"}`)})
			g.writeAs(agent, chunk.Custom{EventName: structured.PieceEvent, Data: chunk.Value(`{"type":"structured-data","streamId":"o1","dataType":"t","kind":"set","path":"z","value":1}`)})
		}
	case 10, 11:
		g.list(agent)
	case 8, 9:
		for range 1 + g.pick("patches", 3) {
			g.writeAs(agent, chunk.StatePatch{Patches: g.patch()})
		}
	case 0:
		g.writeAs(agent, chunk.StatePatch{Patches: []chunk.PatchOp{{Op: one(g, "op", "replace", "add"), Path: "", Value: object}}})
	case 1:
		g.writeAs(agent, chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "replace", Path: "", Value: v()}}})
	case 2:
		g.writeAs(agent, chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "replace", Path: "", Value: object}, {Op: "add", Path: "/z", Value: v()}}})
	case 3:
		g.writeAs(agent, chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "copy", From: new("/a"), Path: "/m"}, {Op: "move", From: new("/m"), Path: "/n~1"}}})
	case 4:
		g.writeAs(agent, chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "test", Path: "/a", Value: v()}}})
	case 5:
		g.writeAs(agent, chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/l", Value: new(chunk.Value(`[1]`))}, {Op: "add", Path: "/l/-", Value: v()}}})
	case 6:
		g.writeAs(agent, chunk.Custom{EventName: structured.PieceEvent, Data: one(g, "piece of structured data",
			chunk.Value(`{"type":"structured-data","streamId":"s9","dataType":"t","kind":"set","path":"a.0","value":{},"schemaId":"i","schemaVersion":"1","id":"x","node":"n"}`),
			chunk.Value(`{"type":"structured-data","streamId":"s9","dataType":"t","kind":"final","data":[{"a":"\ud83d"}],"schemaId":"i"}`),
			chunk.Value(`{"type":"structured-data","streamId":"s9","dataType":"u","kind":"text-delta","path":"a","delta":"x"}`),
			chunk.Value(`{"type":"structured-data","streamId":"state:s1","dataType":"t","kind":"final","data":1}`),
			chunk.Value(`{"type":"structured-data","streamId":7}`), chunk.Value(`null`))})
	case 7:
		g.writeAs(agent, chunk.Custom{EventName: structured.InvalidatedEvent, Data: one(g, "invalid structured data",
			chunk.Value(`{"streamId":"s9"}`), chunk.Value(`{"streamId":"s9","checkpointId":"cp"}`), chunk.Value(`{"streamId":"d1-1","checkpointId":"cp"}`), chunk.Value(`{"streamId":"never"}`), chunk.Value(`{"streamId":1}`), chunk.Value(`null`))})
	}
}

// patch returns a change of the custom state. Most are of places that it has, and of those that have no name in other dialects.
func (g *generator) patch() (ops []chunk.PatchOp) {
	for range 1 + one(g, "operations", 0, 0, 0, 1, 2, 20, 70) {
		path := one(g, "path", "/a", "/a/-", "/a/0", "/a/1", "/b", "/b/c", "/b/d", "/l", "/l/-", "/l/0", "/l/0/-", "/x.y", "/7", "/m~1n", "/__proto__", "/b/e/f")
		op := chunk.PatchOp{Op: one(g, "op", "add", "add", "add", "add", "replace", "remove", "copy", "move", "test"), Path: path}
		switch op.Op {
		case "add", "replace", "test":
			op.Value = new(one(g, "value of a place", chunk.Value(`[1,[2]]`), chunk.Value(`{"c":1}`), chunk.Value(`7`), chunk.Value(` "x"`), chunk.Value(`[]`)))
		case "copy", "move":
			op.From = new(one(g, "from", "/a", "/b", "/l", "/b/c", "/a/0"))
		}
		ops = append(ops, op)
	}
	return ops
}

// list writes changes of a list in the custom state, most of which fit it.
func (g *generator) list(agent string) {
	v := func() *chunk.Value {
		return new(one(g, "element", chunk.Value(`1`), chunk.Value(`[2]`), chunk.Value(`{"c":[1]}`)))
	}
	g.writeAs(agent, chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/l", Value: new(chunk.Value(`[1,[2],{"c":[]}]`))}}})
	for range 1 + g.pick("changes of a list", 5) {
		ops := one(g, "change of a list",
			[]chunk.PatchOp{{Op: "add", Path: "/l/-", Value: v()}},
			[]chunk.PatchOp{{Op: "add", Path: "/l/-", Value: v()}, {Op: "add", Path: "/l/-", Value: v()}},
			[]chunk.PatchOp{{Op: "add", Path: "/l/3", Value: v()}},
			[]chunk.PatchOp{{Op: "add", Path: "/l/1/-", Value: v()}},
			[]chunk.PatchOp{{Op: "add", Path: "/l/2/c/-", Value: v()}, {Op: "replace", Path: "/l/2/c/0", Value: v()}},
			[]chunk.PatchOp{{Op: "replace", Path: "/l/0", Value: v()}},
			[]chunk.PatchOp{{Op: "add", Path: "/l/0", Value: v()}},
			[]chunk.PatchOp{{Op: "remove", Path: "/l/0"}},
			[]chunk.PatchOp{{Op: "copy", From: new("/l/0"), Path: "/l/-"}},
			[]chunk.PatchOp{{Op: "add", Path: "/l/-", Value: v()}, {Op: "add", Path: "/k", Value: v()}, {Op: "move", From: new("/k"), Path: "/l/-"}},
			[]chunk.PatchOp{{Op: "add", Path: "/l/1/-", Value: v()}, {Op: "replace", Path: "/l/1", Value: v()}},
		)
		g.writeAs(agent, chunk.StatePatch{Patches: ops})
	}
}

// event writes an event of the application, also with a name or data that not every dialect can have.
func (g *generator) event(agent string) {
	name := one(g, "event of the application", "progress", "a b/é", "__proto__", "7", strings.Repeat("long", 80), "data-x")
	g.writeAs(agent, chunk.Custom{EventName: name, Data: one(g, "data of an event", chunk.Value(`{"__proto__":{"a":1}}`), chunk.Value(`{"a":{"constructor":{"prototype":1}}}`),
		chunk.Value(strings.Repeat(`[`, 30)+strings.Repeat(`]`, 30)), chunk.Value(`null`), g.value.Draw(g.T, "data"))})
}

// many writes more records of a type than writers keep something of.
func (g *generator) many(agent string) {
	kind := g.pick("of which there are many", 5)
	for i := range 300 {
		switch kind {
		case 0:
			g.writeAs(agent, chunk.CheckpointCreated{RunID: "r", CheckpointID: fmt.Sprintf("cp%d", i), StepCount: g.step})
		case 1:
			g.writeAs(agent, chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: fmt.Sprintf("/n%d", i%20), Value: new(chunk.Value(`1`))}}})
		case 2:
			g.writeAs(agent, chunk.Custom{EventName: "progress", Data: chunk.Value(`1`)})
		case 3:
			id := fmt.Sprintf("m%d", i)
			g.writeAs(agent, chunk.ToolStart{ToolCallID: id, ToolName: "search", Arguments: chunk.Value(`{}`)})
			g.writeAs(agent, chunk.ToolEnd{ToolCallID: id, ToolName: "search", Result: chunk.Value(`1`), ProviderExecuted: new(true)})
		case 4:
			g.writeAs(agent, chunk.Output{Output: chunk.Value(`1`)})
		}
	}
}

// wideRun writes what a run says about itself.
func (g *generator) wideRun(agent string) {
	var body chunk.Body
	switch g.pick("wide run", 13) {
	case 12:
		body = chunk.RunInterrupted{RunID: "r0", CheckpointID: maybe(g, "checkpoint", "cp")}
	case 0:
		body = chunk.StreamActive{}
	case 1:
		body = chunk.RunPaused{RunID: "r0", Reason: "waits", PendingToolName: maybe(g, "pending tool", "browser"), PendingToolCallID: maybe(g, "pending call", "q1")}
	case 2:
		body = chunk.Error{Error: one(g, "error", "busy", "dead"), Recoverable: g.pick("recoverable", 3) > 0, Code: maybe(g, "code", "overloaded", "tripwire"),
			ErrorDetail: &chunk.ErrorDetail{Message: "m", Code: maybe(g, "code of a detail", "c"), Category: maybe(g, "category", "model"), Retryable: maybe(g, "retryable", true)}}
	case 3:
		body = chunk.StepCommitted{RunID: "r", StepID: "w1", CheckpointID: "cp"}
	case 4:
		body = chunk.StepDiscarded{RunID: "r", StepID: "w1", Reason: "retry"}
	case 5:
		body = chunk.SuspensionMarker{Kind: "suspended_client_tool", Payload: chunk.Value(`{"toolCallIds":["c1"]}`)}
	case 6:
		body = chunk.StreamResync{CheckpointID: "cp", Reason: "rollback"}
	case 7:
		body = chunk.ExecutorSuperseded{Reason: new("fenced")}
	case 8:
		body = chunk.CheckpointCreated{RunID: "r", CheckpointID: one(g, "checkpoint", "cp", "cp2"), StepCount: g.step}
	case 9:
		body = chunk.RunResumed{RunID: "r0", FromStepCount: 1, Mode: "continue", FromCheckpointID: maybe(g, "from checkpoint", "cp")}
	case 10:
		body = chunk.Output{Output: g.value.Draw(g.T, "output")}
	case 11:
		g.writeAs(agent, chunk.StreamPaused{Reason: maybe(g, "reason", "waits\n")})
		body = chunk.StreamActive{}
	}
	g.writeAs(agent, body)
}

// wideChild writes records of a sub-agent without those that belong to them.
func (g *generator) wideChild(parent string) {
	if !g.SubAgents {
		g.writeAs(parent, chunk.StreamActive{})
		return
	}
	child := one(g, "child", append(slices.Clone(g.children), fmt.Sprintf("k%d", g.calls+1))...)
	if g.rare("no child", 12) {
		child = one(g, "session", Session.ID, parent)
	}
	switch g.pick("wide child", 9) {
	case 8: // the parent waits for another sub-agent after one has ended with a question
		g.writeAs(parent, chunk.SubagentStart{SubAgentType: "x", SubSessionID: child, CallID: g.anyCall()})
		g.wideCall(child)
		if g.rare("asks a user", 2) {
			g.writeAs(child, chunk.ToolApprovalRequest{ToolCallID: g.anyCall(), ToolName: "delete", ApprovalID: "k::x", Input: chunk.Value(`{}`)})
		}
		if g.rare("asks the client", 2) {
			g.writeAs(child, chunk.ToolStart{ToolCallID: g.anyCall(), ToolName: "browser", Arguments: chunk.Value(`{"q":1}`)})
			g.writeAs(child, chunk.StreamPaused{})
			g.writeAs(child, one[chunk.Body](g, "continues", chunk.StreamActive{}, chunk.RunStarted{RunID: "more-" + child, Epoch: int64(g.epoch), Mode: "continue"}))
		}
		if g.pick("ends", 2) > 0 {
			g.writeAs(child, chunk.StreamEnd{StreamID: child})
		}
		if g.pick("another sub-agent", 4) > 0 {
			g.writeAs(parent, chunk.SubagentStart{SubAgentType: "y", SubSessionID: child + "y", CallID: g.anyCall()})
		}
		g.write(chunk.StreamPaused{})
		if g.rare("child waits", 3) {
			g.writeAs(child, chunk.StreamPaused{})
		}
		g.write(chunk.StreamActive{})
	case 0:
		g.writeAs(parent, chunk.SubagentStart{SubAgentType: "x", SubSessionID: child, CallID: g.anyCall()})
	case 1:
		g.writeAs(parent, chunk.SubagentEnd{SubAgentType: "x", SubSessionID: child, CallID: g.anyCall(), Result: one(g, "result", chunk.Value(`"ok"`), chunk.Value(`{"error":"no"}`))})
	case 2:
		g.writeAs(child, chunk.RunStarted{RunID: "run-" + child, Epoch: int64(g.epoch), Mode: "execute", Parent: &chunk.Parent{SessionID: parent, CallID: g.anyCall()}})
	case 3:
		g.writeAs(child, chunk.StreamEnd{StreamID: child})
	case 4:
		g.writeAs(child, chunk.StreamFailed{Error: "child died", ErrorDetail: &chunk.ErrorDetail{Message: "child died", Code: maybe(g, "code", "aborted", "x")}})
	case 5:
		g.writeAs(child, chunk.TextDelta{Delta: "from no parent"})
	case 6:
		g.writeAs(child, chunk.RunInterrupted{RunID: "run-" + child})
	case 7:
		g.writeAs(child, chunk.StreamPaused{})
	}
}

// afterEnd writes records after the end of a run, in any order.
func (g *generator) afterEnd() {
	for range g.pick("after the end", 4) {
		switch g.pick("what is after the end", 9) {
		case 0:
			g.write(chunk.StreamEnd{StreamID: Session.ID})
		case 1:
			g.write(chunk.StreamFailed{Error: "after", ErrorDetail: &chunk.ErrorDetail{Message: "after", Code: maybe(g, "code", "aborted", "session_deleted")}})
		case 2:
			g.write(chunk.RunInterrupted{RunID: "r0", Reason: maybe(g, "reason", "stopped")})
		case 3:
			g.write(chunk.StreamPaused{})
		case 4:
			g.write(chunk.StreamActive{})
		case 5:
			g.write(chunk.TextDelta{Delta: "after the end"})
		case 6:
			g.start(one(g, "mode", "continue", "takeover", "with_message"))
			if g.rare("resumed", 2) {
				g.write(chunk.RunResumed{RunID: "r0", FromStepCount: 1, Mode: "continue"})
			}
			g.write(chunk.TextDelta{Delta: "again"})
		default:
			g.widePart(Session.ID)
		}
	}
}

// keptOfMastra writes chunks of a workflow, of a network, or others of Mastra that a translator keeps as events.
func (g *generator) keptOfMastra(agent string) {
	run := one(g, "run of mastra", "net-1", "k1", "k2", "k3")
	write := func(kind, from, payload string) {
		g.writeAs(agent, chunk.Custom{EventName: "mastra." + kind, Data: chunk.Value(fmt.Sprintf(`{"type":%q,"runId":%q,"from":%q,"payload":%s}`, kind, run, from, payload))})
	}
	switch g.pick("mastra", 9) {
	case 0, 1:
		write("workflow-start", "WORKFLOW", `{"workflowId":"flow"}`)
		for range 1 + g.pick("workflow steps", 2) {
			id := one(g, "workflow step", "w1", "w2")
			g.step++
			g.writeAs(agent, chunk.StepStart{StepID: &id})
			write("workflow-step-start", "WORKFLOW", fmt.Sprintf(`{"stepName":%q,"id":%q,"payload":{"n":1},"status":"running"}`, id, id))
			if g.rare("step output", 2) {
				write("workflow-step-output", "USER", `{"output":{"type":"text-delta","payload":{"text":"x"}}}`)
			}
			switch g.pick("step result", 4) {
			case 0:
				write("workflow-step-suspended", "WORKFLOW", fmt.Sprintf(`{"id":%q,"suspendPayload":{"ask":"?"}}`, id))
				return
			case 1:
			default:
				write("workflow-step-result", "WORKFLOW", fmt.Sprintf(`{"stepName":%q,"id":%q,"status":"success","output":{"n":2}}`, id, id))
			}
			g.writeAs(agent, chunk.StepEnd{StepID: &id})
		}
		if g.rare("workflow output", 2) {
			g.writeAs(agent, chunk.Output{Output: chunk.Value(`{"n":2}`)})
		}
	case 2, 3:
		write("routing-agent-start", "NETWORK", `{"agentId":"router","networkId":"net","runId":"step-1","inputData":{"task":"do"}}`)
		write("routing-agent-end", "NETWORK", `{"task":"do","primitiveId":"writer","runId":"step-1","usage":{"inputTokens":3,"outputTokens":4,"totalTokens":7}}`)
		primitive := one(g, "primitive", "agent", "workflow")
		child := fmt.Sprintf("k%d", g.calls+1) // the next one
		write(primitive+"-execution-start", "NETWORK", fmt.Sprintf(`{"agentId":"writer","args":{"prompt":"write"},"runId":%q}`, child))
		if g.SubAgents && g.rare("network child", 2) {
			g.subAgent(agent, 1)
		} else {
			write(primitive+"-execution-event-text-delta", "NETWORK", `{"type":"text-delta","runId":"step-2","from":"AGENT","payload":{"id":"t1","text":"A po"}}`)
		}
		write(primitive+"-execution-end", "NETWORK", `{"task":"do","result":"A poem.","runId":"step-2"}`)
		if g.rare("network ends", 2) {
			write("network-execution-event-step-finish", "NETWORK", `{"task":"do","result":"A poem.","isComplete":true}`)
			write("network-execution-event-finish", "NETWORK", `{"result":"A poem."}`)
		}
	case 4:
		id := g.anyCall()
		if g.rare("of an open call", 2) {
			g.writeAs(agent, chunk.ToolStart{ToolCallID: id, ToolName: "search", Arguments: chunk.Value(`{"q":1}`)})
		}
		write("tool-call-suspended", "AGENT", one(g, "suspended", fmt.Sprintf(`{"toolCallId":%q,"toolName":"search","suspendPayload":{"a":1}}`, id), `{"toolCallId":1}`, `{}`))
	case 5:
		write("background-task-suspended", "AGENT", one(g, "task", `{"taskId":"t","suspendData":{"a":1}}`, `{"taskId":"t","type":"x","suspendPayload":1,"suspendData":2}`))
	case 6:
		write(one(g, "kept", "object", "response-metadata", "raw", "text-delta", "finish", "data-x", "data x", "is-task-complete", "watch"), "AGENT",
			one(g, "payload", `{}`, `{"type":"finish"}`, `[]`,
				`{"a":{"type":"step-finish","payload":{"output":{"text":"a","steps":[]},"response":{},"metadata":{"request":1,"a":2}}}}`,
				`{"a":[{"type":"step-start","payload":{"messageId":"m","request":{"body":"b"},"inputMessages":[]}}]}`,
				`{"a":{"type":"error","payload":{"error":{"message":"m","stack":"s","causes":[{"prompt":"p","code":1}]}}}}`))
	case 7:
		g.writeAs(agent, chunk.Custom{EventName: "mastra." + one(g, "event", "rest", "x", "unknown"), Data: one(g, "data", chunk.Value(`1`), chunk.Value(`{"type":"y"}`), chunk.Value(`{}`))})
	case 8:
		g.writeAs(agent, chunk.Custom{EventName: "tool-output", Data: one(g, "output of a tool",
			chunk.Value(`{"toolCallId":"c1","toolName":"search","output":{"type":"data-x","data":1}}`), chunk.Value(`{"toolCallId":"c1","toolName":"search","output":{"type":"data-x"}}`),
			chunk.Value(`{"toolCallId":"c1","toolName":"search","output":"text"}`), chunk.Value(`{"toolCallId":"c1"}`))})
	}
}

// keptOfKortyx writes chunks of Kortyx that a translator keeps as events.
func (g *generator) keptOfKortyx(agent string) {
	kind := one(g, "kind of kortyx", "status", "transition", "tool-result", "interrupt", "session", "rest", "x")
	g.writeAs(agent, chunk.Custom{EventName: "kortyx." + kind, Data: one(g, "chunk of kortyx",
		chunk.Value(`{"type":"status","message":"works","node":"n","transitionTo":"next","payload":{"a":1}}`),
		chunk.Value(`{"type":"tool-result","tool":"search","node":"n","content":{"a":1},"message":"m"}`),
		chunk.Value(`{"type":"interrupt","requestId":"q1","resumeToken":"t","workflow":"w","input":{"kind":"text"},"meta":{"a":1},"id":"i"}`),
		chunk.Value(`{"message":1,"requestId":2,"input":[]}`), chunk.Value(`"text"`), g.value.Draw(g.T, "data"))})
}

// finishCall writes a call of the tool with which an agent writes its structured output.
func (g *generator) finishCall(agent string) {
	id := strings.Repeat("f", 1+g.pick("finish", 2))
	g.writeAs(agent, chunk.ToolArgStreamStart{ToolCallID: id, ToolName: "__finish__"})
	g.writeAs(agent, chunk.ToolArgStreamDelta{ToolCallID: id, Delta: "{}"})
	g.writeAs(agent, chunk.ToolArgStreamEnd{ToolCallID: id})
	g.writeAs(agent, chunk.ToolStart{ToolCallID: id, ToolName: "__finish__", Arguments: chunk.Value(`{}`)})
	g.writeAs(agent, chunk.ToolEnd{ToolCallID: id, ToolName: "__finish__", Result: chunk.Value(`null`), ProviderExecuted: new(true)})
}

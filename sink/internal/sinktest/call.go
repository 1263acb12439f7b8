package sinktest

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

var values = []chunk.Value{chunk.Value(`{"canary":1}`), chunk.Value(`"canary"`), chunk.Value(`null`), chunk.Value(`{"error":"canary"}`)}

func (g *generator) tool() {
	if len(g.calls) > 0 && !g.oneIn("another call", 3) {
		g.outcome(g.pick("call", len(g.calls)))
		return
	}
	c := call{id: g.name("c"), tool: of(g, "tool", "search", "search", "browser", "subagent__x", "__finish__")}
	if g.oneIn("again", 6) {
		c.id = "c1"
	}
	g.calls = append(g.calls, c)
	if g.oneIn("streams", 3) {
		g.write(chunk.ToolArgStreamStart{ToolCallID: c.id, ToolName: c.tool}, g.extra()...)
		if g.oneIn("unfinished", 3) {
			return
		}
	}
	extra := g.extra()
	if g.oneIn("by provider", 8) {
		extra = append(extra, chunk.RunBy(true))
	}
	g.write(chunk.ToolStart{ToolCallID: c.id, ToolName: c.tool, Arguments: chunk.Value(`{"q":"canary"}`)}, extra...)
}

// outcome writes an outcome of a call, which may have one.
func (g *generator) outcome(i int) {
	c := g.calls[i]
	if !g.oneIn("twice", 8) {
		g.calls = slices.Delete(g.calls, i, i+1)
	}
	switch g.pick("outcome", 9) {
	case 0:
		g.write(chunk.ToolEnd{ToolCallID: c.id, ToolName: c.tool, Error: new("canary"), ErrorCode: maybe(g, "code", "client_tool_denied", "tool_execution_failed")})
	case 1:
		g.write(chunk.ToolOutputError{ToolCallID: c.id, ToolName: c.tool, Error: "canary"})
	case 2:
		g.write(chunk.ToolInputError{ToolCallID: c.id, ToolName: c.tool, Error: "canary", PartialInput: maybe(g, "partial", values...)})
	case 3:
		g.write(chunk.ToolEnd{ToolCallID: g.name("unknown"), ToolName: c.tool, Result: of(g, "result", values...)})
	default:
		if c.child != "" && !g.oneIn("no end", 4) {
			g.write(chunk.SubagentEnd{SubAgentType: "x", SubSessionID: c.child, CallID: c.id, Result: of(g, "result", values...)})
		}
		g.write(chunk.ToolEnd{ToolCallID: c.id, ToolName: c.tool, Result: of(g, "result", values...), ProviderExecuted: maybe(g, "by", true, false)})
	}
}

func (g *generator) approval() {
	if len(g.calls) == 0 {
		g.calls = append(g.calls, call{id: g.name("q"), tool: "delete"})
	}
	c := g.calls[g.pick("call", len(g.calls))]
	switch g.pick("approval", 6) {
	case 0, 1:
		g.write(chunk.ToolApprovalRequest{
			ToolCallID: c.id, ToolName: c.tool, ApprovalID: "r::" + c.id, Input: chunk.Value(`{"q":"canary"}`), IsAutomatic: maybe(g, "auto", true, false, false),
		}, g.extra()...)
	case 2, 3:
		g.write(chunk.ToolApprovalResponse{
			ToolCallID: c.id, ToolName: c.tool, ApprovalID: "r::" + c.id, Approved: !g.oneIn("denied", 3), Reason: maybe(g, "reason", "canary"), IsAutomatic: maybe(g, "auto", true, false, false),
		})
	case 4:
		g.write(chunk.RunPaused{RunID: g.run, Reason: "waits", PendingToolCallID: &c.id}, g.extra()...)
	case 5:
		payload := chunk.Value(`{"toolCallIds":["` + c.id + `","c2"],"deadline":1760000000001}`)
		g.write(chunk.SuspensionMarker{Kind: "suspended_client_tool", Payload: payload})
	}
}

// subAgent starts a sub-agent for a call.
func (g *generator) subAgent() {
	const most = 6
	if len(g.sessions) >= most {
		g.text()
		return
	}
	c := call{id: g.name("c"), tool: "subagent__x", child: g.name("k")}
	g.calls = append(g.calls, c)
	g.write(chunk.ToolStart{ToolCallID: c.id, ToolName: c.tool, Arguments: chunk.Value(`{}`)})
	if !g.oneIn("no start", 5) {
		g.write(chunk.SubagentStart{SubAgentType: "x", SubSessionID: c.child, CallID: c.id})
	}
	parent := &chunk.Parent{SessionID: g.key.ID, CallID: c.id}
	if g.oneIn("unknown parent", 8) {
		parent = &chunk.Parent{SessionID: "lost", CallID: c.id}
	}
	g.session = g.add(g.key.Child(c.child), parent)
	g.start("execute")
}

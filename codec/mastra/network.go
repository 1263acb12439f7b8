package mastra

import (
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/subjects"
)

// A network is an agent that routes its task to other agents, workflows and tools, one after another. Its chunks have more content than those of the log, and are
// kept in addition to them, except for the texts and for the chunks of the agents and workflows, which are translated like those of sub-agents.

const networkSuspended = "network_suspended"

// translateNetwork translates a chunk of a network. It reports whether m is one that is translated, and whether it has the members for that.
func (t *Translator) translateNetwork(a *agent, m message) (known, understood bool) {
	p := m.payload
	switch kind := m.kind; kind {
	case "routing-agent-text-start":
	case "routing-agent-text-delta":
		return true, t.text(a, m)
	case "routing-agent-start":
		t.passThrough(a, m)
		a.step++
		t.emit(a, chunk.StepStart{})
	case "routing-agent-end":
		t.passThrough(a, m)
		reason := "tool-calls"
		if next, _ := p.text("primitiveType"); next == "none" {
			reason = "stop"
		}
		t.emit(a, chunk.StepEnd{Usage: dialect.UsageOf(p["usage"]), FinishReason: &reason})
	case "routing-agent-abort":
		a.ending = finished
		t.passThrough(a, m)
	case "agent-execution-start", "workflow-execution-start":
		t.passThrough(a, m)
		run, _ := p.text("runId")
		t.beginExecution(a, run, p.or("agentId", p.or("name", p.or("workflowId", ""))))
	case "agent-execution-end", "workflow-execution-end":
		t.endExecution(a, p)
		t.passThrough(a, m)
	case "agent-execution-abort", "workflow-execution-abort":
		if c := a.execution(""); c != nil {
			t.emit(c, chunk.RunInterrupted{RunID: c.run})
			t.endExecution(a, p)
		}
		t.passThrough(a, m)
	case "tool-execution-start":
		t.passThrough(a, m)
		args := p.object("args")
		if id, ok := args.text("toolCallId"); ok {
			t.nameCall(a, id, args)
			t.emitToolStart(a, id, args["args"], args)
		}
	case "tool-execution-end":
		t.passThrough(a, m)
		if id, ok := p.text("toolCallId"); ok {
			c := t.nameCall(a, id, p)
			t.endCall(a, id, p, chunk.ToolEnd{ToolCallID: id, ToolName: c.name, Result: p["result"], ProviderExecuted: &serverSide})
		}
	case "tool-execution-approval", "agent-execution-approval":
		t.passThrough(a, m)
		t.askNetwork(a, p)
	case "tool-execution-suspended", "agent-execution-suspended", "workflow-execution-suspended":
		t.passThrough(a, m)
		a.ending, a.waitFor = waits, networkSuspended
		t.emit(a, chunk.RunPaused{RunID: a.run, Reason: a.waitFor, PendingToolName: p.maybe("toolName"), PendingToolCallID: p.maybe("toolCallId")})
	case "network-object-result":
		t.passThrough(a, m)
		t.output(a, p["object"])
	case "network-execution-event-finish":
		t.endExecution(a, nil)
		t.passThrough(a, m)
		a.ending, a.over = finished, true
	default:
		if strings.HasPrefix(kind, "agent-execution-event-") || strings.HasPrefix(kind, "workflow-execution-event-") {
			return true, t.executionEvent(a, m)
		}
		return false, false
	}
	return true, true
}

// nameCall returns the call with an id. It has the name of the tool in p.
func (t *Translator) nameCall(a *agent, id string, p object) *call {
	c := a.call(id)
	c.name = p.or("toolName", c.name)
	return c
}

// askNetwork asks the user about a call. An agent of the network that waits has asked already.
func (t *Translator) askNetwork(a *agent, p object) {
	a.ending, a.waitFor = waits, networkSuspended
	id, known := p.text("toolCallId")
	if c := a.execution(""); !known || c != nil && c.ending == waits {
		return
	}
	c := t.nameCall(a, id, p)
	if c.name == "" {
		return
	}
	t.emit(a, chunk.ToolApprovalRequest{ToolCallID: id, ToolName: c.name, ApprovalID: a.approval(id), Input: arguments(p["args"])})
}

// execution returns the agent or workflow of the network with a run, or the one that runs, nil for none.
func (a *agent) execution(run string) *agent {
	for _, c := range slices.Backward(a.children) {
		if c.executes && (run == "" || c.session == run) {
			return c
		}
	}
	return nil
}

// beginExecution starts an agent or workflow of the network. It returns nil if the run cannot be that of a sub-agent. A network runs one at a time, and one that was
// suspended is another run when it continues.
func (t *Translator) beginExecution(a *agent, run, name string) *agent {
	if c := a.execution(run); run != "" && c != nil {
		return c
	}
	if run == a.run {
		return nil
	}
	c := t.newChild(a, run, name, run)
	if c == nil {
		return nil
	}
	for other := a.execution(""); other != nil; other = a.execution("") {
		t.concludeExecution(other)
	}
	t.addChild(a, c)
	c.executes = true
	return c
}

// endExecution ends the agent or workflow that runs; p has its result.
func (t *Translator) endExecution(a *agent, p object) {
	run, _ := p.text("runId")
	c := a.execution(run)
	if c == nil {
		c = a.execution("")
	}
	if c == nil {
		return
	}
	if result, ok := p.text("result"); ok && c.output == nil && len(c.text) == 0 {
		c.remember(result)
	}
	t.concludeExecution(c)
}

func (t *Translator) concludeExecution(c *agent) {
	if c.ending == interrupted || c.ending == waits {
		c.ending = finished
	}
	t.conclude(c)
}

// executionEvent translates a chunk of the agent or workflow that runs.
func (t *Translator) executionEvent(a *agent, m message) bool {
	inner := m.payload
	kind, _ := inner.text("type")
	if data, ok := inner["data"]; ok && strings.HasPrefix(kind, "data-") {
		t.emit(a, chunk.Custom{EventName: strings.TrimPrefix(kind, "data-"), Data: data})
		return true
	}
	run, _ := inner.text("runId")
	c := a.execution(run)
	if c == nil {
		c = a.execution("")
	}
	if c == nil && kind != "" {
		first, _, _ := strings.Cut(m.kind, "-")
		c = t.beginExecution(a, run, first)
	}
	if c == nil || kind == "" {
		return false
	}
	t.nested(c, m.object["payload"])
	return true
}

// nested translates a chunk of a sub-agent.
func (t *Translator) nested(c *agent, whole chunk.Value) {
	t.resume(c)
	t.handleChunk(c, whole)
	if c.over && c.ending != waits {
		t.conclude(c)
	}
}

// newChild returns a sub-agent of a, nil if the run is not a valid session id, or that of a itself or of an agent above it.
func (t *Translator) newChild(a *agent, run, name, callID string) *agent {
	if subjects.CheckID("session", run) != nil {
		return nil
	}
	for up := a; up != nil; up = up.parent {
		if up.session == run {
			return nil
		}
	}
	begin := chunk.SubagentStart{SubAgentType: name, SubSessionID: run, CallID: callID}
	if (chunk.Chunk{AgentID: a.session, AgentType: a.kind, Step: a.step, Body: begin}).Validate() != nil {
		return nil
	}
	return &agent{session: run, kind: name, run: run, parent: a, callID: callID}
}

// addChild writes the start of a sub-agent.
func (t *Translator) addChild(a, c *agent) {
	a.children = append(a.children, c)
	t.emit(a, chunk.SubagentStart{SubAgentType: c.kind, SubSessionID: c.session, CallID: c.callID})
}

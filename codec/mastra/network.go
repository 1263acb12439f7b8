package mastra

import (
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
)

// A network is an agent that routes its task to other agents, workflows and tools, one after another. Its chunks have more content than those of the log, and are
// kept in addition to them, except for the texts and for the chunks of the agents and workflows, which are translated like those of sub-agents.

const networkSuspended = "network_suspended"

// translateNetwork translates a chunk of a network. It reports whether m is one that is translated, and whether it has the members for that.
func (t *translator) translateNetwork(a *agent, m message) (known, understood bool) {
	p := m.payload
	switch kind := m.kind; kind {
	case "routing-agent-text-start":
	case "routing-agent-text-delta":
		return true, t.text(a, m)
	case "routing-agent-start":
		t.passThrough(a, m)
		a.NextStep(nil)
	case "routing-agent-end":
		t.passThrough(a, m)
		reason := "tool-calls"
		if next, _ := p.Text("primitiveType"); next == "none" {
			reason = "stop"
		}
		a.Emit(chunk.StepEnd{Usage: dialect.UsageOf(p.Peek("usage")), FinishReason: &reason})
	case "routing-agent-abort":
		a.ending = finished
		t.passThrough(a, m)
	case "agent-execution-start", "workflow-execution-start":
		t.passThrough(a, m)
		run, _ := p.Text("runId")
		t.beginExecution(a, run, p.Or("agentId", p.Or("name", p.Or("workflowId", ""))))
	case "agent-execution-end", "workflow-execution-end":
		t.endExecution(a, p)
		t.passThrough(a, m)
	case "agent-execution-abort", "workflow-execution-abort":
		if c := a.execution(""); c != nil {
			c.Emit(chunk.RunInterrupted{RunID: c.run})
			t.endExecution(a, p)
		}
		t.passThrough(a, m)
	case "tool-execution-start":
		t.passThrough(a, m)
		args := p.Object("args")
		if id, ok := args.Text("toolCallId"); ok {
			t.nameCall(a, id, args)
			t.emitToolStart(a, id, args.Peek("args"), args)
		}
	case "tool-execution-end":
		t.passThrough(a, m)
		if id, ok := p.Text("toolCallId"); ok {
			c := t.nameCall(a, id, p)
			t.endCall(a, id, p, chunk.ToolEnd{ToolCallID: id, ToolName: c.name, Result: p.Peek("result"), ProviderExecuted: &serverSide})
		}
	case "tool-execution-approval", "agent-execution-approval":
		t.passThrough(a, m)
		t.askNetwork(a, p)
	case "tool-execution-suspended", "agent-execution-suspended", "workflow-execution-suspended":
		t.passThrough(a, m)
		a.ending, a.waitFor = waits, networkSuspended
		a.Emit(chunk.RunPaused{RunID: a.run, Reason: a.waitFor, PendingToolName: p.Maybe("toolName"), PendingToolCallID: p.Maybe("toolCallId")})
	case "network-object-result":
		t.passThrough(a, m)
		t.output(a, p.Peek("object"))
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
func (t *translator) nameCall(a *agent, id string, p *dialect.Object) *call {
	c := a.call(id)
	c.name = p.Or("toolName", c.name)
	return c
}

// askNetwork asks the user about a call. An agent of the network that waits has asked already.
func (t *translator) askNetwork(a *agent, p *dialect.Object) {
	a.ending, a.waitFor = waits, networkSuspended
	id, known := p.Text("toolCallId")
	if c := a.execution(""); !known || c != nil && c.ending == waits {
		return
	}
	c := t.nameCall(a, id, p)
	if c.name == "" {
		return
	}
	a.Emit(chunk.ToolApprovalRequest{ToolCallID: id, ToolName: c.name, ApprovalID: a.approval(id), Input: arguments(p.Peek("args"))})
}

// execution returns the agent or workflow of the network with a run, or the one that runs, nil for none.
func (a *agent) execution(run string) *agent {
	for _, c := range slices.Backward(a.children) {
		if c.executes && (run == "" || c.Session == run) {
			return c
		}
	}
	return nil
}

// beginExecution starts an agent or workflow of the network. It returns nil if the run cannot be that of a sub-agent. A network runs one at a time, and one that was
// suspended is another run when it continues.
func (t *translator) beginExecution(a *agent, run, name string) *agent {
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
		t.concludeExecution(other, nil)
	}
	t.addChild(a, c)
	c.executes = true
	return c
}

// endExecution ends the agent or workflow that runs; p has its result.
func (t *translator) endExecution(a *agent, p *dialect.Object) {
	run, _ := p.Text("runId")
	c := a.execution(run)
	if c == nil {
		c = a.execution("")
	}
	if c == nil {
		return
	}
	var result chunk.Value
	if text := p.Maybe("result"); text != nil {
		result = dialect.Quote(*text)
	}
	t.concludeExecution(c, result)
}

func (t *translator) concludeExecution(c *agent, result chunk.Value) {
	if c.ending == interrupted || c.ending == waits {
		c.ending = finished
	}
	t.conclude(c, result)
}

// executionEvent translates a chunk of the agent or workflow that runs.
func (t *translator) executionEvent(a *agent, m message) bool {
	if a.data(m.payload) {
		return true
	}
	kind, run := m.payload.Or("type", ""), m.payload.Or("runId", "")
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
	t.nested(c, m.payload)
	return true
}

// nested translates a chunk of a sub-agent.
func (t *translator) nested(c *agent, whole *dialect.Object) {
	t.resume(c)
	t.handleChunk(c, whole)
	if c.over && c.ending != waits {
		t.conclude(c, nil)
	}
}

// newChild returns a sub-agent of a, nil if the log cannot have it.
func (t *translator) newChild(a *agent, run, name, callID string) *agent {
	c, valid := a.Child(run, name, callID)
	if !valid {
		return nil
	}
	return &agent{Agent: c, run: run, above: a}
}

// addChild writes the start of a sub-agent.
func (t *translator) addChild(a, c *agent) {
	a.children = append(a.children, c)
	c.Begin()
}

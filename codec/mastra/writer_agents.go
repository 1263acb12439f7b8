package mastra

import (
	"bytes"

	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/turn"
)

// maxLevelsOfAgents limits how deep the chunks of sub-agents are wrapped: those below are not shown.
const maxLevelsOfAgents = 32

// parentOf returns the agent that the first record of a sub-agent names as its parent, nil if it is not shown.
func (p *printer) parentOf(it *turn.Item) *speaker {
	id := it.Text("parent", "sessionId")
	if id == p.turn.Session().ID {
		return p.own
	}
	if a := p.turn.Agent(id); a != nil && p.of(a).parent != nil {
		return p.of(a)
	}
	return nil
}

// agentRun announces a sub-agent whose start is hidden or missing, by the first record of its own.
func (p *printer) agentRun(e *turn.Event, sp *speaker) {
	it := e.Item
	sp.ended = false
	if sp.parent == nil && !e.Quiet {
		p.announceAgent(it, p.parentOf(it), sp, it.Text("parent", "callId"), it.Text("agentType"))
		if sp.parent != nil && !sp.agent.Running {
			p.turn.Adopt(sp.agent, sp.parent.agent)
		}
	}
}

// announceAgent writes the start of a sub-agent, once for each time that it is called.
func (p *printer) announceAgent(it *turn.Item, parent, sp *speaker, callID, kind string) {
	if parent == nil || sp.parent != nil && !sp.ended {
		return
	}
	levels := 1
	for up := parent; up != nil; up = up.parent {
		if levels++; up == sp || levels > maxLevelsOfAgents {
			return // a log that contradicts itself, or one whose chunks would grow with each level
		}
	}
	sp.parent, sp.callID, sp.kind, sp.ended = parent, callID, kind, false
	if c := p.turn.OpenCall(turn.CallKey{Agent: parent.agent.Session, ID: callID}); c != nil {
		c.Delegate(it)
		sp.workflow = bytes.HasPrefix(c.Name, []byte(workflowTool))
	}
	if parent.executing == sp.agent.Session {
		sp.event, sp.workflow = parent.runs, parent.runs == eventOfWorkflow
	}
	p.ensureStart()
	if !sp.workflow {
		p.start(sp)
	}
}

// agentEnds writes the end of a sub-agent, once: its own end and the record of its parent both announce it. An error is written unless it was before.
func (p *printer) agentEnds(e *turn.Event, sp *speaker) {
	it, reason, closes := e.Item, sp.reason(), e.Kind == turn.AgentClose
	if sp.parent == nil || closes && sp.parent != p.of(it.By) {
		return
	}
	if e.Kind == turn.AgentFail || closes && it.Get("result", "error") != nil {
		reason = dialect.ReasonError
	}
	if !sp.ended {
		if e.Kind == turn.AgentFail {
			p.failure(it, sp, it.Get("errorDetail", "code"))
		}
		p.conclude(sp, reason)
		p.turn.Withdraw(sp.agent)
		sp.ended, closes = true, true
	}
	if closes {
		sp.work = nil
	}
}

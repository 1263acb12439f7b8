package aisdk

import (
	"github.com/tailrace/tailrace/chunk"
)

// subAgent is the speaker of a session below that of the message.
func (m *Message) subAgent(session string) *speaker {
	if sp := m.agents[session]; sp != nil {
		return sp
	}
	if m.agents == nil {
		m.agents = make(map[string]*speaker)
	}
	sp := &speaker{agent: session}
	m.agents[session] = sp
	m.order = append(m.order, sp)
	return sp
}

// told reports whether a chunk of a sub-agent is told as if it were the message's
// own agent's. One that is not may be told as a notice.
func (m *Message) told(it *item) bool {
	switch b := it.c.Body.(type) {
	case chunk.Custom, chunk.SubagentStart, chunk.SubagentEnd, chunk.Error:
		return true
	case chunk.ToolApprovalRequest:
		if b.IsAutomatic == nil || !*b.IsAutomatic {
			return true
		}
	case chunk.ToolStart:
		if m.runsInClient(it, b.ToolName) {
			return true
		}
	case chunk.ToolEnd:
		if m.knows(it.sp, b.ToolCallID) {
			return true
		}
	case chunk.ToolOutputError:
		if m.knows(it.sp, b.ToolCallID) {
			return true
		}
	case chunk.ToolApprovalResponse:
		return m.knows(it.sp, b.ToolCallID)
	case chunk.SuspensionMarker, chunk.RunInterrupted, chunk.RunPaused, chunk.RunResumed, chunk.CheckpointCreated,
		chunk.StepCommitted, chunk.StepDiscarded, chunk.StreamResync, chunk.ExecutorSuperseded:
		// How the run of a sub-agent stands is its own affair.
		m.close(it.sp)
		return false
	}
	if m.opt.SubAgents == Data && m.replay == nil {
		m.childChunk(it)
	}
	return m.opt.SubAgents == Inline
}

func (m *Message) knows(sp *speaker, id string) bool { return m.calls[callKey{sp.agent, id}] != nil }

// childChunk tells a chunk of a sub-agent as it is.
func (m *Message) childChunk(it *item) {
	if it.obj.is("toolName", finishTool) {
		return
	}
	m.open("data-subagent-chunk")
	m.nest("data")
	m.str("subSessionId", it.sp.agent)
	m.guarded("chunk", it.line)
	m.endNotice()
}

func (m *Message) subagentStart(it *item, b chunk.SubagentStart) {
	m.close(it.sp)
	if it.sp.own() {
		if _, told := m.children[b.SubSessionID]; told {
			return
		}
		if m.children == nil {
			m.children = make(map[string]chunk.Ordinal)
		}
		m.children[b.SubSessionID] = it.rec.Ordinal
		m.speak(it)
	}
	m.delegation(it, "subagent-start", b.CallID, "subAgentType", "subSessionId", "callId")
}

func (m *Message) subagentEnd(it *item, b chunk.SubagentEnd) {
	if it.sp.own() {
		if _, known := m.children[b.SubSessionID]; !known {
			m.speak(it)
		}
		delete(m.children, b.SubSessionID)
	}
	m.delegation(it, "subagent-end", b.CallID, "subAgentType", "subSessionId", "callId", "result")
}

// delegation is a notice of a sub-agent under the id of its call. The call's
// tool part stays in the message and holds the same result.
func (m *Message) delegation(it *item, name, callID string, members ...string) {
	id := appendEscaped(nil, callID)
	if c := m.calls[callKey{it.sp.agent, callID}]; c != nil {
		id = c.shown
	}
	m.beginNotice(it, name, id)
	for _, n := range members {
		m.guarded(n, it.obj.get(n))
	}
	m.endNotice()
}

// childError tells an error of a sub-agent. It does not end the answer.
func (m *Message) childError(it *item, detail *chunk.ErrorDetail) {
	if m.replay != nil {
		return
	}
	m.beginNotice(it, "subagent-error", nil)
	m.errorMembers(it, detail)
	if v := it.obj.get("recoverable"); v != nil {
		m.value("recoverable", v)
	}
	m.endNotice()
}

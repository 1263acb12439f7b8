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
	switch it.rec.Type {
	case chunk.TypeCustom, chunk.TypeSubagentStart, chunk.TypeSubagentEnd, chunk.TypeError:
		return true
	case chunk.TypeToolApprovalRequest:
		if !it.is("isAutomatic") {
			return true
		}
	case chunk.TypeToolStart:
		if m.runsInClient(it, it.Text("toolName")) {
			return true
		}
	case chunk.TypeToolEnd, chunk.TypeToolOutputError:
		if m.known(it) != nil {
			return true
		}
	case chunk.TypeToolApprovalResponse:
		return m.known(it) != nil
	case chunk.TypeSuspensionMarker, chunk.TypeRunInterrupted, chunk.TypeRunPaused, chunk.TypeRunResumed, chunk.TypeCheckpointCreated,
		chunk.TypeStepCommitted, chunk.TypeStepDiscarded, chunk.TypeStreamResync, chunk.TypeExecutorSuperseded:
		// How the run of a sub-agent stands is its own affair.
		m.close(it.sp)
		return false
	}
	if m.opt.SubAgents == Data && m.replay == nil {
		m.childChunk(it)
	}
	return m.opt.SubAgents == Inline
}

// childChunk tells a chunk of a sub-agent as it is.
func (m *Message) childChunk(it *item) {
	if it.Text("toolName") == finishTool {
		return
	}
	line := it.JSON()
	if it.kind != noBlock {
		line = it.rec.Data
	}
	m.open("data-subagent-chunk")
	m.nest("data")
	m.str("subSessionId", it.sp.agent)
	m.guarded("chunk", line)
	m.endNotice()
}

func (m *Message) subagentStart(it *item) {
	m.close(it.sp)
	if it.sp.own() {
		session := it.Text("subSessionId")
		if _, told := m.children[session]; told {
			return
		}
		if m.children == nil {
			m.children = make(map[string]chunk.Ordinal)
		}
		m.children[session] = it.rec.Ordinal
		m.speak(it)
	}
	m.delegation(it, "subagent-start", "subAgentType", "subSessionId", "callId")
}

func (m *Message) subagentEnd(it *item) {
	if it.sp.own() {
		session := it.Text("subSessionId")
		if _, known := m.children[session]; !known {
			m.speak(it)
		}
		delete(m.children, session)
	}
	m.delegation(it, "subagent-end", "subAgentType", "subSessionId", "callId", "result")
}

// delegation is a notice of a sub-agent under the id of its call. The call's
// tool part stays in the message and holds the same result.
func (m *Message) delegation(it *item, name string, members ...string) {
	callID := it.Text("callId")
	id := appendEscaped(nil, callID)
	if c := m.calls[callKey{it.sp.agent, callID}]; c != nil {
		id = c.shown
	}
	m.beginNotice(it, name, id)
	for _, n := range members {
		m.guarded(n, it.Get(n))
	}
	m.endNotice()
}

// childError tells an error of a sub-agent. It does not end the answer.
func (m *Message) childError(it *item) {
	if m.replay != nil {
		return
	}
	m.beginNotice(it, "subagent-error", nil)
	m.errorMembers(it)
	m.pass(it, "recoverable")
	m.endNotice()
}

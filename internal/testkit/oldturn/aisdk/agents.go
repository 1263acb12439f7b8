package aisdk

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/dialect"
)

// subAgent returns the state of a sub-agent, by session.
func (m *MessageWriter) subAgent(session string) *agentState {
	if sp := m.agents[session]; sp != nil {
		return sp
	}
	if m.agents == nil {
		m.agents = make(map[string]*agentState)
	}
	sp := &agentState{agent: session}
	m.agents[session] = sp
	m.order = append(m.order, sp)
	return sp
}

// isShown reports whether a chunk of a sub-agent is written like one of the message's own agent. Other chunks may be written as notices.
func (m *MessageWriter) isShown(it *item) bool {
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
		// The state of a sub-agent's run is not part of the message.
		m.close(it.sp)
		return false
	}
	if m.opt.SubAgents == Data && m.replay == nil {
		m.childChunk(it)
	}
	return m.opt.SubAgents == Inline
}

// childChunk writes a chunk of a sub-agent unchanged, as a notice.
func (m *MessageWriter) childChunk(it *item) {
	if it.Text("toolName") == dialect.FinishTool {
		return
	}
	line := it.JSON()
	if it.kind != dialect.NoBlock {
		line = it.rec.Data
	}
	m.open("data-subagent-chunk")
	m.json.Nest("data")
	m.json.String("subSessionId", it.sp.agent)
	m.sanitized("chunk", line)
	m.endNotice()
}

func (m *MessageWriter) subagentStart(it *item) {
	m.close(it.sp)
	if it.sp.own() {
		session := it.Text("subSessionId")
		if _, known := m.children[session]; known {
			return
		}
		if m.children == nil {
			m.children = make(map[string]chunk.Ordinal)
		}
		m.children[session] = it.rec.Ordinal
		m.beginPart(it)
	}
	m.delegation(it, "subagent-start", "subAgentType", "subSessionId", "callId")
}

func (m *MessageWriter) subagentEnd(it *item) {
	if it.sp.own() {
		session := it.Text("subSessionId")
		if _, known := m.children[session]; !known {
			m.beginPart(it)
		}
		delete(m.children, session)
	}
	m.delegation(it, "subagent-end", "subAgentType", "subSessionId", "callId", "result")
}

// delegation writes a notice of a sub-agent under the id of its call. The call's tool part stays in the message and has the same result.
func (m *MessageWriter) delegation(it *item, name string, members ...string) {
	callID := it.Text("callId")
	m.beginNotice(it, name, rawjson.AppendEscaped(nil, m.shownCallID(callKey{it.sp.agent, callID})))
	for _, n := range members {
		m.sanitized(n, it.Get(n))
	}
	m.endNotice()
}

// childError writes an error of a sub-agent. It does not end the answer.
func (m *MessageWriter) childError(it *item) {
	if m.replay != nil {
		return
	}
	m.beginNotice(it, "subagent-error", nil)
	m.errorMembers(it)
	m.pass(it, "recoverable")
	m.endNotice()
}

package aisdk

import (
	"bytes"

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
	if string(it.obj.get("toolName")) == `"`+finishTool+`"` {
		return
	}
	m.open("data-subagent-chunk")
	m.dst = append(m.dst, `,"data":{"subSessionId":"`...)
	m.dst = append(m.dst, it.sp.agent...)
	m.dst = append(m.dst, `","chunk":`...)
	m.dst = appendGuarded(m.dst, oneLine(it.rec.Data))
	m.endNotice()
}

// oneLine is JSON without the line breaks that would end a frame.
func oneLine(data []byte) []byte {
	if bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0 {
		return data
	}
	c, err := chunk.Decode(data)
	if err != nil {
		return null
	}
	line, err := c.AppendJSON(nil)
	if err != nil {
		return null
	}
	return line
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
		m.dst = append(appendComma(m.dst), '"')
		m.dst = append(m.dst, n...)
		m.dst = append(m.dst, '"', ':')
		m.dst = appendGuarded(m.dst, it.obj.get(n))
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

package mastra

import "strings"

// maxLevelsOfAgents limits how deep the chunks of sub-agents are wrapped: those below are not shown.
const maxLevelsOfAgents = 32

// subAgent returns the state of a sub-agent, by session.
func (w *Writer) subAgent(session string) *speaker {
	if sp := w.agents[session]; sp != nil {
		return sp
	}
	if w.agents == nil {
		w.agents = make(map[string]*speaker)
	}
	sp := &speaker{session: session, run: escaped(session)}
	w.agents[session] = sp
	return sp
}

// parentOf returns the agent that the first record of a sub-agent names as its parent, nil if it is not shown.
func (w *Writer) parentOf(it *item) *speaker {
	id := it.Text("parent", "sessionId")
	if id == w.session.ID {
		return &w.own
	}
	if sp := w.agents[id]; sp != nil && sp.parent != nil {
		return sp
	}
	return nil
}

func (w *Writer) subagentStart(it *item) {
	w.close(it.sp)
	session := it.Text("subSessionId")
	if session == w.session.ID {
		return
	}
	w.announceAgent(it.sp, w.subAgent(session), it.Text("callId"), it.Text("subAgentType"))
}

// announceAgent writes the start of a sub-agent, once for each time that it is called.
func (w *Writer) announceAgent(parent, sp *speaker, callID, kind string) {
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
	parent.children++
	if c := parent.calls[callID]; c != nil {
		c.delegated = true
		sp.workflow = strings.HasPrefix(c.name, workflowTool)
	}
	if parent.executing == sp.session {
		sp.event, sp.workflow = parent.runs, parent.runs == workflowEvent
	}
	w.ensureStart()
	if !sp.workflow {
		w.start(sp)
	}
}

func (w *Writer) subagentEnd(it *item) {
	session := it.Text("subSessionId")
	if session == w.session.ID {
		return
	}
	sp := w.subAgent(session)
	if sp.parent == nil {
		w.announceAgent(it.sp, sp, it.Text("callId"), it.Text("subAgentType"))
	}
	if sp.parent == it.sp {
		reason := sp.reason()
		if it.Get("result", "error") != nil {
			reason = reasonError
		}
		w.finishAgent(sp, reason)
	}
}

// finishAgent writes the end of a sub-agent, once. Its own end and the record of its parent both announce it.
func (w *Writer) finishAgent(sp *speaker, reason string) {
	if w.closed || sp.parent == nil || sp.ended {
		return
	}
	w.flushStep(sp)
	w.finishStep(sp, reason, usageTotal{})
	w.close(sp)
	w.finishAs(sp, reason)
	sp.ended = true
	sp.parent.children--
	sp.release()
}

// release frees the state of a sub-agent that has ended: most write nothing more, and a turn may have thousands of them.
func (sp *speaker) release() {
	sp.calls, sp.completed, sp.done, sp.openCalls, sp.steps, sp.thought, sp.output, sp.blockAt = nil, nil, nil, 0, nil, nil, nil, nil
	sp.hidden = nil
	sp.blocks, sp.outputAt, sp.failureAt, sp.failure = 0, 0, 0, ""
}

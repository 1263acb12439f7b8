package aisdk

import (
	"bytes"
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// modeExecute is the mode of a run that opens a turn; a run of another mode continues the open turn, unless it has input.
const modeExecute = "execute"

// isResumedBy reports whether the record resumes an answer that waits or was stopped. An answer may wait for users because a sub-agent asked them.
func (m *MessageWriter) isResumedBy(it *item) bool {
	started := it.rec.Type == chunk.TypeRunStarted
	if !it.sp.own() {
		return started && m.outcome == paused
	}
	resumes := started && !m.opensTurn(it)
	switch it.rec.Type {
	case chunk.TypeStreamActive:
		resumes = m.outcome == paused
	case chunk.TypeRunResumed:
		resumes = m.outcome == interrupted
	}
	if resumes {
		m.outcome, m.expected = running, false
	}
	return resumes
}

// opensTurn reports whether a run begins another message.
func (m *MessageWriter) opensTurn(it *item) bool {
	return m.turn && m.meta.RunID != it.Text("runId") && (it.Text("mode") == modeExecute || !isEmpty(it.Get("input")))
}

// isEmpty reports whether an array has no elements.
func isEmpty(array chunk.Value) bool { return len(bytes.TrimSpace(array[1:len(array)-1])) == 0 }

// control handles a control record. A control record of a sub-agent ends only the output of the sub-agent.
func (m *MessageWriter) control(it *item) {
	if !it.sp.own() {
		m.childControl(it)
		return
	}
	switch it.rec.Type {
	case chunk.TypeRunStarted:
		m.runStarted(it)
	case chunk.TypeStreamPaused:
		m.streamPaused()
	case chunk.TypeStreamEnd:
		m.streamEnd()
	case chunk.TypeStreamFailed:
		m.streamFailed(it)
	case chunk.TypeTruncated:
		m.truncated(it)
	}
}

func (m *MessageWriter) runStarted(it *item) {
	if m.opensTurn(it) {
		if !m.ended {
			m.start()
			m.conclude(reasonOther)
			m.bare() // the record is the next message's
		}
		m.over = true
		return
	}
	m.closeAll()
	m.finishStep()
	m.steps.begun, m.reason = false, ""
	m.meta.RunID, m.meta.AgentType = it.Text("runId"), it.Text("agentType")
}

// streamPaused ends the response if the answer waits for users: the client sends nothing while it reads a response. An answer that waits for sub-agents
// only is resumed without the client, which would not receive the rest after an end of the response.
func (m *MessageWriter) streamPaused() {
	if m.outcome != running {
		return
	}
	m.outcome = paused
	if m.asks() || !m.delegates() {
		m.stop(reasonToolCalls)
		return
	}
	m.closeAll()
	m.finishStep()
}

// asks reports whether a call waits for the client.
func (m *MessageWriter) asks() bool {
	return slices.ContainsFunc(m.openCalls, func(c *call) bool { return !c.completed && (c.client && c.sent || c.approvalID != nil) })
}

// delegates reports whether a sub-agent is running.
func (m *MessageWriter) delegates() bool {
	return len(m.children) > 0 || slices.ContainsFunc(m.openCalls, func(c *call) bool { return !c.completed && c.delegated })
}

// childControl ends the output of a sub-agent. A sub-agent that waits for users, while the answer waits for it, ends the response.
func (m *MessageWriter) childControl(it *item) {
	m.close(it.sp)
	switch it.rec.Type {
	case chunk.TypeStreamEnd:
		it.sp.release()
	case chunk.TypeStreamFailed:
		m.childError(it)
		it.sp.release()
	case chunk.TypeStreamPaused:
		if m.outcome == paused && m.asks() {
			m.stop(reasonToolCalls)
		}
	}
}

func (m *MessageWriter) streamEnd() {
	switch {
	case m.outcome == finished || m.outcome == failed && !m.expected:
		return
	case m.expected: // a chunk ended it before
		m.expected = false
		return
	}
	m.outcome = finished
	m.stop(m.stateReason())
}

func (m *MessageWriter) streamFailed(it *item) {
	switch {
	case m.outcome == finished || m.outcome == failed && !m.expected:
		return
	case m.expected && m.outcome == failed:
		m.expected = false
		return
	}
	m.outcome, m.expected = failed, false
	f := Failure{Text: it.Text("error"), Code: it.Text("errorDetail", "code")}
	if f.Code == CodeAborted {
		m.aborted(it)
		return
	}
	m.fail(it, f)
}

// stop ends the response where the answer ends or waits. In a replay of an answer that was resumed later there is no response to end.
func (m *MessageWriter) stop(reason string) {
	m.closeAll()
	if m.outcome != paused {
		m.separate()
	}
	m.finishStep()
	if !m.inner() {
		m.start()
		m.conclude(reason)
	}
}

// inner reports whether an end is that of an earlier response, in a replay of an answer that was resumed later. There is no response to end then.
func (m *MessageWriter) inner() bool {
	if !m.replay.within() {
		return false
	}
	m.idle = true
	return true
}

// conclude writes the end of a response.
func (m *MessageWriter) conclude(reason string) {
	m.closeAll()
	m.finishStep()
	m.meta.FinishReason = reason
	v := m.metadata(m.opt.FinishMetadata)
	m.open("finish")
	m.json.String("finishReason", reason)
	if v != nil {
		m.sanitized("messageMetadata", v)
	}
	m.shut()
	m.finalFrame()
}

func (m *MessageWriter) finalFrame() {
	m.done()
	m.idle, m.ended, m.concluded = true, true, true
}

// fail ends the response with an error. Clients read nothing after it.
func (m *MessageWriter) fail(it *item, f Failure) {
	m.closeAll()
	m.separate()
	m.finishStep()
	if m.inner() {
		return
	}
	m.start()
	m.open("error")
	if m.opt.ErrorText == nil {
		m.json.Raw("errorText", it.Get("error"))
	} else {
		m.json.String("errorText", m.opt.ErrorText(f))
	}
	m.shut()
	m.finalFrame()
}

// aborted ends the response of a run that a user stopped.
func (m *MessageWriter) aborted(it *item) {
	m.closeAll()
	m.separate() // clients treat this end like any other
	m.finishStep()
	if m.inner() {
		return
	}
	m.start()
	m.open("abort")
	if m.opt.Major >= 7 {
		m.json.Raw("reason", it.Get("error"))
	}
	m.shut()
	m.finalFrame()
}

// start begins the response.
func (m *MessageWriter) start() {
	if m.started {
		return
	}
	m.started = true
	m.open("start")
	m.json.String("messageId", m.id)
	if v := m.metadata(m.opt.StartMetadata); v != nil {
		m.sanitized("messageMetadata", v)
	}
	m.shut()
	m.bare()
}

func (m *MessageWriter) metadata(f func(Meta) chunk.Value) chunk.Value {
	if f == nil {
		return nil
	}
	return f(m.meta)
}

package aisdk

import (
	"bytes"
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// modeExecute is the mode of a run that opens a turn; any other goes on with the
// one that is open, unless it brings words of a person.
const modeExecute = "execute"

// goesOn reports whether an answer that waits, or was stopped, goes on with the
// record. One that waits for people may do so because a sub-agent asked them.
func (m *Message) goesOn(it *item) bool {
	started := it.rec.Type == chunk.TypeRunStarted
	if !it.sp.own() {
		return started && m.outcome == paused
	}
	goesOn := started && !m.opensTurn(it)
	switch it.rec.Type {
	case chunk.TypeStreamActive:
		goesOn = m.outcome == paused
	case chunk.TypeRunResumed:
		goesOn = m.outcome == interrupted
	}
	if goesOn {
		m.outcome, m.expected = running, false
	}
	return goesOn
}

// opensTurn reports whether a run is the beginning of another message.
func (m *Message) opensTurn(it *item) bool {
	return m.turn && m.meta.RunID != it.Text("runId") && (it.Text("mode") == modeExecute || !isEmpty(it.Get("input")))
}

// isEmpty reports whether an array has no elements.
func isEmpty(array chunk.Value) bool { return len(bytes.TrimSpace(array[1:len(array)-1])) == 0 }

// control tells a record about the stream itself. Those of a sub-agent only end
// what it says: the answer goes on.
func (m *Message) control(it *item) {
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

func (m *Message) runStarted(it *item) {
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

// streamPaused ends the response when the answer waits for people: the client
// sends nothing while it reads one. An answer that waits for sub-agents alone
// goes on by itself, and a client that was told its end would never see the rest.
func (m *Message) streamPaused() {
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
func (m *Message) asks() bool {
	return slices.ContainsFunc(m.everyCall, func(c *call) bool { return !c.settled && (c.client && c.sent || c.asked != nil) })
}

// delegates reports whether a sub-agent is at work.
func (m *Message) delegates() bool {
	return len(m.children) > 0 || slices.ContainsFunc(m.everyCall, func(c *call) bool { return !c.settled && c.delegated })
}

// childControl ends what a sub-agent says. One that waits for people, while the
// answer waits for it, ends the response.
func (m *Message) childControl(it *item) {
	m.close(it.sp)
	switch it.rec.Type {
	case chunk.TypeStreamFailed:
		m.childError(it)
	case chunk.TypeStreamPaused:
		if m.outcome == paused && m.asks() {
			m.stop(reasonToolCalls)
		}
	}
}

func (m *Message) streamEnd() {
	switch {
	case m.outcome == finished || m.outcome == failed && !m.expected:
		return
	case m.expected: // a chunk said it before
		m.expected = false
		return
	}
	m.outcome = finished
	m.stop(m.stateReason())
}

func (m *Message) streamFailed(it *item) {
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

// stop ends the response at a place where the answer ends or waits. In a replay
// of an answer that went on there is no response to end.
func (m *Message) stop(reason string) {
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

// inner reports whether an end is that of an earlier response, in a replay of an
// answer that went on. There is none to end then.
func (m *Message) inner() bool {
	if !m.replay.within() {
		return false
	}
	m.idle = true
	return true
}

// conclude writes the end of a response.
func (m *Message) conclude(reason string) {
	m.closeAll()
	m.finishStep()
	m.meta.FinishReason = reason
	v := m.metadata(m.opt.FinishMetadata)
	m.open("finish")
	m.str("finishReason", reason)
	if v != nil {
		m.guarded("messageMetadata", v)
	}
	m.shut()
	m.lastWord()
}

func (m *Message) lastWord() {
	m.done()
	m.idle, m.ended, m.concluded = true, true, true
}

// fail ends the response with an error, after which clients read nothing.
func (m *Message) fail(it *item, f Failure) {
	m.closeAll()
	m.separate()
	m.finishStep()
	if m.inner() {
		return
	}
	m.start()
	m.open("error")
	if m.opt.ErrorText == nil {
		m.value("errorText", it.Get("error"))
	} else {
		m.str("errorText", m.opt.ErrorText(f))
	}
	m.shut()
	m.lastWord()
}

// aborted ends the response of a run that a person stopped.
func (m *Message) aborted(it *item) {
	m.closeAll()
	m.separate() // for clients this end is like any other
	m.finishStep()
	if m.inner() {
		return
	}
	m.start()
	m.open("abort")
	if m.opt.Major >= 7 {
		m.value("reason", it.Get("error"))
	}
	m.shut()
	m.lastWord()
}

// start begins the response.
func (m *Message) start() {
	if m.started {
		return
	}
	m.started = true
	m.open("start")
	m.str("messageId", m.id)
	if v := m.metadata(m.opt.StartMetadata); v != nil {
		m.guarded("messageMetadata", v)
	}
	m.shut()
	m.bare()
}

func (m *Message) metadata(f func(Meta) chunk.Value) chunk.Value {
	if f == nil {
		return nil
	}
	return f(m.meta)
}

package aisdk

import (
	"github.com/tailrace/tailrace/chunk"
)

// modeExecute is the mode of a run that opens a turn; any other goes on with the
// one that is open, unless it brings words of a person.
const modeExecute = "execute"

// goesOn reports whether an answer that waits, or was stopped, goes on with the
// record.
func (m *Message) goesOn(it *item) bool {
	switch b := it.c.Body.(type) {
	case chunk.RunStarted:
		return !m.opensTurn(b)
	case chunk.StreamActive:
		return m.outcome == paused
	case chunk.RunResumed:
		return m.outcome == interrupted
	}
	return false
}

// opensTurn reports whether a run is the beginning of another message.
func (m *Message) opensTurn(b chunk.RunStarted) bool {
	return m.turn && m.meta.RunID != b.RunID && (b.Mode == modeExecute || len(b.Input) > 0)
}

// control tells a record about the stream itself. Those of a sub-agent only end
// what it says: the answer goes on.
func (m *Message) control(it *item) {
	if !it.sp.own() {
		m.close(it.sp)
		if b, ok := it.c.Body.(chunk.StreamFailed); ok {
			m.childError(it, b.ErrorDetail)
		}
		return
	}
	switch b := it.c.Body.(type) {
	case chunk.RunStarted:
		m.runStarted(it, b)
	case chunk.StreamPaused:
		if m.outcome == running {
			m.outcome = paused
			m.stop(reasonToolCalls)
		}
	case chunk.StreamEnd:
		m.streamEnd()
	case chunk.StreamFailed:
		m.streamFailed(it, b)
	case chunk.Truncated:
		m.truncated(it, b)
	}
}

func (m *Message) runStarted(it *item, b chunk.RunStarted) {
	if m.opensTurn(b) {
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
	m.steps.begun = false
	m.meta.RunID, m.meta.AgentType = b.RunID, it.c.AgentType
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

func (m *Message) streamFailed(it *item, b chunk.StreamFailed) {
	switch {
	case m.outcome == finished || m.outcome == failed && !m.expected:
		return
	case m.expected && m.outcome == failed:
		m.expected = false
		return
	}
	m.outcome, m.expected = failed, false
	f := Failure{Text: b.Error}
	if b.ErrorDetail != nil && b.ErrorDetail.Code != nil {
		f.Code = *b.ErrorDetail.Code
	}
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
	m.name("finishReason")
	m.dst = appendString(m.dst, reason)
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
	m.finishStep()
	if m.inner() {
		return
	}
	m.start()
	m.open("error")
	if m.opt.ErrorText == nil {
		m.value("errorText", it.obj.get("error"))
	} else {
		m.name("errorText")
		m.dst = appendString(m.dst, m.opt.ErrorText(f))
	}
	m.shut()
	m.lastWord()
}

// aborted ends the response of a run that a person stopped.
func (m *Message) aborted(it *item) {
	m.closeAll()
	m.finishStep()
	if m.inner() {
		return
	}
	m.start()
	m.open("abort")
	if m.opt.Major >= 7 {
		m.value("reason", it.obj.get("error"))
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
	m.name("messageId")
	m.dst = appendString(m.dst, m.id)
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

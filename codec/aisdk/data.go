package aisdk

import (
	"github.com/tailrace/tailrace/chunk"
)

// sayData tells what becomes a data part, or ends the answer.
func (m *Message) sayData(it *item) {
	switch it.rec.Type {
	case chunk.TypeCustom:
		m.custom(it)
	case chunk.TypeSubagentStart:
		m.subagentStart(it)
	case chunk.TypeSubagentEnd:
		m.subagentEnd(it)
	case chunk.TypeStatePatch:
		m.notice(it, "state-patch", "patches")
	case chunk.TypeOutput:
		m.beginNotice(it, "output", nil)
		m.guarded("output", it.Get("output"))
		m.endNotice()
	case chunk.TypeError:
		m.errorChunk(it)
	case chunk.TypeRunInterrupted:
		m.runInterrupted(it)
	case chunk.TypeRunPaused:
		m.close(it.sp)
		m.signal(it, "run-paused", "runId", "reason", "pendingToolName", "pendingToolCallId")
	case chunk.TypeRunResumed:
		m.signal(it, "run-resumed", "runId", "fromCheckpointId", "fromStepCount", "mode")
	case chunk.TypeCheckpointCreated:
		m.signal(it, "checkpoint-created", "runId", "checkpointId", "stepCount")
	case chunk.TypeStepCommitted:
		m.signal(it, "step-committed", "runId", "stepId", "checkpointId")
	case chunk.TypeStepDiscarded:
		m.signal(it, "step-discarded", "runId", "stepId", "reason")
	case chunk.TypeStreamResync:
		m.close(it.sp)
		m.signal(it, "stream-resync", "checkpointId", "stepCount", "messageCount", "fromSequence", "reason")
	case chunk.TypeExecutorSuperseded:
		m.close(it.sp)
		m.signal(it, "executor-superseded", "reason")
	default: // tool_arg_stream_end says nothing that tool_start does not; suspension_marker never leaves
	}
}

// signal is a notice of what happens now: of no use to those who come later, so
// that a replay leaves it out.
func (m *Message) signal(it *item, name string, members ...string) {
	if m.replay == nil {
		m.notice(it, name, members...)
	}
}

// notice tells members of the record as data that the client hands on and does
// not keep: the message would grow with every one, and go back to the server
// with every POST.
func (m *Message) notice(it *item, name string, members ...string) {
	m.beginNotice(it, name, nil)
	m.pass(it, members...)
	m.endNotice()
}

// beginNotice opens the data of a notice. That of a sub-agent names it.
func (m *Message) beginNotice(it *item, name string, id []byte) {
	m.open("data-" + name)
	if id != nil {
		m.text("id", id)
	}
	m.nest("data")
	if !it.sp.own() {
		m.str("agentId", it.sp.agent)
	}
}

func (m *Message) endNotice() {
	m.dst = append(m.dst, `},"transient":true`...)
	m.shut()
}

// custom tells an event of the application. It is a part of the message; that of
// a sub-agent only where its other parts are too.
func (m *Message) custom(it *item) {
	stays := it.sp.own() || m.opt.SubAgents == Inline
	if it.sp.own() && m.structured(it) {
		return
	}
	if stays {
		m.speak(it)
	}
	m.event(it, !stays)
}

func (m *Message) event(it *item, transient bool) {
	m.open("data-" + string(it.content("eventName")))
	m.guarded("data", it.Get("data"))
	m.flag("transient", transient)
	m.shut()
}

// errorChunk tells an error that the agent reports. The client takes an error
// chunk for the end: one from which the run recovers is a notice.
func (m *Message) errorChunk(it *item) {
	m.close(it.sp)
	if !it.sp.own() {
		m.childError(it)
		return
	}
	if it.is("recoverable") {
		if m.replay != nil {
			return
		}
		m.beginNotice(it, "error", nil)
		m.errorMembers(it)
		m.flag("recoverable", true)
		m.endNotice()
		return
	}
	if m.outcome == running {
		m.outcome, m.expected = failed, true
		f := Failure{Text: it.Text("error"), Code: it.Text("errorDetail", "code")}
		if it.Get("code") != nil {
			f.Code = it.Text("code")
		}
		m.fail(it, f)
	}
}

// errorMembers writes the text of an error and how it is classified.
func (m *Message) errorMembers(it *item) {
	m.value("errorText", it.Get("error"))
	code := it.Get("code")
	if code == nil {
		code = it.Get("errorDetail", "code")
	}
	m.some("code", code)
	m.some("category", it.Get("errorDetail", "category"))
	m.some("retryable", it.Get("errorDetail", "retryable"))
}

// runInterrupted ends the response: the run was stopped softly.
func (m *Message) runInterrupted(it *item) {
	m.close(it.sp)
	if m.outcome != running {
		return
	}
	m.signal(it, "run-interrupted", "runId", "checkpointId", "reason")
	m.outcome, m.expected = interrupted, true
	m.stop(m.interruptedReason())
}

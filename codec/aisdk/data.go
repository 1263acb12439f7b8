package aisdk

import (
	"strconv"

	"github.com/tailrace/tailrace/chunk"
)

// sayData tells what becomes a data part, or ends the answer.
func (m *Message) sayData(it *item) {
	switch b := it.c.Body.(type) {
	case chunk.Custom:
		m.custom(it, b)
	case chunk.SubagentStart:
		m.subagentStart(it, b)
	case chunk.SubagentEnd:
		m.subagentEnd(it, b)
	case chunk.StatePatch:
		m.notice(it, "state-patch", "patches")
	case chunk.Output:
		m.beginNotice(it, "output", nil)
		m.guarded("output", it.obj.get("output"))
		m.endNotice()
	case chunk.Error:
		m.errorChunk(it, b)
	case chunk.RunInterrupted:
		m.runInterrupted(it)
	case chunk.RunPaused:
		m.close(it.sp)
		m.signal(it, "run-paused", "runId", "reason", "pendingToolName", "pendingToolCallId")
	case chunk.RunResumed:
		m.signal(it, "run-resumed", "runId", "fromCheckpointId", "fromStepCount", "mode")
	case chunk.CheckpointCreated:
		m.signal(it, "checkpoint-created", "runId", "checkpointId", "stepCount")
	case chunk.StepCommitted:
		m.signal(it, "step-committed", "runId", "stepId", "checkpointId")
	case chunk.StepDiscarded:
		m.signal(it, "step-discarded", "runId", "stepId", "reason")
	case chunk.StreamResync:
		m.close(it.sp)
		m.signal(it, "stream-resync", "checkpointId", "stepCount", "messageCount", "fromSequence", "reason")
	case chunk.ExecutorSuperseded:
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
	m.members(it, members)
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
func (m *Message) custom(it *item, b chunk.Custom) {
	stays := it.sp.own() || m.opt.SubAgents == Inline
	if it.sp.own() && m.structured(it, b) {
		return
	}
	if stays {
		m.speak(it)
	}
	name, _ := it.obj.text("eventName")
	m.open("data-" + string(name))
	m.guarded("data", it.obj.get("data"))
	m.flag("transient", !stays)
	m.shut()
}

// errorChunk tells an error that the agent reports. The client takes an error
// chunk for the end: one from which the run recovers is a notice.
func (m *Message) errorChunk(it *item, b chunk.Error) {
	m.close(it.sp)
	if !it.sp.own() {
		m.childError(it, b.ErrorDetail)
		return
	}
	if b.Recoverable {
		if m.replay != nil {
			return
		}
		m.beginNotice(it, "error", nil)
		m.errorMembers(it, b.ErrorDetail)
		m.flag("recoverable", true)
		m.endNotice()
		return
	}
	if m.outcome == running {
		m.outcome, m.expected = failed, true
		m.fail(it, Failure{Text: b.Error, Code: codeOf(b)})
	}
}

func codeOf(b chunk.Error) string {
	switch {
	case b.Code != nil:
		return *b.Code
	case b.ErrorDetail != nil && b.ErrorDetail.Code != nil:
		return *b.ErrorDetail.Code
	}
	return ""
}

// errorMembers writes the text of an error and how it is classified.
func (m *Message) errorMembers(it *item, detail *chunk.ErrorDetail) {
	m.value("errorText", it.obj.get("error"))
	if code := it.obj.get("code"); code != nil {
		m.value("code", code)
	} else if detail != nil && detail.Code != nil {
		m.str("code", *detail.Code)
	}
	if detail != nil && detail.Category != nil {
		m.str("category", *detail.Category)
	}
	if detail != nil && detail.Retryable != nil {
		m.name("retryable")
		m.dst = strconv.AppendBool(m.dst, *detail.Retryable)
	}
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

package aisdk

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/dialect"
)

// writeData writes a record that becomes a data part, or ends the answer.
func (m *MessageWriter) writeData(it *item) {
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
		m.sanitized("output", it.Get("output"))
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
	default: // tool_arg_stream_end adds nothing to tool_start; suspension_marker is not shown
	}
}

// signal writes a notice about the current state of the run. A replay leaves it out.
func (m *MessageWriter) signal(it *item, name string, members ...string) {
	if m.replay == nil {
		m.notice(it, name, members...)
	}
}

// notice writes members of the record as transient data. The client does not keep them: otherwise the message would grow with each notice, and every POST
// would return them to the server.
func (m *MessageWriter) notice(it *item, name string, members ...string) {
	m.beginNotice(it, name, nil)
	m.pass(it, members...)
	m.endNotice()
}

// beginNotice opens the data of a notice. A notice of a sub-agent names it.
func (m *MessageWriter) beginNotice(it *item, name string, id []byte) {
	m.open("data-" + name)
	if id != nil {
		m.json.Content("id", id)
	}
	m.json.Nest("data")
	if !it.sp.own() {
		m.json.String("agentId", it.sp.agent)
	}
}

func (m *MessageWriter) endNotice() {
	m.json.Dst = append(m.json.Dst, `},"transient":true`...)
	m.shut()
}

// custom writes an event of the application. It is a part of the message; an event of a sub-agent is a part only if its other parts are.
func (m *MessageWriter) custom(it *item) {
	if m.ownPart(it) {
		return
	}
	ui := it.partMembers()
	if ui.Transient && m.replay != nil {
		return
	}
	stays := !ui.Transient && (it.sp.own() || m.opt.SubAgents == Inline)
	if it.sp.own() && m.structured(it) {
		return
	}
	if stays {
		m.beginPart(it)
	}
	m.event(it, ui.ID, !stays)
}

// event writes the part of an event. The ids of sub-agents are their own.
func (m *MessageWriter) event(it *item, id chunk.Value, transient bool) {
	m.open("data-" + string(it.content("eventName")))
	if id != nil {
		content := rawjson.Text(id).Content()
		if !it.sp.own() {
			content = slices.Concat([]byte(dialect.CallID(it.sp.agent, "")), content)
		}
		m.json.Content("id", content)
	}
	m.sanitized("data", it.Get("data"))
	m.json.Flag("transient", transient)
	m.shut()
}

// ownPart writes an event that has a part of another type, and reports whether it is one. Sub-agents have no message whose metadata theirs could be.
func (m *MessageWriter) ownPart(it *item) bool {
	switch it.Text("eventName") {
	case chunk.MetadataEvent:
		if v := chunk.MessageMetadata(it.Get("data")); v != nil && it.sp.own() {
			m.beginPart(it)
			m.open("message-metadata")
			m.sanitized("messageMetadata", v)
			m.shut()
		}
	case chunk.PreliminaryEvent:
		m.preliminary(it)
	default:
		return false
	}
	return true
}

// errorChunk writes an error that the agent reports. The client takes an error chunk for the end, so a recoverable error is a notice.
func (m *MessageWriter) errorChunk(it *item) {
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
		m.json.Flag("recoverable", true)
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

// errorMembers writes the text and the classification of an error.
func (m *MessageWriter) errorMembers(it *item) {
	m.json.Raw("errorText", it.Get("error"))
	code := it.Get("code")
	if code == nil {
		code = it.Get("errorDetail", "code")
	}
	m.optional("code", code)
	m.optional("category", it.Get("errorDetail", "category"))
	m.optional("retryable", it.Get("errorDetail", "retryable"))
}

// runInterrupted ends the response: the run was interrupted.
func (m *MessageWriter) runInterrupted(it *item) {
	m.close(it.sp)
	if m.outcome != running {
		return
	}
	m.signal(it, "run-interrupted", "runId", "checkpointId", "reason")
	m.outcome, m.expected = interrupted, true
	m.stop(m.interruptedReason())
}

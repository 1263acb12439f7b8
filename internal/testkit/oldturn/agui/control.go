package agui

import (
	"bytes"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/projector/fold"
)

// modeExecute is the mode of a run that opens a turn; a run of another mode continues the open turn, unless it has input.
const modeExecute = "execute"

// isResumedBy reports whether the record resumes a turn that waits or was stopped.
func (w *Writer) isResumedBy(it *item) bool {
	started := it.rec.Type == chunk.TypeRunStarted
	if !it.by.own() {
		return started && w.outcome == paused
	}
	resumes := started && !w.opensTurn(it)
	switch it.rec.Type {
	case chunk.TypeStreamActive:
		resumes = w.outcome == paused
	case chunk.TypeRunResumed:
		resumes = w.outcome == interrupted
	}
	if resumes {
		w.outcome = running
	}
	return resumes
}

// opensTurn reports whether a run begins another turn.
func (w *Writer) opensTurn(it *item) bool {
	return w.turn && !bytes.Equal(w.run, it.content("runId")) && (it.Text("mode") == modeExecute || !isEmpty(it.Get("input")))
}

// isEmpty reports whether an array has no elements.
func isEmpty(array chunk.Value) bool {
	return len(array) < 2 || len(bytes.TrimSpace(array[1:len(array)-1])) == 0
}

// control handles a control record. That of a sub-agent ends only the output of the sub-agent.
func (w *Writer) control(it *item) {
	if !it.by.own() {
		w.childControl(it)
		return
	}
	switch it.rec.Type {
	case chunk.TypeRunStarted:
		w.runStarted(it)
	case chunk.TypeStreamActive:
		it.by.paused = false
		if !w.ended {
			w.start()
		}
	case chunk.TypeStreamPaused:
		w.streamPaused(it)
	case chunk.TypeStreamEnd:
		w.streamEnd(it)
	case chunk.TypeStreamFailed:
		w.streamFailed(it)
	case chunk.TypeTruncated:
		w.truncated(it)
	}
}

func (w *Writer) runStarted(it *item) {
	if w.opensTurn(it) {
		if w.open {
			w.at = chunk.Cursor{}
			w.out.Begin(w.out.Dst, w.at) // the record is of the next turn, whose Writer has its cursor
			w.finishRun(nil, func() { w.outcomeOf("cancelled") })
		}
		w.over = true
		return
	}
	first := !w.turn
	w.run = bytes.Clone(it.content("runId"))
	w.own.paused = false
	w.own.closeStep()
	if w.open { // another worker has taken the run over
		w.closeStepName(&w.own)
		w.lifecycle(it)
		return
	}
	var input []chunk.InputMessage
	if first {
		if c, err := it.rec.Decode(); err == nil {
			b, _ := chunk.As[chunk.RunStarted](c)
			input = b.Input
		}
	}
	w.startRun(w.run, &started{input: input, parent: it.Get("parent"), first: first})
}

// started is what RUN_STARTED has of the record that opened the run.
type started struct {
	input  []chunk.InputMessage
	parent chunk.Value // nil for none
	first  bool        // it opens the turn
}

// start begins a run unless one is open: after the end of a response, and in a log without the record.
func (w *Writer) start() {
	if !w.open {
		w.startRun(w.run, nil)
	}
}

// startRun writes RUN_STARTED, and the start of the sub-agents that are running: the client knows those of this run only.
func (w *Writer) startRun(run []byte, s *started) {
	w.open, w.ended, w.again, w.openRun = true, false, false, run
	w.out.Open("RUN_STARTED")
	w.out.Content("threadId", w.thread)
	w.out.Content("runId", w.openRun)
	w.out.String("protocolVersion", ProtocolVersion)
	if s != nil && s.first {
		w.input(s)
	}
	w.out.Shut()
	w.out.Begin(w.out.Dst, w.at) // it is that of the response, and has no cursor
	if state := w.opt.State; s != nil && s.first && state != nil && string(state) != "{}" {
		w.out.Open("STATE_SNAPSHOT")
		w.out.Raw("snapshot", state)
		w.out.Shut()
	}
	for _, a := range w.order {
		a.child.announced = false
	}
	for _, a := range w.order {
		if a.child.running {
			w.announce(a)
		}
	}
}

// input writes the messages of the users that the turn answers, so that the client of another user has them, and what they replace.
func (w *Writer) input(s *started) {
	w.out.Nest("input")
	w.out.Content("threadId", w.thread)
	w.out.Content("runId", w.openRun)
	w.out.Name("messages")
	w.out.Dst = append(w.out.Dst, '[')
	index, known := fold.MessageIndex(w.message)
	for i := range s.input {
		in := &s.input[i]
		if in.Metadata != nil && fold.IsHidden(*in.Metadata) {
			continue
		}
		id := w.message + "-input-" + strconv.Itoa(i)
		if at := index - len(s.input) + i; known && at >= 0 {
			id = fold.MessageID(at)
		}
		if in.ClientMessageID != nil {
			id = *in.ClientMessageID
		}
		if w.out.Dst[len(w.out.Dst)-1] != '[' {
			w.out.Dst = append(w.out.Dst, ',')
		}
		w.out.Dst = appendUserMessage(w.out.Dst, id, in.Content, in.Files, in.Metadata)
	}
	w.out.Dst = append(w.out.Dst, `],"tools":[],"context":[]`...)
	w.out.Close()
	var replaces chunk.Value
	if len(s.input) > 0 {
		for _, m := range s.input[0].Extra {
			if m.Name == fold.ReplacesMember {
				replaces = m.Value
			}
		}
	}
	if replaces == nil && s.parent == nil {
		return
	}
	w.out.Nest("metadata")
	w.out.Raw(fold.ReplacesMember, replaces)
	w.out.Raw("parent", s.parent)
	w.out.Close()
}

// streamPaused ends the response if the run waits for users: the client sends nothing while it reads a response. A run that waits for sub-agents only continues
// without the client, which would not get the rest after an end of the response.
func (w *Writer) streamPaused(it *item) {
	if w.outcome == finished || w.outcome == failed {
		return
	}
	if w.outcome == running {
		w.outcome = paused
	}
	w.own.paused = true
	w.closeStepName(&w.own)
	w.own.closeStep()
	if !w.open || w.delegates() && !w.asks() {
		return
	}
	w.pause(it)
}

// pause ends the response of a run that waits: for approvals, which are interrupts; for calls of the client; or for something else that the record names,
// which is an interrupt too.
func (w *Writer) pause(it *item) {
	approvals, calls := w.questions()
	if len(approvals) == 0 && len(calls) > 0 {
		w.finishRun(nil, func() {
			w.out.Nest("outcome")
			w.out.String("type", "success")
			w.pending(calls)
			w.out.Close()
		})
		return
	}
	w.finishRun(nil, func() {
		w.out.Nest("outcome")
		w.out.String("type", "interrupt")
		w.out.Name("interrupts")
		w.out.Dst = append(w.out.Dst, '[')
		for i, c := range approvals {
			if i > 0 {
				w.out.Dst = append(w.out.Dst, ',')
			}
			w.out.Dst = appendInterrupt(w.out.Dst, interrupt{id: c.approvalID, call: c.shown, tool: c.name, tag: c.tag})
		}
		if len(approvals) == 0 {
			reason := it.content("reason")
			if len(reason) == 0 {
				reason = []byte("paused")
			}
			w.out.Dst = appendInterrupt(w.out.Dst, interrupt{id: w.openRun, reason: reason})
		}
		w.out.Dst = append(w.out.Dst, ']')
		w.out.Close()
		if len(calls) > 0 { // the outcome has no place for them
			w.out.Nest("metadata")
			w.pending(calls)
			w.out.Close()
		}
	})
}

// pending writes the ids of the calls that the client must answer.
func (w *Writer) pending(calls []*call) {
	w.out.List("pendingToolCallIds", len(calls), func(dst []byte, i int) []byte {
		return append(append(append(dst, '"'), calls[i].shown...), '"')
	})
}

// interrupt is a question to a user. The texts are the contents of JSON strings.
type interrupt struct{ id, reason, call, tool, tag []byte }

// approvalSchema is the JSON Schema of the answer to an approval.
const approvalSchema = `{"type":"object","properties":{"approved":{"type":"boolean"},"reason":{"type":"string"}},"required":["approved"]}`

// reasonApproval is the reason of an interrupt that asks for the approval of a call.
const reasonApproval = "tool_call"

// appendInterrupt appends an interrupt: an approval if it has a call.
func appendInterrupt(dst []byte, in interrupt) []byte {
	o := rawjson.Begin(dst)
	o.Content("id", in.id)
	if in.call == nil {
		o.Content("reason", in.reason)
		return o.End()
	}
	o.String("reason", reasonApproval)
	o.Content("toolCallId", in.call)
	o.Raw("responseSchema", []byte(approvalSchema))
	if in.tag != nil {
		o.Content("subagentRunId", in.tag)
	}
	o.Nest("metadata")
	o.Content("toolCallName", in.tool)
	o.Close()
	return o.End()
}

// childControl ends the output of a sub-agent. A sub-agent that waits for users, while the session's own agent waits for it, ends the response.
func (w *Writer) childControl(it *item) {
	a := it.by
	w.close(a)
	a.closeStep()
	switch it.rec.Type {
	case chunk.TypeRunStarted:
		a.paused = false
		w.closeStepName(a)
		if !w.ended {
			w.start()
		}
	case chunk.TypeStreamActive:
		a.paused = false
	case chunk.TypeStreamEnd, chunk.TypeStreamFailed:
		w.closeStepName(a)
		a.paused = false
		if it.rec.Type == chunk.TypeStreamFailed && w.open {
			w.lifecycle(it)
		}
		a.release()
	case chunk.TypeStreamPaused:
		a.paused = true
		if w.open && w.outcome == paused && w.asks() {
			w.pause(it)
		}
	}
}

func (w *Writer) streamEnd(it *item) {
	if w.outcome == finished || w.outcome == failed || w.outcome == interrupted {
		return
	}
	w.outcome = finished
	w.own.closeStep()
	if !w.ended || w.again {
		w.start()
		w.finishRun(it.Get("finalOutput"), func() { w.outcomeOf("success") })
	}
}

func (w *Writer) streamFailed(it *item) {
	if w.outcome == finished || w.outcome == failed {
		return
	}
	w.outcome = failed
	w.own.closeStep()
	if w.ended && !w.again {
		return
	}
	w.start()
	code := it.inner("errorDetail", "code")
	if string(code) == CodeAborted {
		w.finishRun(nil, func() {
			w.outcomeOf("cancelled")
			w.out.Nest("metadata")
			w.out.Raw("reason", it.Get("error"))
			w.out.Close()
		})
		return
	}
	w.conclude()
	w.out.Open("RUN_ERROR")
	w.out.Raw("message", it.Get("error"))
	if code != nil {
		w.out.Content("code", code)
	}
	w.writeUsage()
	w.out.Shut()
}

// inner returns the content of a string in a member that is an object.
func (it *item) inner(name, inner string) []byte {
	v := it.Get(name, inner)
	if len(v) < 2 || v[0] != '"' {
		return nil
	}
	return v[1 : len(v)-1]
}

// runInterrupted ends the response: the run was stopped. It may be resumed.
func (w *Writer) runInterrupted(it *item) {
	w.close(it.by)
	if !it.by.own() {
		return
	}
	if w.outcome != running {
		return
	}
	w.outcome = interrupted
	w.lifecycleEvent(it)
	w.finishRun(nil, func() { w.outcomeOf("cancelled") })
}

// outcomeOf writes an outcome without members.
func (w *Writer) outcomeOf(kind string) {
	w.out.Nest("outcome")
	w.out.String("type", kind)
	w.out.Close()
}

// finishRun ends everything that is open, and writes RUN_FINISHED.
func (w *Writer) finishRun(result chunk.Value, outcome func()) {
	w.conclude()
	w.out.Open("RUN_FINISHED")
	w.out.Content("threadId", w.thread)
	w.out.Content("runId", w.openRun)
	if !result.IsNull() {
		w.out.Raw("result", result)
	}
	outcome()
	w.writeUsage()
	w.out.Shut()
}

// conclude ends everything that is open: a client rejects an end of the run before that.
func (w *Writer) conclude() {
	w.closeSteps()
	for _, c := range w.openCalls {
		w.callEnd(c, nil)
	}
	w.suspendChildren()
	w.open, w.ended = false, true
}

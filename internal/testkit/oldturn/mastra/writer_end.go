package mastra

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/dialect"
)

const (
	codeAborted  = "aborted" // of the stream_failed of a run that a user stopped
	codeTripwire = "tripwire"
)

// resume continues the turn if the record resumes an answer that waits or was stopped.
func (w *Writer) resume(it *item) {
	started := it.rec.Type == chunk.TypeRunStarted
	resumes := false
	switch {
	case !w.isOwn(it.sp):
		resumes = started && w.state == waiting
	case started:
		resumes = true
	case it.rec.Type == chunk.TypeStreamActive:
		resumes = w.state == waiting
	case it.rec.Type == chunk.TypeRunResumed:
		resumes = w.state == stopped
	case it.rec.Type == chunk.TypeStreamEnd:
		resumes = w.state == waiting && w.closed // the answer ends in the next response
	case it.rec.Type == chunk.TypeStreamFailed:
		resumes = (w.state == waiting || w.state == stopped) && w.closed
	}
	if !resumes {
		return
	}
	it.sp.suspended = false
	if w.isOwn(it.sp) {
		w.state, w.expected = running, false
		for _, sp := range w.agents {
			sp.suspended = false
		}
	}
	if w.closed {
		w.closed, w.done = false, false
		w.response++
	}
}

// opens reports whether a record of the session opens another turn.
func (w *Writer) opens(rec *chunk.Record) bool {
	first := !w.opened
	w.opened = true
	opens, _ := w.turns.Opens(rec)
	return opens && !first
}

// nextTurn ends the response, because the record at hand opens another turn. The frames have no cursor: the record is still to come.
func (w *Writer) nextTurn() {
	if !w.closed {
		w.frames.Begin(w.frames.Dst, chunk.Cursor{})
		w.conclude(reasonOther)
	}
	w.over = true
}

// control handles a control record.
func (w *Writer) control(it *item) {
	switch sp := it.sp; it.rec.Type {
	case chunk.TypeRunStarted:
		w.runStarted(it)
	case chunk.TypeStreamPaused:
		w.paused(sp)
	case chunk.TypeStreamEnd:
		w.ended(it)
	case chunk.TypeStreamFailed:
		w.failed(it)
	case chunk.TypeTruncated:
		w.truncated(it)
	}
}

func (w *Writer) runStarted(it *item) {
	sp := it.sp
	if !w.isOwn(sp) {
		sp.ended = false
		if sp.parent == nil && !w.closed {
			w.announceAgent(w.parentOf(it), sp, it.Text("parent", "callId"), it.Text("agentType"))
		}
		return
	}
	w.close(sp)
	sp.run = append([]byte(nil), it.content("runId")...)
	if sp.kind = it.Text("agentType"); sp.kind == "" {
		sp.kind = "agent"
	}
}

// paused ends the response if the answer waits for a user or for the client. An answer that waits for sub-agents only is resumed without the client.
func (w *Writer) paused(sp *speaker) {
	if !w.isOwn(sp) {
		if !w.closed && w.shown(sp) {
			w.close(sp)
			if w.state == waiting && w.asks() {
				w.endResponse()
			}
		}
		return
	}
	if w.state != running {
		return
	}
	w.state = waiting
	if w.closed {
		return
	}
	w.flushStep(sp)
	w.close(sp)
	switch {
	case w.asks():
	case w.asksClient():
		w.finishStep(sp, reasonToolCalls, usageTotal{})
		w.finish(sp, reasonToolCalls)
	case sp.delegates():
		return
	}
	if sp.workflow {
		w.workflowFinish(sp, "suspended")
	}
	w.endResponse()
}

// asks reports whether a user must act before the answer continues.
func (w *Writer) asks() bool {
	asks := func(sp *speaker) bool {
		if sp.suspended {
			return true
		}
		for _, c := range sp.calls {
			if c.waits() {
				return true
			}
		}
		return false
	}
	if asks(&w.own) {
		return true
	}
	for _, sp := range w.agents {
		if w.shown(sp) && asks(sp) {
			return true
		}
	}
	return false
}

// asksClient reports whether the agent waits for calls that the client runs. The response then ends with the reason tool-calls, at which the client runs them.
func (w *Writer) asksClient() bool {
	asks := false
	for _, c := range w.own.calls {
		if c.runsInClient() {
			c.client, asks = true, true
		}
	}
	return asks
}

// delegates reports whether a sub-agent executes a call of the agent, or will: workers start sub-agents after the pause.
func (sp *speaker) delegates() bool {
	if sp.children > 0 {
		return true
	}
	for _, c := range sp.calls {
		if c.delegated && !c.complete {
			return true
		}
	}
	return false
}

func (w *Writer) ended(it *item) {
	sp := it.sp
	if !w.isOwn(sp) {
		w.finishAgent(sp, sp.reason())
		return
	}
	switch {
	case w.state == completed || w.state == broke:
		return
	case w.expected:
		w.expected = false
		return
	}
	w.state = completed
	if w.closed {
		return
	}
	if v := it.Get("finalOutput"); v != nil && sp.outputAt == 0 {
		w.output(sp, v)
	}
	w.conclude(sp.reason())
}

// conclude ends the response of a turn that has ended.
func (w *Writer) conclude(reason string) {
	sp := &w.own
	w.flushStep(sp)
	w.finishStep(sp, reason, usageTotal{})
	w.close(sp)
	w.finishAs(sp, reason)
	w.endResponse()
}

// finishAs ends the output of an agent, of a workflow, or of a network, whose own chunk has ended it.
func (w *Writer) finishAs(sp *speaker, reason string) {
	switch {
	case sp.network:
	case !sp.workflow:
		w.finish(sp, reason)
	case reason == reasonError:
		w.workflowFinish(sp, "failed")
	default:
		w.workflowFinish(sp, "success")
	}
}

// finish ends the output of an agent. The original's code fails without metadata and messages.
func (w *Writer) finish(sp *speaker, reason string) {
	w.open(sp, "finish")
	w.frames.Nest("stepResult")
	w.frames.String("reason", reason)
	w.frames.Bool("isContinued", false)
	w.frames.Close()
	w.usage(sp.total())
	w.frames.Raw("metadata", []byte("{}"))
	w.frames.Raw("messages", []byte(`{"all":[],"user":[],"nonUser":[]}`))
	w.shut(sp)
}

func (w *Writer) workflowFinish(sp *speaker, status string) {
	w.open(sp, "workflow-finish")
	w.frames.String("workflowStatus", status)
	w.usage(sp.total())
	w.frames.Raw("metadata", []byte("{}"))
	w.frames.Raw("finalWorkflowResult", sp.output)
	if status == "failed" && sp.failureAt > 0 {
		w.frames.Nest("error")
		w.frames.String("message", sp.failure)
		w.frames.String("name", "Error")
		w.frames.Close()
	}
	w.shut(sp)
}

// failed ends the response, and the output of a sub-agent, with the error unless it was written.
func (w *Writer) failed(it *item) {
	sp := it.sp
	code := it.Get("errorDetail", "code")
	if !w.isOwn(sp) {
		if !w.closed && w.shown(sp) && !sp.ended {
			w.failure(it, sp, code)
			w.finishAgent(sp, reasonError)
		}
		return
	}
	if w.state == completed || w.state == broke {
		return
	}
	w.state, w.expected = broke, false
	if w.closed {
		return
	}
	w.flushStep(sp)
	w.close(sp)
	switch {
	case it.Text("errorDetail", "code") == codeAborted:
		w.abort(it.Get("error"))
		return
	case sp.tripped: // the last chunk of Mastra's own response
		w.endResponse()
		return
	}
	w.failure(it, sp, code)
	w.conclude(reasonError)
}

// failure writes the error of a record, unless it is the last one that was written.
func (w *Writer) failure(it *item, sp *speaker, code chunk.Value) {
	if sp.failureAt > 0 && sp.failure == it.Text("error") {
		return
	}
	w.close(sp)
	sp.failure, sp.failureAt = it.Text("error"), max(it.rec.Ordinal, 1)
	if sp.workflow && it.rec.Type == chunk.TypeStreamFailed {
		return // its last chunk has the error
	}
	w.open(sp, "error")
	w.frames.Nest("error")
	w.frames.Raw("message", it.Get("error"))
	w.frames.Raw("code", code)
	w.frames.String("name", "Error")
	w.frames.Close()
	w.shut(sp)
}

// error writes an error that the agent reports. It does not end the response. A client stops its tools at an error chunk, so an error from which the agent
// recovers is a notice.
func (w *Writer) error(it *item) {
	sp := it.sp
	code := it.Get("code")
	if code == nil {
		code = it.Get("errorDetail", "code")
	}
	w.close(sp)
	switch {
	case it.Text("code") == codeTripwire:
		sp.tripped = true
		w.open(sp, "tripwire")
		w.frames.Raw("reason", it.Get("error"))
		w.frames.Flag("retry", it.is("recoverable"))
		w.shut(sp)
	case it.is("recoverable"):
		w.sendNotice(sp, "error", func(f *dialect.Frames) {
			f.Raw("error", it.Get("error"))
			f.Raw("code", code)
			f.Flag("recoverable", true)
		})
	default:
		sp.failureAt = 0
		w.failure(it, sp, code)
	}
}

// interrupted ends the response of a run that was interrupted. That of a sub-agent is a matter of its parent.
func (w *Writer) interrupted(it *item) {
	w.close(it.sp)
	if !w.isOwn(it.sp) || w.state != running {
		return
	}
	w.sendNotice(it.sp, "run-interrupted", func(f *dialect.Frames) {
		for _, name := range []string{"runId", "checkpointId", "reason"} {
			f.Raw(name, it.Get(name))
		}
	})
	w.state, w.expected = stopped, true
	w.abort(it.Get("reason"))
}

// abort ends the response as Mastra does: without an end of the step.
func (w *Writer) abort(reason chunk.Value) {
	sp := &w.own
	w.open(sp, "abort")
	w.frames.Raw("reason", reason)
	w.shut(sp)
	w.finish(sp, reasonTripwire)
	sp.stepping = false
	w.endResponse()
}

// truncated handles the removal of records: the step that a crashed worker left unfinished. Mastra's clients cannot remove what they have; the state here is that
// of a reader that never got the removed records, so that what follows is the same for both.
func (w *Writer) truncated(it *item) {
	sp := it.sp
	if !w.closed && w.shown(sp) {
		w.ensureStart()
		w.close(sp)
		sp.pending = nil
		w.finishStep(sp, reasonOther, usageTotal{})
	}
	b, ok := chunk.BodyOf[chunk.Truncated](*it.rec)
	if !ok {
		return
	}
	taken := func(o chunk.Ordinal) bool { return o > 0 && o < it.rec.Ordinal && b.Removes(o) }
	sp.remove(taken)
	w.headAt = 0
	if !w.closed && w.isOwn(sp) {
		w.sendNotice(sp, "truncated", func(f *dialect.Frames) {
			for _, name := range []string{"truncatedAtStep", "fromSequence", "atSequence"} {
				f.Raw(name, it.Get(name))
			}
		})
	}
}

// remove restores the state of an agent without the removed records.
func (sp *speaker) remove(taken func(chunk.Ordinal) bool) {
	sp.step, sp.stepping, sp.pending, sp.workStep, sp.suspended = 0, false, nil, "", false
	sp.blockAt = slices.DeleteFunc(sp.blockAt, taken)
	sp.blocks = len(sp.blockAt)
	sp.steps = slices.DeleteFunc(sp.steps, func(s stepTotal) bool { return taken(s.at) })
	if taken(sp.outputAt) {
		sp.output, sp.outputAt = nil, 0
	}
	if taken(sp.failureAt) {
		sp.failure, sp.failureAt, sp.tripped = "", 0, false
	}
	sp.hidden.Remove(taken)
	sp.openCalls = 0
	for id, c := range sp.calls {
		if taken(c.at) {
			delete(sp.calls, id)
			continue
		}
		c.streaming = 0
		c.complete = c.complete && !taken(c.doneAt)
		if taken(c.announcedAt) {
			c.announced = c.first
		}
		if !c.complete && !c.hidden {
			sp.openCalls++
		}
	}
	for id, d := range sp.done {
		if taken(d.at) || taken(d.doneAt) {
			delete(sp.done, id)
		}
		if !taken(d.at) && taken(d.doneAt) { // without its input, which is not stored
			sp.calls[id] = &toolCall{name: string(unknownTool), at: d.at, first: 1, announced: 1}
			sp.openCalls++
		}
	}
}

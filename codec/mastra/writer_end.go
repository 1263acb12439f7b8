package mastra

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/turn"
)

const codeTripwire = "tripwire"

func (p *printer) runStarted(it *turn.Item) {
	p.own.run = bytes.Clone(it.Content("runId"))
	p.own.kind = cmp.Or(it.Text("agentType"), "agent")
}

// pause ends the response: the answer waits for a user, for the client, or for nothing that runs.
func (p *printer) pause(it *turn.Item) {
	if !it.By.Own() {
		p.endResponse()
		return
	}
	sp := &p.own
	p.flushStep(sp)
	if !p.asks() && p.asksClient() {
		p.finishStep(sp, reasonToolCalls, turn.Usage{})
		p.finish(sp, reasonToolCalls)
	}
	if sp.workflow {
		p.workflowFinish(sp, "suspended")
	}
	p.endResponse()
}

// asks reports whether a user must act before the answer continues.
func (p *printer) asks() bool {
	for _, c := range p.turn.OpenCalls() {
		if c.ApprovalID != nil || c.Suspended {
			return true
		}
	}
	return p.turn.Suspended()
}

// asksClient reports whether the agent waits for calls that the client runs. The response then ends with the reason tool-calls, at which the client runs them.
func (p *printer) asksClient() bool {
	asks := false
	for _, c := range p.turn.OpenCalls() {
		if waitsForClient(c) {
			callOutputOf(c).client, asks = true, true
		}
	}
	return asks
}

// ended ends the response of a turn that has ended, or was stopped.
func (p *printer) ended(e *turn.Event) {
	switch e.Reason {
	case turn.Superseded:
		p.conclude(reasonOther)
	case turn.Interrupted:
		p.abort(e.Item.Get("reason"))
	case turn.Aborted:
		p.flushStep(&p.own)
		p.abort(e.Item.Get("error"))
	default:
		p.conclude(p.own.reason())
	}
}

// fail ends the response with the error, unless it was written.
func (p *printer) fail(e *turn.Event) {
	p.flushStep(&p.own)
	if p.own.tripped { // the last chunk of Mastra's own response
		p.endResponse()
		return
	}
	p.failure(e.Item, &p.own, e.Code)
	p.conclude(reasonError)
}

// conclude ends the response of a turn that has ended.
func (p *printer) conclude(reason string) {
	sp := &p.own
	p.flushStep(sp)
	p.finishStep(sp, reason, turn.Usage{})
	p.finishAs(sp, reason)
	p.endResponse()
}

// finishAs ends the output of an agent, of a workflow, or of a network, whose own chunk has ended it.
func (p *printer) finishAs(sp *speaker, reason string) {
	switch {
	case sp.network:
	case !sp.workflow:
		p.finish(sp, reason)
	case reason == reasonError:
		p.workflowFinish(sp, "failed")
	default:
		p.workflowFinish(sp, "success")
	}
}

// finish ends the output of an agent. The original's code fails without metadata and messages.
func (p *printer) finish(sp *speaker, reason string) {
	p.open(sp, "finish")
	p.f.Nest("stepResult")
	p.f.String("reason", reason)
	p.f.Bool("isContinued", false)
	p.f.Close()
	p.usage(sp.total())
	p.f.Raw("metadata", []byte("{}"))
	p.f.Raw("messages", []byte(`{"all":[],"user":[],"nonUser":[]}`))
	p.shut(sp)
}

func (p *printer) workflowFinish(sp *speaker, status string) {
	p.open(sp, "workflow-finish")
	p.f.String("workflowStatus", status)
	p.usage(sp.total())
	p.f.Raw("metadata", []byte("{}"))
	p.f.Raw("finalWorkflowResult", sp.output)
	if status == "failed" && sp.failureAt > 0 {
		p.f.Nest("error")
		p.f.String("message", sp.failure)
		p.f.String("name", "Error")
		p.f.Close()
	}
	p.shut(sp)
}

// failure writes the error of a record, unless it is the last one that was written.
func (p *printer) failure(it *turn.Item, sp *speaker, code chunk.Value) {
	if sp.failureAt > 0 && sp.failure == it.Text("error") {
		return
	}
	sp.failure, sp.failureAt = it.Text("error"), max(it.Rec.Ordinal, 1)
	if sp.workflow && it.Rec.Type == chunk.TypeStreamFailed {
		return // its last chunk has the error
	}
	p.open(sp, "error")
	p.f.Nest("error")
	p.f.Raw("message", it.Get("error"))
	p.f.Raw("code", code)
	p.f.String("name", "Error")
	p.f.Close()
	p.shut(sp)
}

// error writes an error that the agent reports. It does not end the response. A client stops its tools at an error chunk, so an error from which the agent
// recovers is a notice.
func (p *printer) error(e *turn.Event, sp *speaker) {
	it := e.Item
	code := e.Code
	switch {
	case it.Text("code") == codeTripwire:
		sp.tripped = true
		p.open(sp, "tripwire")
		p.f.Raw("reason", it.Get("error"))
		p.f.Flag("retry", it.Is("recoverable"))
		p.shut(sp)
	case it.Is("recoverable"):
		p.sendNotice(sp, "error", func(f *turn.Frames) {
			f.Raw("error", it.Get("error"))
			f.Raw("code", code)
			f.Flag("recoverable", true)
		})
	default:
		sp.failureAt = 0
		p.failure(it, sp, code)
	}
}

// abort ends the response as Mastra does: without an end of the step.
func (p *printer) abort(reason chunk.Value) {
	sp := &p.own
	p.open(sp, "abort")
	p.f.Raw("reason", reason)
	p.shut(sp)
	p.finish(sp, reasonTripwire)
	sp.stepping = false
	p.endResponse()
}

// removed handles the removal of records: the step that a crashed worker left unfinished. Mastra's clients cannot remove what they have; the state here is that
// of a reader that never got the removed records, so that what follows is the same for both.
func (p *printer) removed(e *turn.Event, sp *speaker) {
	if !e.Quiet {
		p.ensureStart()
		sp.pending = nil
		p.finishStep(sp, reasonOther, turn.Usage{})
	}
	sp.remove(e.Taken)
	maps.DeleteFunc(p.late, func(key turn.CallKey, at chunk.Ordinal) bool { return key.Agent == sp.session() && e.Taken(at) })
	for _, c := range e.Turn.OpenCalls() {
		if o := callOutputOf(c); c.By == sp.agent {
			o.streaming = 0
			if e.Taken(o.announcedAt) {
				o.announced = o.first
			}
		}
	}
	if !e.Quiet && p.isOwn(sp) {
		p.sendNotice(sp, "truncated", func(f *turn.Frames) {
			for _, name := range []string{"truncatedAtStep", "fromSequence", "atSequence"} {
				f.Raw(name, e.Item.Get(name))
			}
		})
	}
}

// remove restores the state of an agent without the removed records.
func (sp *speaker) remove(taken func(chunk.Ordinal) bool) {
	sp.stepping, sp.pending, sp.workStep, sp.agent.Suspended = false, nil, "", false
	sp.blockAt = slices.DeleteFunc(sp.blockAt, taken)
	sp.steps = slices.DeleteFunc(sp.steps, func(s stepTotal) bool { return taken(s.at) })
	if taken(sp.outputAt) {
		sp.output, sp.outputAt = nil, 0
	}
	if taken(sp.failureAt) {
		sp.failure, sp.failureAt, sp.tripped = "", 0, false
	}
}

package mastra

import (
	"maps"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/turn"
)

const codeTripwire = "tripwire"

// pause ends the response: the answer waits for a user, for the client, or for nothing that runs.
func (p *printer) pause(it *turn.Item) {
	if sp := p.own; it.By.Own() {
		p.flushStep(sp)
		if p.clientRuns() {
			p.finishStep(sp, dialect.ReasonToolCalls, turn.Usage{})
			p.finish(sp, dialect.ReasonToolCalls)
		}
		if sp.workflow {
			p.workflowFinish(sp, "suspended")
		}
	}
	p.endResponse()
}

// clientRuns reports whether the agent waits for calls that the client runs, and for no user. The response then ends with the reason tool-calls, at which the client
// runs them, and any other call of a tool that it has: it does not know of a sub-agent that names the call.
func (p *printer) clientRuns() bool {
	calls := p.turn.OpenCalls()
	asks := func(c *turn.Call) bool { return c.ApprovalID != nil || c.SuspendedAt > 0 }
	if p.turn.Suspended() || slices.ContainsFunc(calls, asks) || !slices.ContainsFunc(calls, p.waitsForClient) {
		return false
	}
	for _, c := range calls {
		if c.By.Own() && announcedIn(c) > 0 && !c.Delegated {
			c.Mark[0] |= ranByClient
		}
	}
	return true
}

// ended ends the response of a turn that has ended, or was stopped. The error of one that has failed is written unless it was before.
func (p *printer) ended(e *turn.Event) {
	sp := p.own
	p.flushStep(sp)
	switch {
	case e.Kind == turn.Fail && sp.tripped: // its chunk is the last one of Mastra's own response
	case e.Kind == turn.Fail:
		p.failure(e.Item, sp, e.Code)
		p.conclude(sp, dialect.ReasonError)
	case e.Reason == turn.Superseded:
		p.conclude(sp, dialect.ReasonOther)
	case e.Reason == turn.Interrupted:
		p.abort(sp, e.Item.Get("reason"))
	case e.Reason == turn.Aborted:
		p.abort(sp, e.Item.Get("error"))
	default:
		p.conclude(sp, sp.reason())
	}
	p.endResponse()
}

// conclude ends the output of an agent, of a workflow, or of a network, whose own chunk has ended it.
func (p *printer) conclude(sp *speaker, reason string) {
	p.flushStep(sp)
	p.finishStep(sp, reason, turn.Usage{})
	switch {
	case sp.network:
	case !sp.workflow:
		p.finish(sp, reason)
	case reason == dialect.ReasonError:
		p.workflowFinish(sp, "failed")
	default:
		p.workflowFinish(sp, "success")
	}
}

// finish ends the output of an agent. The original's code fails without messages.
func (p *printer) finish(sp *speaker, reason string) {
	p.open(sp, "finish")
	p.f.Nest("stepResult")
	p.f.String("reason", reason)
	p.f.Bool("isContinued", false)
	p.f.Close()
	p.usage(sp.total())
	p.f.Raw("messages", []byte(`{"all":[],"user":[],"nonUser":[]}`))
	p.shut(sp)
}

func (p *printer) workflowFinish(sp *speaker, status string) {
	p.open(sp, "workflow-finish")
	p.f.String("workflowStatus", status)
	p.usage(sp.total())
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
	switch {
	case it.Text("code") == codeTripwire:
		sp.tripped = true
		p.open(sp, "tripwire")
		p.f.Raw("reason", it.Get("error"))
		p.f.Flag("retry", it.Is("recoverable"))
		p.shut(sp)
	case it.Is("recoverable"):
		p.sendNotice(sp, "error", func(o *rawjson.Object) {
			o.Raw("error", it.Get("error"))
			o.Raw("code", e.Code)
			o.Flag("recoverable", true)
		})
	default:
		sp.failureAt = 0
		p.failure(it, sp, e.Code)
	}
}

// abort ends the output of the session's agent as Mastra does: without an end of the step.
func (p *printer) abort(sp *speaker, reason chunk.Value) {
	p.open(sp, "abort")
	p.f.Raw("reason", reason)
	p.shut(sp)
	p.finish(sp, codeTripwire)
	sp.stepping = false
}

// removed handles the removal of records: the step that a crashed worker left unfinished. Mastra's clients cannot remove what they have; the state here is that
// of a reader that never got the removed records, so that what follows is the same for both.
func (p *printer) removed(e *turn.Event, sp *speaker) {
	own := sp.agent.Own()
	writes := !e.Quiet && (own || sp.parent != nil)
	if writes {
		p.ensureStart()
		sp.pending = nil
		p.finishStep(sp, dialect.ReasonOther, turn.Usage{})
	}
	sp.remove(e.Taken)
	maps.DeleteFunc(p.late, func(key turn.CallKey, at chunk.Ordinal) bool { return key.Agent == sp.agent.Session && e.Taken(at) })
	for _, c := range p.turn.OpenCalls() {
		if c.By == sp.agent {
			p.removeOutput(c, e.Taken)
		}
	}
	if writes && own {
		p.sendNotice(sp, "truncated", e.Item.WriteNotice)
	}
}

// remove restores the state of an agent without the removed records.
func (sp *speaker) remove(taken func(chunk.Ordinal) bool) {
	sp.stepping, sp.pending, sp.workStep = false, nil, ""
	sp.blockAt = slices.DeleteFunc(sp.blockAt, taken)
	sp.steps = slices.DeleteFunc(sp.steps, func(s stepTotal) bool { return taken(s.at) })
	if taken(sp.suspendedAt) {
		sp.agent.Suspended = false
	}
	if taken(sp.outputAt) {
		sp.output, sp.outputAt = nil, 0
	}
	if taken(sp.failureAt) {
		sp.failure, sp.failureAt, sp.tripped = "", 0, false
	}
}

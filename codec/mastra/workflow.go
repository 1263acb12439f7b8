package mastra

import (
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
)

// translateOther translates the chunks of workflows and of the application. Those of a workflow's steps have more content than step chunks can hold, and are
// kept in addition to them.
func (t *translator) translateOther(a *agent, m message) bool {
	if strings.HasPrefix(m.kind, "data-") {
		return a.data(m.Object)
	}
	if known, understood := t.translateNetwork(a, m); known {
		return understood
	}
	id, known := m.payload.Text("id")
	switch {
	case m.kind == "workflow-finish":
		return t.workflowFinish(a, m.payload)
	case !known:
		return false
	case m.kind == "workflow-step-start":
		a.NextStep(&id)
		t.passThrough(a, m)
	case m.kind == "workflow-step-result":
		t.stepResult(a, id, m)
	case m.kind == "workflow-step-suspended":
		a.ending, a.waitFor = waits, "workflow_suspended"
		t.passThrough(a, m)
		a.Emit(chunk.RunPaused{RunID: a.run, Reason: a.waitFor})
	default:
		return false
	}
	return true
}

func (t *translator) stepResult(a *agent, id string, m message) {
	reason := "other"
	switch status, _ := m.payload.Text("status"); status {
	case "success":
		reason = "stop"
	case "failed":
		reason = "error"
		if v := m.payload.Peek("error"); v != nil {
			a.failure = readFailure(v)
		}
	}
	t.passThrough(a, m) // before the end: the content of a step belongs into it
	a.Emit(chunk.StepEnd{StepID: &id, FinishReason: &reason})
}

// workflowFinish ends the response; the status determines whether the run ends too.
func (t *translator) workflowFinish(a *agent, p *dialect.Object) bool {
	status, _ := p.Text("workflowStatus")
	a.over = true
	switch status {
	case "success", "bailed": // a workflow ended early with a result
		a.ending = finished
		if v := p.Peek("finalWorkflowResult"); v != nil {
			return t.output(a, v)
		}
	case "failed", "tripwire":
		a.ending = failed
		if v := p.Peek("error"); v != nil {
			a.failure = readFailure(v)
		}
	case "suspended", "paused", "waiting":
		a.ending, a.waitFor = waits, "workflow_"+status
	case "canceled":
		a.ending = finished
		a.Emit(chunk.RunInterrupted{RunID: a.run})
	default:
		a.ending = finished
		return false
	}
	return true
}

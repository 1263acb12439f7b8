package mastra

import (
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// translateOther translates the chunks of workflows and of the application. Those of a workflow's steps have more content than step chunks can hold, and are
// kept in addition to them.
func (t *Translator) translateOther(a *agent, m message) bool {
	if name, ok := strings.CutPrefix(m.kind, "data-"); ok {
		data, has := m.object["data"]
		if has {
			t.emit(a, chunk.Custom{EventName: name, Data: data})
		}
		return has
	}
	if known, understood := t.translateNetwork(a, m); known {
		return understood
	}
	id, known := m.payload.text("id")
	switch {
	case m.kind == "workflow-finish":
		return t.workflowFinish(a, m.payload)
	case !known:
		return false
	case m.kind == "workflow-step-start":
		a.step++
		t.emit(a, chunk.StepStart{StepID: &id})
		t.passThrough(a, m)
	case m.kind == "workflow-step-result":
		t.stepResult(a, id, m)
	case m.kind == "workflow-step-suspended":
		a.ending, a.waitFor = waits, "workflow_suspended"
		t.passThrough(a, m)
		t.emit(a, chunk.RunPaused{RunID: a.run, Reason: a.waitFor})
	default:
		return false
	}
	return true
}

func (t *Translator) stepResult(a *agent, id string, m message) {
	reason := "other"
	switch status, _ := m.payload.text("status"); status {
	case "success":
		reason = "stop"
	case "failed":
		reason = "error"
		if v, ok := m.payload["error"]; ok {
			a.failure = readFailure(v)
		}
	}
	t.passThrough(a, m) // before the end: the content of a step belongs into it
	t.emit(a, chunk.StepEnd{StepID: &id, FinishReason: &reason})
}

// workflowFinish ends the response; the status determines whether the run ends too.
func (t *Translator) workflowFinish(a *agent, p object) bool {
	status, _ := p.text("workflowStatus")
	a.over = true
	switch status {
	case "success", "bailed": // a workflow ended early with a result
		a.ending = finished
		if v, ok := p["finalWorkflowResult"]; ok {
			return t.output(a, v)
		}
	case "failed", "tripwire":
		a.ending = failed
		if v, ok := p["error"]; ok {
			a.failure = readFailure(v)
		}
	case "suspended", "paused", "waiting":
		a.ending, a.waitFor = waits, "workflow_"+status
	case "canceled":
		a.ending = finished
		t.emit(a, chunk.RunInterrupted{RunID: a.run})
	default:
		a.ending = finished
		return false
	}
	return true
}

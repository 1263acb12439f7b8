package mastra

import (
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// understandRest says what the chunks of workflows and of the application mean.
// Those of a workflow's steps have more to tell than our steps hold, and are kept
// beside them.
func (t *Translator) understandRest(a *agent, m message) bool {
	if name, ok := strings.CutPrefix(m.kind, "data-"); ok {
		data, has := m.object["data"]
		if has {
			t.say(a, chunk.Custom{EventName: name, Data: data})
		}
		return has
	}
	a.network(m.kind)
	id, known := m.payload.text("id")
	switch {
	case m.kind == "workflow-finish":
		return t.workflowFinish(a, m.payload)
	case !known:
		return false
	case m.kind == "workflow-step-start":
		a.step++
		t.say(a, chunk.StepStart{StepID: &id})
		t.keep(a, m)
	case m.kind == "workflow-step-result":
		t.stepResult(a, id, m)
	case m.kind == "workflow-step-suspended":
		a.ending, a.waitFor = waits, "workflow_suspended"
		t.keep(a, m)
		t.say(a, chunk.RunPaused{RunID: a.run, Reason: a.waitFor})
	default:
		return false
	}
	return true
}

// network notes how a run stands of which a network of agents tells. What its
// chunks say has no counterpart, but without this a good end would pass for a
// broken one.
func (a *agent) network(kind string) {
	switch kind {
	case "network-execution-event-finish", "routing-agent-abort":
		a.ending = finished
	case "agent-execution-approval", "agent-execution-suspended", "workflow-execution-suspended",
		"tool-execution-approval", "tool-execution-suspended":
		a.ending, a.waitFor = waits, "network_suspended"
	}
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
	t.keep(a, m) // before the end: what a step says belongs into it
	t.say(a, chunk.StepEnd{StepID: &id, FinishReason: &reason})
}

// workflowFinish closes the response; the status says whether also the run.
func (t *Translator) workflowFinish(a *agent, p object) bool {
	status, _ := p.text("workflowStatus")
	a.over = true
	switch status {
	case "success", "bailed": // a workflow bails out with a result
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
		t.say(a, chunk.RunInterrupted{RunID: a.run})
	default:
		a.ending = finished
		return false
	}
	return true
}

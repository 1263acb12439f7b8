package mastra

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// Reasons for errors for which Mastra has none.
var (
	broken      = failure{text: "the stream of the agent broke off"}
	unspecified = failure{text: "the agent failed without saying why"}
)

// resume reactivates a paused run: another response has started.
func (t *Translator) resume(a *agent) {
	if !a.paused {
		return
	}
	a.paused, a.ending, a.waiting = false, interrupted, nil
	t.emit(a, chunk.StreamActive{})
}

// finish handles the end of an answer. Of two ends the worse one counts, and an agent whose call waits has a finish too.
func (a *agent) finish(reason string) {
	a.over = true
	a.broke = a.broke || reason == "error"
	switch {
	case a.broke:
		a.ending = failed
	case len(a.waiting) > 0:
		a.ending = waits
	default:
		a.ending = finished
	}
}

// wait notes that a call waits for a user.
func (a *agent) wait(id, reason string) {
	a.ending, a.waitFor = waits, reason
	a.waiting = append(a.waiting, id)
}

// answered notes that a call has its outcome.
func (a *agent) answered(id string) {
	a.waiting = slices.DeleteFunc(a.waiting, func(waiting string) bool { return waiting == id })
}

// end handles the end of a response.
func (t *Translator) end(a *agent) {
	if a.ending == waits {
		t.pause(a)
		return
	}
	t.conclude(a)
}

// pause suspends a and all its sub-agents.
func (t *Translator) pause(a *agent) {
	if a.paused {
		return
	}
	for _, c := range a.children {
		t.pause(c)
	}
	a.paused = true
	if a.waitFor == "" {
		a.waitFor = a.parent.waitFor
	}
	t.emit(a, chunk.StreamPaused{Reason: &a.waitFor})
}

// close ends the sub-agents of a call, because the call has its outcome. If they have not ended, they get the outcome of the call.
func (t *Translator) close(a *agent, callID string, why failure, how ending) {
	for _, c := range slices.Backward(slices.Clone(a.children)) {
		if c.callID != callID {
			continue
		}
		if c.ending == interrupted || c.ending == waits {
			c.ending, c.failure = how, why
		}
		t.conclude(c)
	}
}

// conclude ends a stream, its sub-agents first, and reports the end to the parent.
func (t *Translator) conclude(a *agent) {
	if a.ended {
		return
	}
	for _, c := range slices.Backward(slices.Clone(a.children)) {
		if c.ending == waits {
			c.ending = interrupted
		}
		t.conclude(c)
	}
	a.ended = true
	switch {
	case a.ending == interrupted:
		a.ending, a.failure = failed, broken
	case a.ending == failed && a.failure.text == "":
		a.failure.text = unspecified.text
	}
	switch a.ending {
	case failed:
		t.emit(a, chunk.StreamFailed{Error: a.failure.text, ErrorDetail: a.failure.detail()})
	default:
		end := chunk.StreamEnd{StreamID: a.session}
		if a.output != nil {
			end.FinalOutput = &a.output
		}
		t.emit(a, end)
	}
	if p := a.parent; p != nil {
		t.emit(p, chunk.SubagentEnd{SubAgentType: a.kind, SubSessionID: a.session, CallID: a.callID, Result: a.result()})
		p.children = slices.DeleteFunc(p.children, func(c *agent) bool { return c == a })
	}
}

package mastra

import (
	"cmp"
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// resume reactivates a paused run: another response has started.
func (t *translator) resume(a *agent) {
	if a.Resume() {
		a.ending, a.waiting = interrupted, nil
	}
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

// pause suspends a and all its sub-agents. reason is that of its parent.
func (t *translator) pause(a *agent, reason string) {
	if a.Paused {
		return
	}
	for _, c := range a.children {
		t.pause(c, a.waitFor)
	}
	a.waitFor = cmp.Or(a.waitFor, reason)
	a.Pause(a.waitFor)
}

// close ends the sub-agents of a call, because the call has its outcome. If they have not ended, they get the outcome of the call.
func (t *translator) close(a *agent, callID string, why chunk.ErrorDetail, how ending) {
	for _, c := range slices.Backward(slices.Clone(a.children)) {
		if c.CallID != callID {
			continue
		}
		if c.ending == interrupted || c.ending == waits {
			c.ending, c.failure = how, why
		}
		t.conclude(c, nil)
	}
}

// conclude ends a stream, its sub-agents first, and reports the end to the parent: result, if it is not nil, for an agent without output.
func (t *translator) conclude(a *agent, result chunk.Value) {
	if a.Ended {
		return
	}
	for _, c := range slices.Backward(slices.Clone(a.children)) {
		if c.ending == waits {
			c.ending = interrupted
		}
		t.conclude(c, nil)
	}
	switch {
	case a.ending == interrupted:
		a.ending, a.failure = failed, chunk.ErrorDetail{Message: "the stream of the agent broke off"}
	case a.ending == failed && a.failure.Message == "":
		a.failure.Message = "the agent failed without saying why"
	}
	var f *chunk.ErrorDetail
	if a.ending == failed {
		f = &a.failure
	}
	if a.output != nil || len(a.Texts) > 0 {
		result = a.output
	}
	a.End(f, a.output, result)
	if a.above != nil {
		a.above.children = slices.DeleteFunc(a.above.children, func(c *agent) bool { return c == a })
	}
}

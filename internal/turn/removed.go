package turn

import (
	"github.com/tailrace/tailrace/chunk"
)

// truncated handles the removal of records: the step that a crashed worker left unfinished. The state becomes that without the removed records, so that a Machine
// which never got them writes the same.
func (m *Machine) truncated(it *Item) {
	taken := removedBy(it)
	if taken == nil {
		return
	}
	m.closeSteps(it)
	m.own.First = 0
	m.own.Step = 0
	for _, c := range m.calls.remove(taken, &m.own) {
		m.emit(&Event{Kind: CallGone, Item: it, Agent: c.By, Call: c, Quiet: !m.open})
	}
	m.own.hidden.remove(taken)
	for _, a := range m.order {
		if a.Running && a.Parent == &m.own && taken(a.startedAt) {
			if m.open {
				m.closeStep(a, it)
				m.emit(&Event{Kind: AgentGone, Item: it, Agent: a})
			}
			m.stopRunning(a)
		}
	}
	m.data.remove(taken)
	if !m.idle {
		m.respond(it)
	}
	m.emit(&Event{Kind: Removed, Item: it, Taken: taken, Quiet: m.idle || m.ahead.isWhole()})
}

// removedBy returns which records a truncated record removes, nil for a malformed one.
func removedBy(it *Item) func(chunk.Ordinal) bool {
	b, ok := chunk.BodyOf[chunk.Truncated](*it.Rec)
	if !ok {
		return nil
	}
	at := it.Rec.Ordinal
	return func(o chunk.Ordinal) bool { return o > 0 && o < at && b.Removes(o) }
}

package aisdk

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// truncated handles the removal of records: the step that a crashed worker left unfinished. Only a client of version 7 can remove its parts, and only if
// they are all parts since the last step-start; other clients get a notice and reload the message.
func (m *MessageWriter) truncated(it *item) {
	b, _ := chunk.BodyOf[chunk.Truncated](it.rec)
	m.closeAll()
	taken := func(o chunk.Ordinal) bool { return o > 0 && o < it.rec.Ordinal && b.Removes(o) }
	exact := m.isLastStep(b.Removed) && !taken(m.streamAt)
	m.discard(taken)
	m.own.step = 0
	switch {
	case m.replay != nil && m.replay.fresh: // no client has those records
	case exact:
		m.open("reset-step")
		m.shut()
		m.steps.kept = true
		m.steps.firstAt, m.steps.producedAt = 0, 0
	default:
		m.notice(it, "truncated", "truncatedAtStep", "fromSequence", "atSequence")
	}
}

// isLastStep reports whether the removed records are exactly those since the last start-step.
func (m *MessageWriter) isLastStep(removed []chunk.OrdinalRange) bool {
	s := m.steps
	if m.opt.Major < 7 || m.opt.NoSteps || s.unclear || s.firstAt == 0 || len(removed) != 1 {
		return false
	}
	first, last := chunk.Ordinal(removed[0].First), chunk.Ordinal(removed[0].Last)
	return s.startedAt > 0 && s.startedAt <= first && first <= s.firstAt && s.producedAt <= last
}

// discard restores the state of the message without the removed records. The retried step may use the same ids, and is shown in the same parts.
func (m *MessageWriter) discard(taken func(chunk.Ordinal) bool) {
	m.rollBackFinished(taken)
	m.own.hidden.Remove(taken)
	open := m.openCalls
	m.openCalls = nil
	clear(m.shown)
	for _, c := range open {
		if !isOwn(c) || !c.rollBack(taken) {
			m.addOpen(c)
		}
	}
	m.findLatest()
	gone := func(c *call) bool { return !m.shown[c.id] }
	m.steps.questions, m.steps.delegated = slices.DeleteFunc(m.steps.questions, gone), slices.DeleteFunc(m.steps.delegated, gone)
	for session, at := range m.children {
		if taken(at) {
			delete(m.children, session)
		}
	}
	if taken(m.streamAt) {
		m.streams = nil
	}
}

// rollBackFinished reverts the changes of removed records to finished calls.
func (m *MessageWriter) rollBackFinished(taken func(chunk.Ordinal) bool) {
	isAffected := func(c *finishedCall) bool {
		return c.isOwn() && (taken(c.begunAt) || taken(c.sentAt) || taken(c.completedAt))
	}
	affected := false
	m.finished.each(func(c *finishedCall) { affected = affected || isAffected(c) })
	if !affected {
		return
	}
	var kept finishedCalls
	m.finished.each(func(stored *finishedCall) {
		c := stored.call()
		switch {
		case isAffected(stored) && c.rollBack(taken):
		case c.completed:
			kept.add(c)
		default: // it is open again
			m.addOpen(c)
			if c.delegated && c.delegatedIn == m.steps.number {
				m.steps.delegated = append(m.steps.delegated, c)
			}
		}
	})
	m.finished = kept
}

// findLatest finds the latest call of each id. Ids with numbers are free again if their calls are removed.
func (m *MessageWriter) findLatest() {
	clear(m.calls)
	for _, c := range m.openCalls {
		if l := m.calls[c.key]; l == nil || l.number < c.number {
			m.calls[c.key] = c
		}
	}
	if len(m.reused) == 0 {
		return
	}
	type latest struct{ number, suffix int }
	all := make(map[callKey]latest)
	m.finished.each(func(c *finishedCall) {
		key := c.key()
		if _, reused := m.reused[key]; reused && c.number > all[key].number {
			all[key] = latest{c.number, c.suffix}
		}
	})
	for key, c := range m.calls {
		if c.number > all[key].number {
			all[key] = latest{c.number, c.suffix}
		} else {
			delete(m.calls, key) // a later one with the same id is finished
		}
	}
	for key := range m.reused {
		if l, ok := all[key]; ok {
			m.reused[key] = reuse{suffix: l.suffix}
		} else {
			delete(m.reused, key)
		}
	}
}

// isOwn reports whether a call is of the message's own agent. A truncation record of the message removes only records of its session.
func isOwn(c *call) bool { return c.key.agent == "" }

// rollBack reverts the changes of removed records to a call, and reports whether its start is removed.
func (c *call) rollBack(taken func(chunk.Ordinal) bool) bool {
	if taken(c.begunAt) {
		return true
	}
	c.streaming = false
	c.sent = c.sent && !taken(c.sentAt)
	c.completed = c.completed && !taken(c.completedAt)
	if taken(c.completedAt) {
		c.again = nil
	}
	if taken(c.approvalAt) {
		c.approvalID = nil
	}
	return false
}

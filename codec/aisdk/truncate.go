package aisdk

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// truncated tells that records were taken back: the step that a dead worker left
// unfinished. What the client shows of it only a client of version 7 can take
// back, and only if it is everything since the last step-start; any other is
// told to load the page anew.
func (m *Message) truncated(it *item) {
	c, _ := it.rec.Decode() // its members were read
	b, _ := chunk.As[chunk.Truncated](c)
	m.closeAll()
	taken := func(o chunk.Ordinal) bool {
		return o > 0 && o < it.rec.Ordinal && slices.ContainsFunc(b.Removed, func(r chunk.OrdinalRange) bool {
			return r.First <= int64(o) && int64(o) <= r.Last
		})
	}
	exact := m.isLastStep(b.Removed) && !taken(m.streamAt)
	m.forget(taken)
	m.own.step = 0
	switch {
	case m.replay != nil && m.replay.fresh: // nobody was told those records
	case exact:
		m.open("reset-step")
		m.shut()
		m.steps.kept = true
		m.steps.firstAt, m.steps.producedAt = 0, 0
	default:
		m.notice(it, "truncated", "truncatedAtStep", "fromSequence", "atSequence")
	}
}

// isLastStep reports whether what was taken back is all there is since the last
// start-step, and nothing before it.
func (m *Message) isLastStep(removed []chunk.OrdinalRange) bool {
	s := m.steps
	if m.opt.Major < 7 || m.opt.NoSteps || s.unclear || s.firstAt == 0 || len(removed) != 1 {
		return false
	}
	first, last := chunk.Ordinal(removed[0].First), chunk.Ordinal(removed[0].Last)
	return s.startedAt > 0 && s.startedAt <= first && first <= s.firstAt && s.producedAt <= last
}

// forget makes the message as if records had not been: what is done anew may
// have the same ids, and is shown in the same parts.
func (m *Message) forget(taken func(chunk.Ordinal) bool) {
	m.everyCall = slices.DeleteFunc(m.everyCall, func(c *call) bool {
		return c.key.agent == "" && m.undo(c, taken)
	})
	clear(m.calls)
	for _, c := range m.everyCall {
		m.calls[c.key] = c
	}
	gone := func(c *call) bool { return !m.shown[c.id] }
	m.steps.asked, m.steps.delegated = slices.DeleteFunc(m.steps.asked, gone), slices.DeleteFunc(m.steps.delegated, gone)
	for session, at := range m.children {
		if taken(at) {
			delete(m.children, session)
		}
	}
	if taken(m.streamAt) {
		m.streams = nil
	}
}

// undo takes back what records made of a call, and reports whether it never was.
func (m *Message) undo(c *call, taken func(chunk.Ordinal) bool) bool {
	if taken(c.begunAt) {
		delete(m.shown, c.id)
		return true
	}
	c.streaming = false
	c.sent = c.sent && !taken(c.sentAt)
	c.settled = c.settled && !taken(c.settledAt)
	if taken(c.settledAt) {
		c.again = nil
	}
	if taken(c.askedAt) {
		c.asked = nil
	}
	return false
}

package aisdk

import (
	"bytes"
	"hash/maphash"

	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/dialect"
)

// approvalRequest writes a request to the user. A request that a rule answers is not shown: clients of version 6 would still ask.
func (m *MessageWriter) approvalRequest(it *item) {
	name := it.Text("toolName")
	if name == dialect.FinishTool {
		return
	}
	c, input := m.call(it, name), it.orNull("input")
	c.setMembers(it, name)
	if !it.sp.own() && c.begunAt == it.rec.Ordinal && !it.is("isAutomatic") {
		m.separateStep()
	}
	m.available(it, c, input)
	if !c.client && c.inputHash != maphash.Bytes(sums, input) {
		// Users must see what they approve, also if the call began with another input.
		m.markVisible(it)
		m.input(it, c, input)
	}
	if it.is("isAutomatic") {
		return
	}
	id := rawjson.AppendEscaped(nil, it.Text("approvalId"))
	c.approvalID, c.approvalAt = id, it.rec.Ordinal
	c.question, c.again = true, nil
	m.ask(c)
	if m.opt.Major < 7 {
		c.approved = m.frame(func() { m.input(it, c, input) })
	}
	if m.replay.answers(it) {
		return
	}
	m.markVisible(it)
	m.open("tool-approval-request")
	m.json.Content("approvalId", id)
	m.json.Content("toolCallId", c.shown)
	m.shut()
}

// approvalResponse writes a decision. Version 6 has no chunk for it: the output of the tool, or the denial, updates its part.
func (m *MessageWriter) approvalResponse(it *item) {
	c := m.known(it)
	if it.Text("toolName") == dialect.FinishTool || c == nil || c.completed {
		return
	}
	m.markVisible(it)
	id := rawjson.AppendEscaped(nil, it.Text("approvalId"))
	if m.opt.Major >= 7 && c.approvalID != nil && bytes.Equal(c.approvalID, id) {
		m.open("tool-approval-response")
		m.json.Content("approvalId", id)
		m.json.Raw("approved", it.Get("approved"))
		m.pass(it, "reason")
		m.shut()
		m.rememberFrame(c)
	}
	c.approvalID = nil
	if it.is("approved") {
		c.completedAt = it.rec.Ordinal
		if c.approved != nil && !c.client {
			c.again = c.approved
		}
		return
	}
	m.outcomeBeforeStart(it, c)
	m.complete(it, c)
	m.open("tool-output-denied")
	m.json.Content("toolCallId", c.shown)
	m.shut()
	m.rememberFrame(c)
}

package aisdk

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// finishTool is the injected tool that carries the structured output and is
// never shown; subagentTool begins the names of tools that are sub-agents.
const (
	finishTool   = "__finish__"
	subagentTool = "subagent__"
)

// callKey names a call: ids are the producer's, one agent's are not another's.
type callKey struct{ agent, id string }

// call is a tool call of the message.
type call struct {
	key       callKey
	id        string // under which the client knows it
	shown     []byte // the same as content of a JSON string
	client    bool   // the browser runs it
	delegated bool   // a sub-agent does it
	streaming bool   // its arguments stream
	sent      bool   // tool-input-available went out
	told      uint64 // sum of the input in it
	asked     []byte // id of the approval that waits for a decision, nil for none
	settled   bool   // it has its outcome
	question  bool   // the client was asked about it
	granted   []byte // version 6: the frame that shows it granted, its input once more
	again     []byte // of such a one: the frame that tells the latest of it once more, nil while it is open

	// The records that made it so. They may be taken back.
	begunAt, sentAt, askedAt, settledAt chunk.Ordinal
}

var (
	emptyInput = []byte("{}")
	null       = []byte("null")
)

// sums tells inputs apart.
var sums = maphash.MakeSeed()

// SplitCallID takes the id of a tool part apart: the session of the sub-agent
// whose call it is, "" for the message's own agent, and the id of the call there.
func SplitCallID(id string, isSession func(string) bool) (session, call string) {
	if s, c, ok := strings.Cut(id, "/"); ok && isSession(s) {
		return s, c
	}
	return "", id
}

// call is the call that begins, or goes on: the one of that id, unless it has
// its outcome.
func (m *Message) call(it *item, name string) *call {
	m.close(it.sp)
	id := it.Text("toolCallId")
	key := callKey{it.sp.agent, id}
	if c := m.calls[key]; c != nil && !c.settled {
		return c
	}
	c := &call{key: key, id: m.showAs(it.sp, id), client: m.runsInClient(it, name), delegated: strings.HasPrefix(name, subagentTool), begunAt: it.rec.Ordinal}
	c.shown = appendEscaped(nil, c.id)
	m.calls[key] = c
	m.everyCall = append(m.everyCall, c)
	if !m.steps.begun && !m.steps.open && slices.ContainsFunc(m.steps.asked, (*call).lures) {
		m.startStep() // should this be a question too, the page would post the old answer again
	}
	m.speak(it)
	return c
}

// known is the latest call of that id, nil if there is none.
func (m *Message) known(it *item) *call { return m.calls[callKey{it.sp.agent, it.Text("toolCallId")}] }

// showAs gives a call an id that no other part has.
func (m *Message) showAs(sp *speaker, id string) string {
	if !sp.own() {
		id = sp.agent + "/" + id
	}
	unique := id
	for n := 2; m.shown[unique]; n++ {
		unique = id + "_" + strconv.Itoa(n)
	}
	m.shown[unique] = true
	return unique
}

// runsInClient reports whether the browser runs a call.
func (m *Message) runsInClient(it *item, name string) bool {
	if strings.HasPrefix(name, subagentTool) {
		return false
	}
	if v := it.Get("providerExecuted"); v != nil {
		return string(v) == "false"
	}
	return m.opt.ClientTool != nil && m.opt.ClientTool(name)
}

func (m *Message) toolArgsStart(it *item) {
	name := it.Text("toolName")
	if name == finishTool {
		return
	}
	c := m.call(it, name)
	m.produced(it)
	c.streaming, c.sent, c.asked = true, false, nil
	m.open("tool-input-start")
	m.text("toolCallId", c.shown)
	m.value("toolName", it.Get("toolName"))
	m.dynamic(c)
	m.shut()
}

func (m *Message) dynamic(c *call) {
	m.flag("dynamic", true)
	m.flag("providerExecuted", !c.client)
}

func (m *Message) toolArgsDelta(it *item) {
	piece, c := it.content("delta"), m.known(it)
	if len(piece) == 0 || c == nil || !c.streaming {
		return
	}
	m.produced(it)
	key := deltaKey{part: c}
	if m.grow(key, piece) {
		return
	}
	m.open("tool-input-delta")
	m.text("toolCallId", c.shown)
	m.delta("inputTextDelta", piece, key)
}

// cutInputs ends the inputs that stream. Who goes on begins them anew, and a
// client reads a piece of an input only in the response in which it began.
func (m *Message) cutInputs() {
	for _, c := range m.everyCall {
		c.streaming = false
	}
}

func (m *Message) toolStart(it *item) {
	if name := it.Text("toolName"); name != finishTool {
		m.available(it, m.call(it, name), it.Get("arguments"))
	}
}

// available tells the input of a call, once: told again the client would run
// its tool again.
func (m *Message) available(it *item, c *call, input []byte) {
	if c.sent {
		return
	}
	m.produced(it)
	c.sent, c.sentAt, c.streaming = true, it.rec.Ordinal, false
	if c.delegated {
		m.steps.delegated = append(m.steps.delegated, c)
	}
	if c.client {
		c.question, m.steps.asked = true, append(m.steps.asked, c)
	}
	m.input(it, c, input)
}

func (m *Message) input(it *item, c *call, input []byte) {
	c.told = maphash.Bytes(sums, input)
	m.open("tool-input-available")
	m.text("toolCallId", c.shown)
	m.value("toolName", it.Get("toolName"))
	m.guarded("input", input)
	m.dynamic(c)
	m.shut()
}

// awaited is the call that a record brings news of, nil if they change nothing:
// they come too late, or the call is of an earlier message. A call of ours whose
// start nobody saw is shown first.
func (m *Message) awaited(it *item, ours bool) *call {
	name := it.Text("toolName")
	if name == finishTool {
		return nil
	}
	c := m.known(it)
	if c == nil && ours {
		c = m.call(it, name)
		m.unheard(it, c)
	}
	if c == nil || c.settled {
		return nil
	}
	return c
}

// unheard shows the input of a call whose outcome comes before its start. The
// SDK's check of a history refuses an outcome without one, see fold.
func (m *Message) unheard(it *item, c *call) {
	if !c.sent {
		c.client = false // too late for the browser
		m.available(it, c, emptyInput)
	}
}

// lures reports whether a call that was answered makes the page post beside one
// that is open: the browser's own, and one that was granted and has no outcome.
func (c *call) lures() bool { return c.again != nil && (c.client || !c.settled) }

// unanswered reports whether the client is asked about a call.
func (c *call) unanswered() bool { return c.again == nil }

// open reports whether a call has no outcome.
func (c *call) open() bool { return !c.settled }

func (m *Message) settle(it *item, c *call) {
	m.produced(it)
	c.settled, c.settledAt, c.streaming, c.asked = true, it.rec.Ordinal, false, nil
}

// keep remembers the frame that was just written, the latest of a call that the
// client was asked about.
func (m *Message) keep(c *call) {
	if c.question {
		c.again = append([]byte(nil), m.dst[m.last:]...)
	}
}

func (m *Message) toolEnd(it *item) {
	ours := it.is("providerExecuted")
	c := m.awaited(it, ours)
	if c == nil {
		return
	}
	if it.Get("error") != nil {
		m.outputError(it, c, ours)
		return
	}
	m.unheard(it, c)
	m.settle(it, c)
	m.open("tool-output-available")
	m.text("toolCallId", c.shown)
	m.guarded("output", it.Get("result"))
	m.flag("dynamic", true)
	m.flag("providerExecuted", ours)
	m.shut()
	m.keep(c)
}

func (m *Message) outputError(it *item, c *call, ours bool) {
	m.settle(it, c)
	m.open("tool-output-error")
	m.text("toolCallId", c.shown)
	m.value("errorText", it.Get("error"))
	m.flag("dynamic", true)
	m.flag("providerExecuted", ours)
	m.shut()
	m.keep(c)
}

func (m *Message) toolOutputError(it *item) {
	if c := m.awaited(it, true); c != nil {
		m.outputError(it, c, true) // whoever was to run it
	}
}

func (m *Message) toolInputError(it *item) {
	name := it.Text("toolName")
	if name == finishTool {
		return
	}
	c := m.known(it)
	switch {
	case c == nil:
		c = m.call(it, name)
	case c.settled:
		return
	}
	m.close(it.sp)
	m.settle(it, c)
	m.open("tool-input-error")
	m.text("toolCallId", c.shown)
	m.value("toolName", it.Get("toolName"))
	m.guarded("input", it.Get("partialInput")) // the client refuses the chunk without it
	m.value("errorText", it.Get("error"))
	m.flag("dynamic", true)
	// The browser's tool too: nobody asks it to run that, and a step that ends with
	// it must not look as if the browser had answered.
	m.flag("providerExecuted", true)
	m.shut()
	m.keep(c)
}

// approvalRequest asks a person. A question that a rule answers is not shown:
// clients of version 6 would ask all the same.
func (m *Message) approvalRequest(it *item) {
	name := it.Text("toolName")
	if name == finishTool {
		return
	}
	c, input := m.call(it, name), it.orNull("input")
	if !it.sp.own() && c.begunAt == it.rec.Ordinal && !it.is("isAutomatic") {
		m.setApart()
	}
	m.available(it, c, input)
	if !c.client && c.told != maphash.Bytes(sums, input) {
		// People must see what they allow, also when the call began with another
		// input.
		m.produced(it)
		m.input(it, c, input)
	}
	if it.is("isAutomatic") {
		return
	}
	id := appendEscaped(nil, it.Text("approvalId"))
	c.asked, c.askedAt = id, it.rec.Ordinal
	c.question, c.again, m.steps.asked = true, nil, append(m.steps.asked, c)
	if m.opt.Major < 7 {
		c.granted = m.frame(func() { m.input(it, c, input) })
	}
	if m.replay.answers(it) {
		return
	}
	m.produced(it)
	m.open("tool-approval-request")
	m.text("approvalId", id)
	m.text("toolCallId", c.shown)
	m.shut()
}

// approvalResponse tells a decision. Version 6 has no chunk for it: what the tool
// gives, or that it was denied, moves its part on.
func (m *Message) approvalResponse(it *item) {
	c := m.known(it)
	if it.Text("toolName") == finishTool || c == nil || c.settled {
		return
	}
	m.produced(it)
	id := appendEscaped(nil, it.Text("approvalId"))
	if m.opt.Major >= 7 && c.asked != nil && bytes.Equal(c.asked, id) {
		m.open("tool-approval-response")
		m.text("approvalId", id)
		m.value("approved", it.Get("approved"))
		m.pass(it, "reason")
		m.shut()
		m.keep(c)
	}
	c.asked = nil
	if it.is("approved") {
		c.settledAt = it.rec.Ordinal
		if c.granted != nil && !c.client {
			c.again = c.granted
		}
		return
	}
	m.unheard(it, c)
	m.settle(it, c)
	m.open("tool-output-denied")
	m.text("toolCallId", c.shown)
	m.shut()
	m.keep(c)
}

package aisdk

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/dialect"
)

// callKey names a call: ids are the producer's, one agent's are not another's.
type callKey struct{ agent, id string }

// call is a tool call of the message.
type call struct {
	key        callKey
	suffix     int    // number behind the id in the message, 1 for none
	number     int    // of all calls of the message
	place      int    // in MessageWriter.openCalls
	id         string // in the message
	shown      []byte // id as the content of a JSON string
	client     bool   // the browser runs it
	delegated  bool   // a sub-agent executes it
	streaming  bool   // its arguments stream
	toolName   []byte // JSON text; of a call whose arguments streamed
	sent       bool   // tool-input-available was written
	inputHash  uint64 // hash of its input
	approvalID []byte // id of the approval that waits for a decision, nil for none
	completed  bool   // it has its outcome
	question   bool   // the client must answer it
	finished   bool   // it is in MessageWriter.finished
	ui         chunk.Part
	approved   []byte // version 6: the frame that shows it approved, its input again
	again      []byte // of a question: its latest frame, nil while it is open

	// The records of these changes. A truncation record may remove them.
	begunAt, sentAt, approvalAt, completedAt chunk.Ordinal

	// The latest steps in whose lists it was: steps.number.
	questionIn, delegatedIn int
}

// reuse is the state of an id that the message cannot show as it is.
type reuse struct {
	suffix int // of the latest call of the id
	next   int // all lower suffixes are in use
}

// setMembers sets what a record that begins the call says about its part.
func (c *call) setMembers(it *item, name string) {
	ui := it.partMembers()
	c.ui.Static = c.ui.Static || ui.Static && !c.delegated && name != ""
	for to, v := range map[*chunk.Value]chunk.Value{&c.ui.Title: ui.Title, &c.ui.ToolMetadata: ui.ToolMetadata, &c.ui.ProviderMetadata: ui.ProviderMetadata} {
		if v != nil {
			*to = slices.Clone(v) // the record is gone by then
		}
	}
}

// newCall returns a call with the number behind its id.
func newCall(key callKey, suffix int) *call {
	c := &call{key: key, suffix: suffix, id: key.shownID(suffix)}
	c.shown = rawjson.AppendEscaped(nil, c.id)
	return c
}

// shownID returns the id of a call in the message, with the number behind it.
func (k callKey) shownID(suffix int) string {
	id := dialect.CallID(k.agent, k.id)
	if suffix > 1 {
		id += "_" + strconv.Itoa(suffix)
	}
	return id
}

var (
	emptyInput = []byte("{}")
	null       = []byte("null")
)

// sums is the seed of the hashes of inputs.
var sums = maphash.MakeSeed()

// call returns the call of a record, a new one if there is no call with its id or that call has its outcome.
func (m *MessageWriter) call(it *item, name string) *call {
	m.close(it.sp)
	id := it.Text("toolCallId")
	key := callKey{it.sp.agent, id}
	if c := m.calls[key]; c != nil && !c.completed {
		return c
	}
	c := newCall(key, m.freeSuffix(key))
	c.client, c.delegated, c.begunAt = m.runsInClient(it, name), strings.HasPrefix(name, dialect.SubAgentTool), it.rec.Ordinal
	m.callCount++
	c.number = m.callCount
	m.calls[key] = c
	m.addOpen(c)
	if !m.steps.begun && !m.steps.open && slices.ContainsFunc(m.steps.questions, (*call).triggersAutoPost) {
		m.startStep() // if this is a question too, the client would post the old answer again
	}
	m.beginPart(it)
	return c
}

// addOpen adds a call to the calls that are not finished.
func (m *MessageWriter) addOpen(c *call) {
	c.place = len(m.openCalls)
	m.openCalls = append(m.openCalls, c)
	m.shown[c.id] = true
}

// finish moves a call with an outcome to the finished ones. A call that the client had to answer in this step is needed until the next one.
func (m *MessageWriter) finish(c *call) {
	if !c.completed || c.finished || c.questionIn == m.steps.number || m.keepCalls {
		return
	}
	c.finished = true
	n := len(m.openCalls) - 1
	last := m.openCalls[n]
	m.openCalls[c.place], last.place = last, c.place
	m.openCalls[n] = nil
	m.openCalls = m.openCalls[:n]
	delete(m.shown, c.id)
	if m.calls[c.key] == c {
		delete(m.calls, c.key)
	}
	if c.delegated {
		m.steps.delegated = slices.DeleteFunc(m.steps.delegated, func(d *call) bool { return d == c })
	}
	m.finished.add(c)
}

// someFinishedCall is what known returns for a finished call. No record changes it.
var someFinishedCall = &call{completed: true, finished: true}

// known returns the latest call with the id of a record, nil if there is none. It is someFinishedCall if the call is finished.
func (m *MessageWriter) known(it *item) *call {
	key := callKey{it.sp.agent, it.Text("toolCallId")}
	if c := m.calls[key]; c != nil {
		return c
	}
	if _, reused := m.reused[key]; reused || m.finished.has(key) {
		return someFinishedCall
	}
	return nil
}

// shownCallID returns the id in the message of the latest call with a key, the id of the key if there is none.
func (m *MessageWriter) shownCallID(key callKey) string {
	if c := m.calls[key]; c != nil {
		return c.id
	}
	if r, reused := m.reused[key]; reused {
		return key.shownID(r.suffix)
	}
	if m.finished.has(key) {
		return key.shownID(1)
	}
	return key.id
}

// freeSuffix returns the number behind the id of a new call, so that no other part has the same id.
func (m *MessageWriter) freeSuffix(key callKey) int {
	n := 1
	r, reused := m.reused[key]
	if m.isShownID(key.shownID(1)) {
		for n = max(2, r.next); m.isShownID(key.shownID(n)); n++ {
		}
		r.next = n + 1
	}
	if reused || n > 1 {
		if m.reused == nil {
			m.reused = make(map[callKey]reuse)
		}
		r.suffix = n
		m.reused[key] = r
	}
	return n
}

// isShownID reports whether a call is shown under an id.
func (m *MessageWriter) isShownID(id string) bool {
	if m.shown[id] {
		return true
	}
	_, finished := m.finished.find(id)
	return finished
}

// runsInClient reports whether the browser runs a call.
func (m *MessageWriter) runsInClient(it *item, name string) bool {
	if strings.HasPrefix(name, dialect.SubAgentTool) {
		return false
	}
	if v := it.Get("providerExecuted"); v != nil {
		return string(v) == "false"
	}
	return m.opt.ClientTool != nil && m.opt.ClientTool(name)
}

func (m *MessageWriter) toolArgsStart(it *item) {
	name := it.Text("toolName")
	if name == dialect.FinishTool {
		return
	}
	c := m.call(it, name)
	c.setMembers(it, name)
	m.markVisible(it)
	c.streaming, c.sent, c.approvalID = true, false, nil
	c.toolName = bytes.Clone(it.Get("toolName"))
	m.inputStart(c)
}

func (m *MessageWriter) inputStart(c *call) {
	m.open("tool-input-start")
	m.json.Content("toolCallId", c.shown)
	m.json.Raw("toolName", c.toolName)
	m.dynamic(c)
	m.optional("title", c.ui.Title)
	m.shut()
}

func (m *MessageWriter) dynamic(c *call) {
	m.json.Flag("dynamic", !c.ui.Static)
	m.json.Flag("providerExecuted", !c.client)
}

// partMembers writes the members that the chunk schema does not have.
func (m *MessageWriter) partMembers(c *call) {
	m.optional("title", c.ui.Title)
	m.optional("toolMetadata", c.ui.ToolMetadata)
	m.optional("providerMetadata", c.ui.ProviderMetadata)
}

// preliminary writes an output that a later one replaces. The snapshot does not have it, nor does a replay.
func (m *MessageWriter) preliminary(it *item) {
	key := callKey{it.sp.agent, it.Text("data", "toolCallId")}
	c, output := m.calls[key], it.Get("data", "output")
	if c == nil || c.completed || !c.sent || c.approvalID != nil || output == nil || m.replay != nil {
		return
	}
	m.open("tool-output-available")
	m.json.Content("toolCallId", c.shown)
	m.sanitized("output", output)
	m.json.Flag("dynamic", !c.ui.Static)
	m.json.Flag("preliminary", true)
	m.shut()
}

func (m *MessageWriter) toolArgsDelta(it *item) {
	piece, c := it.content("delta"), m.known(it)
	if len(piece) == 0 || c == nil || !c.streaming {
		return
	}
	m.markVisible(it)
	key := deltaKey{part: c}
	if m.grow(key, piece) {
		return
	}
	m.open("tool-input-delta")
	m.json.Content("toolCallId", c.shown)
	m.delta("inputTextDelta", piece, key)
}

// cutInputs ends the inputs that stream. A resumed run restarts them, and a client accepts a piece of an input only in the response in which it began.
func (m *MessageWriter) cutInputs() {
	for _, c := range m.openCalls {
		c.streaming = false
	}
}

func (m *MessageWriter) toolStart(it *item) {
	if name := it.Text("toolName"); name != dialect.FinishTool {
		c := m.call(it, name)
		c.setMembers(it, name)
		m.available(it, c, it.Get("arguments"))
	}
}

// available writes the input of a call once: a second time the client would run its tool again.
func (m *MessageWriter) available(it *item, c *call, input []byte) {
	if c.sent {
		return
	}
	m.markVisible(it)
	c.sent, c.sentAt, c.streaming, c.toolName = true, it.rec.Ordinal, false, nil
	if c.delegated {
		c.delegatedIn, m.steps.delegated = m.steps.number, append(m.steps.delegated, c)
	}
	if c.client {
		c.question = true
		m.ask(c)
	}
	m.input(it, c, input)
}

// ask adds a call to those that the client must answer in this step.
func (m *MessageWriter) ask(c *call) {
	c.questionIn, m.steps.questions = m.steps.number, append(m.steps.questions, c)
}

func (m *MessageWriter) input(it *item, c *call, input []byte) {
	c.inputHash = maphash.Bytes(sums, input)
	m.open("tool-input-available")
	m.json.Content("toolCallId", c.shown)
	m.json.Raw("toolName", it.Get("toolName"))
	m.sanitized("input", input)
	m.dynamic(c)
	m.partMembers(c)
	m.shut()
}

// awaited returns the call that a record updates, nil if the update has no effect: it is too late, or the call is of an earlier message. A call that runs
// on the server and whose start is missing is shown first.
func (m *MessageWriter) awaited(it *item, ours bool) *call {
	name := it.Text("toolName")
	if name == dialect.FinishTool {
		return nil
	}
	c := m.known(it)
	if c == nil && ours {
		c = m.call(it, name)
		m.outcomeBeforeStart(it, c)
	}
	if c == nil || c.completed {
		return nil
	}
	return c
}

// outcomeBeforeStart writes the input of a call whose outcome precedes its start. The SDK's validation of a history rejects an outcome without input, see
// package fold.
func (m *MessageWriter) outcomeBeforeStart(it *item, c *call) {
	if !c.sent {
		c.client = false // too late for the browser
		m.available(it, c, emptyInput)
	}
}

// triggersAutoPost reports whether an answered call makes the client post although another call is open: a call of the browser, and an approved call
// without an outcome.
func (c *call) triggersAutoPost() bool { return c.again != nil && (c.client || !c.completed) }

// unanswered reports whether the client has not answered a call.
func (c *call) unanswered() bool { return c.again == nil }

// open reports whether a call has no outcome.
func (c *call) open() bool { return !c.completed }

func (m *MessageWriter) complete(it *item, c *call) {
	m.markVisible(it)
	c.completed, c.completedAt, c.streaming, c.approvalID = true, it.rec.Ordinal, false, nil
	m.completed = c
}

// rememberFrame stores the last frame as the latest of a call that the client must answer.
func (m *MessageWriter) rememberFrame(c *call) {
	if c.question {
		c.again = append([]byte(nil), m.json.Dst[m.last:]...)
	}
}

func (m *MessageWriter) toolEnd(it *item) {
	ours := it.is("providerExecuted")
	c := m.awaited(it, ours)
	if c == nil {
		return
	}
	if it.Get("error") != nil {
		m.outputError(it, c, ours)
		return
	}
	m.outcomeBeforeStart(it, c)
	m.complete(it, c)
	m.open("tool-output-available")
	m.json.Content("toolCallId", c.shown)
	m.sanitized("output", it.Get("result"))
	m.outcomeMembers(it, c, ours)
	m.shut()
	m.rememberFrame(c)
}

func (m *MessageWriter) outputError(it *item, c *call, ours bool) {
	m.complete(it, c)
	m.open("tool-output-error")
	m.json.Content("toolCallId", c.shown)
	m.json.Raw("errorText", it.Get("error"))
	m.outcomeMembers(it, c, ours)
	m.shut()
	m.rememberFrame(c)
}

func (m *MessageWriter) outcomeMembers(it *item, c *call, ours bool) {
	m.json.Flag("dynamic", !c.ui.Static)
	m.json.Flag("providerExecuted", ours)
	ui := it.partMembers()
	m.optional("toolMetadata", ui.ToolMetadata)
	m.optional("providerMetadata", ui.ProviderMetadata)
}

func (m *MessageWriter) toolOutputError(it *item) {
	if c := m.awaited(it, true); c != nil {
		m.outputError(it, c, true) // for client tools too
	}
}

func (m *MessageWriter) toolInputError(it *item) {
	name := it.Text("toolName")
	if name == dialect.FinishTool {
		return
	}
	c := m.known(it)
	switch {
	case c == nil:
		c = m.call(it, name)
	case c.completed:
		return
	}
	c.setMembers(it, name)
	m.close(it.sp)
	m.complete(it, c)
	m.open("tool-input-error")
	m.json.Content("toolCallId", c.shown)
	m.json.Raw("toolName", it.Get("toolName"))
	m.sanitized("input", it.Get("partialInput")) // the client rejects the chunk without it
	m.json.Raw("errorText", it.Get("error"))
	m.json.Flag("dynamic", !c.ui.Static)
	ui := it.partMembers()
	m.optional("toolMetadata", ui.ToolMetadata)
	m.optional("providerMetadata", ui.ProviderMetadata)
	// This includes tools of the browser: it does not run this call, and a step that ends with it must not look answered by the browser.
	m.json.Flag("providerExecuted", true)
	m.shut()
	m.rememberFrame(c)
}

package agui

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/subjects"
)

// InterruptTool is the name of the calls that a Translator writes for interrupts that are not the approval of a call: the arguments are the interrupt, the id of
// the call is its id, and the result is the payload of the answer. The client runs the tool, by asking the user.
const InterruptTool = "agui.interrupt"

// Prefix begins the names of custom events that hold an event without a counterpart: agui.<TYPE>, the data is the event.
const Prefix = "agui."

// Translator translates the events of an agent that speaks AG-UI to chunks. It implements dialect.Translator: one Translator serves all responses of a run, in
// which the agent may begin several runs of its own. It is not safe for concurrent use.
type Translator struct {
	root   *source
	agents map[string]*source // sub-agents by subagentRunId
	list   []*source          // all of them, in the order of their starts
	out    []chunk.Chunk      // result for the current event so far

	ending  ending
	failure failure
	waitFor string
	output  chunk.Value // result of the run, nil for none
	counted bool        // a step of the run had its tokens

	texts map[uint64]bool // hashes of the texts of messages, for MESSAGES_SNAPSHOT
	hash  maphash.Hash
}

var _ dialect.Translator = (*Translator)(nil)

// source is the state of the agent of the run, or of a sub-agent.
type source struct {
	session string
	kind    string
	step    int64

	stepName string // of the open step
	stepOpen bool
	implicit bool // the step was opened by output, not by the agent
	message  string
	thinks   bool // reasoning is open

	chunkKind string // kind of the message that chunk events continue, "" for none
	chunkID   string

	messages map[string]*hashed  // texts of open messages, nil for those that are not of the assistant
	seen     map[string]bool     // ids of messages
	calls    map[string]*calling // by id
	order    []string            // ids of those without an outcome, as they came

	// Of a sub-agent: its subagentRunId, its parent, and the call that started it.
	id     string
	parent *source
	callID string
	text   []string // its output, which is its result
	ended  bool
	paused bool
}

// hashed is the text of a message so far.
type hashed struct{ hash maphash.Hash }

// calling is a call of the agent.
type calling struct {
	name    string
	args    []byte
	tooLong bool
	started bool // its tool_start was written
	ended   bool // it has its outcome
	input   chunk.Value
}

type ending int

const (
	broken ending = iota // the response stopped without an end of the run
	waits
	ended
	fails
)

type failure struct {
	text string
	code *string
}

// maxArguments bounds the arguments that are collected of one call.
const maxArguments = 1 << 20

// Config configures the chunks of a run.
type Config struct {
	Session   string // id of its session; required
	AgentType string // of its chunks; defaults to "agent"
	Step      int64  // that the run has reached, 0 before the first: a Translator of a later response of a run continues counting
}

// NewTranslator returns a Translator.
func NewTranslator(c Config) *Translator {
	if c.AgentType == "" {
		c.AgentType = "agent"
	}
	t := &Translator{root: newSource(c.Session, c.AgentType), agents: make(map[string]*source), texts: make(map[uint64]bool)}
	t.root.step = c.Step
	return t
}

func newSource(session, kind string) *source {
	return &source{session: session, kind: kind, messages: make(map[string]*hashed), seen: make(map[string]bool), calls: make(map[string]*calling)}
}

// Translate implements dialect.Translator for one event.
func (t *Translator) Translate(raw []byte) ([]chunk.Chunk, error) {
	whole, err := check(raw)
	if err != nil {
		return nil, err
	}
	e := event{object: read(whole), whole: whole}
	if e.kind, _ = e.text("type"); e.kind == "" {
		return nil, &chunk.FieldError{Field: "type", Want: "the type of an AG-UI event"}
	}
	e.by = t.root
	known := true
	if tag, tagged := e.text("subagentRunId"); tagged && !strings.HasPrefix(e.kind, "SUBAGENT_") {
		if e.by, known = t.agents[tag]; !known {
			e.by = t.root
		}
	}
	t.closeChunk(e)
	mark := len(t.out)
	understood := known && t.translate(e) // the output of a sub-agent that is not known is not that of the agent
	valid := t.out[:mark]
	for _, c := range t.out[mark:] {
		if c.Validate() != nil {
			understood = false
			continue
		}
		valid = append(valid, c)
	}
	t.out = valid
	if !understood {
		t.passThrough(e)
	}
	return t.take(), nil
}

// End implements dialect.Translator.
func (t *Translator) End() []chunk.Chunk {
	for _, a := range t.all() {
		t.endChunk(a)
	}
	switch {
	case t.root.ended || t.root.paused:
	case t.ending == waits:
		t.pause()
	default:
		t.conclude()
	}
	return t.take()
}

func (t *Translator) take() []chunk.Chunk {
	out := t.out
	t.out = nil
	return out
}

// all returns the agent of the run and its sub-agents.
func (t *Translator) all() []*source { return append([]*source{t.root}, t.list...) }

// event is an event of the agent.
type event struct {
	object

	kind  string
	whole chunk.Value
	by    *source
}

func (t *Translator) emit(a *source, b chunk.Body) {
	t.out = append(t.out, chunk.Chunk{AgentID: a.session, AgentType: a.kind, Step: a.step, Body: b})
}

// passThrough keeps an event, without what the provider of the model sent: it may have prompts.
func (t *Translator) passThrough(e event) {
	name := Prefix + e.kind
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7F }) {
		name = Prefix + "unknown"
	}
	t.emit(e.by, chunk.Custom{EventName: name, Data: without(e.whole, "rawEvent")})
}

// without returns an object without a member.
func without(v chunk.Value, name string) chunk.Value {
	o := rawjson.Begin(nil)
	for n, value := range rawjson.Members(v) {
		if n.Is(name) {
			continue
		}
		if len(o.Dst) > 1 {
			o.Dst = append(o.Dst, ',')
		}
		o.Dst = append(append(append(o.Dst, n...), ':'), value...)
	}
	return o.End()
}

// translate writes the chunks of an event, or reports false and writes none.
func (t *Translator) translate(e event) bool {
	switch e.kind {
	case "RUN_STARTED":
		t.runStarted()
	case "RUN_FINISHED":
		t.runFinished(e)
	case "RUN_ERROR":
		return t.runError(e)
	case "STEP_STARTED":
		return t.stepStarted(e)
	case "STEP_FINISHED":
		return t.stepFinished(e)
	case "STATE_SNAPSHOT":
		return t.stateSnapshot(e)
	case "STATE_DELTA":
		return t.stateDelta(e)
	case "MESSAGES_SNAPSHOT":
		return t.messagesSnapshot(e)
	case "CUSTOM":
		name, ok := e.text("name")
		t.emit(e.by, chunk.Custom{EventName: name, Data: rawjson.Get(e.whole, "value")})
		return ok
	case "ACTIVITY_SNAPSHOT":
		return t.activity(e)
	case "SUBAGENT_STARTED":
		return t.subagentStarted(e)
	case "SUBAGENT_FINISHED", "SUBAGENT_ERROR":
		return t.subagentEnded(e)
	default:
		if strings.HasPrefix(e.kind, "TOOL_CALL_") {
			return t.tool(e)
		}
		return t.text(e)
	}
	return true
}

func (t *Translator) runStarted() {
	t.ending, t.failure, t.output = broken, failure{}, nil
	if t.root.paused {
		t.root.paused = false
		t.emit(t.root, chunk.StreamActive{})
	}
}

// runFinished handles the end of a run of the agent. Our run ends when the response ends: another run of the agent may follow in it.
func (t *Translator) runFinished(e event) {
	for _, a := range t.all() {
		for _, id := range a.order { // the agent left out the end of the arguments
			t.start(a, id)
		}
		t.endStep(a, nil)
	}
	t.ending, t.output = ended, e.object["result"]
	outcome := e.object.object("outcome")
	switch kind, _ := outcome.text("type"); kind {
	case "interrupt":
		for v := range rawjson.Elements(outcome["interrupts"]) {
			t.interrupt(v)
		}
		t.ending = waits
		if t.waitFor == "" {
			t.waitFor = "interrupt"
		}
	case "cancelled":
		code := CodeAborted
		t.ending, t.failure = fails, failure{text: e.object.object("metadata").or("reason", "cancelled"), code: &code}
	default:
		if len(t.root.order) > 0 { // the client runs them
			t.ending, t.waitFor = waits, "client_tool"
		}
	}
	t.usage(e)
}

// usage writes the tokens of the run as those of a step, unless the steps had theirs.
func (t *Translator) usage(e event) {
	if t.counted {
		t.counted = false
		return
	}
	var u *chunk.Usage
	for v := range rawjson.Elements(e.object["usage"]) {
		o := read(v)
		next := &chunk.Usage{InputTokens: o.number("inputTokens"), OutputTokens: o.number("outputTokens"),
			CachedTokens: o.maybeNumber("cachedInputTokens"), CacheWriteTokens: o.maybeNumber("cacheWriteInputTokens")}
		if u == nil {
			u = next
			continue
		}
		t.emit(t.root, chunk.StepEnd{Usage: u}) // one for each model
		u = next
	}
	if u != nil {
		t.emit(t.root, chunk.StepEnd{Usage: u})
	}
}

func (o object) maybeNumber(name string) *chunk.Number {
	var n chunk.Number
	if v := o[name]; len(v) == 0 || n.UnmarshalJSON(v) != nil {
		return nil
	}
	return &n
}

func (o object) number(name string) chunk.Number {
	if n := o.maybeNumber(name); n != nil {
		return *n
	}
	return "0"
}

// interrupt writes what a user must answer: the approval of a call, or a call that asks.
func (t *Translator) interrupt(v chunk.Value) {
	o := read(v)
	id, ok := o.text("id")
	if !ok {
		return
	}
	a := t.root
	if s := t.agents[o.or("subagentRunId", "")]; s != nil && !s.ended {
		a = s
	}
	callID, isCall := o.text("toolCallId")
	t.waitFor = o.or("reason", t.waitFor)
	c := a.calls[callID]
	if isCall && (c == nil || !c.ended) {
		name, input := o.object("metadata").or("toolCallName", ""), null
		if c != nil {
			name, input = c.name, c.input
		}
		t.emitValid(a, chunk.ToolApprovalRequest{ToolCallID: callID, ToolName: name, ApprovalID: id, Input: input})
		return
	}
	t.emitValid(a, chunk.ToolStart{ToolCallID: id, ToolName: InterruptTool, Arguments: v})
}

// emitValid emits a chunk of an event that has several, unless it is invalid.
func (t *Translator) emitValid(a *source, b chunk.Body) {
	c := chunk.Chunk{AgentID: a.session, AgentType: a.kind, Step: a.step, Body: b}
	if c.Validate() == nil {
		t.out = append(t.out, c)
	}
}

func (t *Translator) runError(e event) bool {
	message, ok := e.text("message")
	if !ok {
		return false
	}
	t.ending, t.failure = fails, failure{text: message, code: e.maybe("code")}
	for _, a := range t.all() {
		t.endStep(a, nil)
	}
	return true
}

func (t *Translator) stepStarted(e event) bool {
	name, ok := e.text("stepName")
	if !ok {
		return false
	}
	t.endStep(e.by, nil)
	e.by.step++
	e.by.stepName, e.by.stepOpen, e.by.implicit = name, true, false
	t.emit(e.by, chunk.StepStart{StepID: &name})
	return true
}

func (t *Translator) stepFinished(e event) bool {
	name, ok := e.text("stepName")
	if ok && e.by.stepOpen && e.by.stepName == name {
		t.endStep(e.by, e.object.object("metadata"))
	}
	return ok
}

// produce opens a step for output outside of the steps of the agent: a message of the agent is one then.
func (t *Translator) produce(a *source, message string) {
	if a.stepOpen && a.implicit && message != "" && a.message != "" && a.message != message {
		t.endStep(a, nil)
	}
	if message != "" {
		a.message = message
	}
	if !a.stepOpen {
		a.step++
		a.stepOpen, a.implicit, a.stepName = true, true, ""
		t.emit(a, chunk.StepStart{})
	}
}

// endStep ends the open step, with what the agent said about it.
func (t *Translator) endStep(a *source, metadata object) {
	t.endThought(a)
	if !a.stepOpen {
		return
	}
	a.stepOpen, a.message = false, ""
	end := chunk.StepEnd{}
	if !a.implicit {
		end.StepID = new(a.stepName)
	}
	if u := metadata.object("usage"); u != nil {
		t.counted = true
		end.Usage = &chunk.Usage{InputTokens: u.number("inputTokens"), OutputTokens: u.number("outputTokens"),
			CachedTokens: u.maybeNumber("cachedTokens"), CacheWriteTokens: u.maybeNumber("cacheWriteTokens")}
	}
	if reason, ok := metadata.text("finishReason"); ok {
		if !slices.Contains([]string{"stop", "length", "tool-calls", "content-filter", "error"}, reason) {
			reason = "other"
		}
		end.FinishReason = &reason
	}
	t.emit(a, end)
}

// stateSnapshot replaces the state. Ours is an object or an array.
func (t *Translator) stateSnapshot(e event) bool {
	state := e.object["snapshot"]
	if !isObject(state) && !isArray(state) || e.by != t.root {
		return false
	}
	t.emit(t.root, chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "replace", Value: &state}}})
	return true
}

func (t *Translator) stateDelta(e event) bool {
	delta := e.object["delta"]
	if !isArray(delta) || e.by != t.root {
		return false
	}
	var ops []chunk.PatchOp
	for v := range rawjson.Elements(delta) {
		o := read(v)
		op := chunk.PatchOp{Op: o.or("op", ""), Path: o.or("path", ""), From: o.maybe("from")}
		if _, hasPath := o.text("path"); !hasPath {
			return false
		}
		if value := rawjson.Get(v, "value"); value != nil {
			op.Value = new(chunk.Value(value))
		}
		if ops = append(ops, op); len(ops) > chunk.MaxPatchOps {
			return false
		}
	}
	t.emit(t.root, chunk.StatePatch{Patches: ops})
	return true
}

// activity translates the activities of a Writer: files and sources.
func (t *Translator) activity(e event) bool {
	kind, _ := e.text("activityType")
	o := e.object.object("content")
	url, isURL := o.text("url")
	mediaType, hasType := o.text("mediaType")
	id, hasID := o.text("sourceId")
	switch {
	case kind == ActivityFile && isURL && hasType:
		t.produce(e.by, "")
		t.emit(e.by, chunk.File{URL: url, MediaType: mediaType, Filename: o.maybe("filename")})
	case kind == ActivitySource && hasID && isURL:
		t.produce(e.by, "")
		t.emit(e.by, chunk.SourceURL{SourceID: id, URL: url, Title: o.maybe("title")})
	case kind == ActivitySource && hasID && hasType:
		t.produce(e.by, "")
		t.emit(e.by, chunk.SourceDocument{SourceID: id, MediaType: mediaType, Title: o.or("title", ""), Filename: o.maybe("filename")})
	default:
		return false
	}
	return true
}

// sessionOf returns the session of a sub-agent: its id, or one that is made from it if that is not valid for a session.
func sessionOf(id string) string {
	if subjects.CheckToken("session", id) == nil {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "agui-" + hex.EncodeToString(sum[:16])
}

// subagentStarted begins a sub-agent. One that was suspended continues.
func (t *Translator) subagentStarted(e event) bool {
	id, ok := e.text("subagentRunId")
	name, named := e.text("name")
	session := sessionOf(id)
	if !ok || !named || session == t.root.session {
		return false
	}
	if a := t.agents[id]; a != nil && !a.ended {
		if a.paused {
			a.paused = false
			t.emit(a, chunk.StreamActive{})
		}
		return true
	}
	parent := t.root
	if p := t.agents[e.or("parentSubagentRunId", "")]; p != nil && !p.ended {
		parent = p
	}
	a := newSource(session, name)
	a.id, a.parent, a.callID = id, parent, e.or("parentToolCallId", "")
	begin := chunk.SubagentStart{SubAgentType: name, SubSessionID: session, CallID: a.callID}
	if (chunk.Chunk{AgentID: parent.session, AgentType: parent.kind, Step: parent.step, Body: begin}).Validate() != nil {
		return false
	}
	t.start(parent, a.callID)
	t.agents[id] = a
	t.list = append(t.list, a)
	t.emit(parent, begin)
	return true
}

func (t *Translator) subagentEnded(e event) bool {
	id, _ := e.text("subagentRunId")
	a := t.agents[id]
	if a == nil || a.ended {
		return false
	}
	t.endChunk(a)
	if e.kind == "SUBAGENT_ERROR" {
		t.concludeAgent(a, &failure{text: e.or("message", "the sub-agent failed"), code: e.maybe("code")}, nil)
		return true
	}
	if outcome, _ := e.object.object("outcome").text("type"); outcome == "suspended" {
		t.endStep(a, nil) // it is paused with the run: RUN_FINISHED has its questions, which a paused session does not take
		return true
	}
	t.concludeAgent(a, nil, e.object["result"])
	return true
}

// concludeAgent ends a sub-agent, those that it started first, and reports its end to the parent.
func (t *Translator) concludeAgent(a *source, f *failure, result chunk.Value) {
	for _, c := range slices.Backward(slices.Clone(t.list)) {
		if c.parent == a && !c.ended {
			t.concludeAgent(c, f, nil)
		}
	}
	t.endStep(a, nil)
	a.ended = true
	t.list = slices.DeleteFunc(t.list, func(s *source) bool { return s == a })
	if f != nil {
		t.emit(a, chunk.StreamFailed{Error: f.text, ErrorDetail: f.detail()})
		result = append(append(chunk.Value(`{"error":`), quote(f.text)...), '}')
	} else {
		t.emit(a, chunk.StreamEnd{StreamID: a.session})
		if result == nil {
			result = quote(strings.Join(a.text, ""))
		}
	}
	t.emitValid(a.parent, chunk.SubagentEnd{SubAgentType: a.kind, SubSessionID: a.session, CallID: a.callID, Result: result})
	// The memory of a long run must not grow with its sub-agents; a later start with the id is another invocation.
	a.messages, a.calls, a.seen, a.text = nil, nil, nil, nil
	delete(t.agents, a.id)
}

func (f *failure) detail() *chunk.ErrorDetail {
	return &chunk.ErrorDetail{Message: f.text, Code: f.code}
}

// pause suspends the run and its sub-agents.
func (t *Translator) pause() {
	for _, a := range slices.Backward(t.list) {
		if !a.paused {
			a.paused = true
			t.emit(a, chunk.StreamPaused{Reason: &t.waitFor})
		}
	}
	t.root.paused = true
	t.emit(t.root, chunk.StreamPaused{Reason: &t.waitFor})
}

// conclude ends the run and its sub-agents.
func (t *Translator) conclude() {
	if t.ending == broken {
		t.ending, t.failure = fails, failure{text: "the stream of the agent broke off"}
	}
	for len(t.list) > 0 {
		a := t.list[len(t.list)-1]
		if t.ending == fails {
			t.concludeAgent(a, &t.failure, nil)
		} else {
			t.concludeAgent(a, nil, nil)
		}
	}
	t.endStep(t.root, nil)
	t.root.ended = true
	if t.ending == fails {
		t.emit(t.root, chunk.StreamFailed{Error: t.failure.text, ErrorDetail: t.failure.detail()})
		return
	}
	end := chunk.StreamEnd{StreamID: t.root.session}
	if t.output != nil {
		end.FinalOutput = &t.output
	}
	t.emit(t.root, end)
}

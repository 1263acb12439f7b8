package agui

import (
	"cmp"
	"hash/maphash"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
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

	rests dialect.Rests
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
	c.AgentType = cmp.Or(c.AgentType, "agent")
	t := &Translator{root: newSource(c.Session, c.AgentType), agents: make(map[string]*source), texts: make(map[uint64]bool)}
	t.root.step = c.Step
	return t
}

func newSource(session, kind string) *source {
	return &source{session: session, kind: kind, messages: make(map[string]*hashed), seen: make(map[string]bool), calls: make(map[string]*calling)}
}

// Translate implements dialect.Translator for one event.
func (t *Translator) Translate(raw []byte) ([]chunk.Chunk, error) {
	whole, err := dialect.CheckValue(raw)
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
		if c.ValidateUnstored() != nil {
			understood = false
			continue
		}
		valid = append(valid, c)
	}
	t.out = valid
	if !understood {
		t.passThrough(e)
	} else if rest := t.rests.Of(dialect.Read(whole), t.row(e), members); rest != nil {
		c := chunk.Chunk{AgentID: e.by.session, AgentType: e.by.kind, Step: e.by.step, Body: chunk.Custom{EventName: Prefix + dialect.RestEvent, Data: rest}}
		t.out = dialect.Keep(t.out, mark, c)
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

package agui

import (
	"hash/maphash"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// InterruptTool is the name of the calls that a Translator writes for interrupts that are not the approval of a call: the arguments are the interrupt, the id of
// the call is its id, and the result is the payload of the answer. The client runs the tool, by asking the user.
const InterruptTool = "agui.interrupt"

// Prefix begins the names of custom events that hold an event without a counterpart: agui.<TYPE>, the data is the event.
const Prefix = "agui."

// translator translates the events of an agent that speaks AG-UI to chunks. It implements codec.Translator: one Translator serves all responses of a run, in
// which the agent may begin several runs of its own. It is not safe for concurrent use.
type translator struct {
	b      *dialect.Builder
	root   *source
	agents map[string]*source // sub-agents by subagentRunId
	list   []*source          // all of them, in the order of their starts

	ending  ending
	failure chunk.ErrorDetail
	waitFor string
	output  chunk.Value // result of the run, nil for none
	counted bool        // a step of the run had its tokens

	texts map[uint64]bool // hashes of the texts of messages, for MESSAGES_SNAPSHOT
	hash  maphash.Hash
}

// source is the state of the agent of the run, or of a sub-agent.
type source struct {
	dialect.Agent

	id string // subagentRunId

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

// NewTranslator returns a Translator of a run; its Session is required. The AgentType defaults to "agent". The RunID is not used: AG-UI names the run.
func NewTranslator(c codec.Run) codec.Translator {
	b, root := dialect.NewBuilder(Prefix, c)
	return &translator{b: b, root: newSource("", root), agents: make(map[string]*source), texts: make(map[uint64]bool)}
}

func newSource(id string, a dialect.Agent) *source {
	return &source{Agent: a, id: id, messages: make(map[string]*hashed), seen: make(map[string]bool), calls: make(map[string]*calling)}
}

// Translate implements codec.Translator for one event.
func (t *translator) Translate(raw []byte) ([]chunk.Chunk, error) {
	whole, err := dialect.CheckValue(raw)
	if err != nil {
		return nil, err
	}
	e := event{Object: dialect.Read(whole), by: t.root}
	if e.kind = e.Or("type", ""); e.kind == "" {
		return nil, &chunk.FieldError{Field: "type", Want: "the type of an AG-UI event"}
	}
	known := true
	if tag, tagged := e.Text("subagentRunId"); tagged && !strings.HasPrefix(e.kind, "SUBAGENT_") {
		if e.by, known = t.agents[tag]; !known {
			e.by = t.root
		}
	}
	t.closeChunk(e)
	mark := len(t.b.Out)
	understood := known && t.translate(e) // the output of a sub-agent that is not known is not that of the agent
	if t.b.Valid(mark) && understood {
		row := t.row(e)
		e.by.KeepRest(mark, t.b.Rests.Of(e.Reset(), row, members))
	} else {
		e.by.Keep(e.kind, dialect.Without(whole, 1, "rawEvent")) // what the provider of the model sent may have prompts
	}
	return t.b.Take(), nil
}

// End implements codec.Translator.
func (t *translator) End() []chunk.Chunk {
	for _, a := range t.all() {
		t.endChunk(a)
	}
	switch {
	case t.root.Ended || t.root.Paused:
	case t.ending == waits:
		t.pause()
	default:
		t.conclude()
	}
	return t.b.Take()
}

// all returns the agent of the run and its sub-agents.
func (t *translator) all() []*source { return append([]*source{t.root}, t.list...) }

// event is an event of the agent.
type event struct {
	*dialect.Object

	kind string
	by   *source
}

// translate writes the chunks of an event, or reports false and writes none.
func (t *translator) translate(e event) bool {
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
		name, ok := e.Text("name")
		e.by.Emit(chunk.Custom{EventName: name, Data: e.Peek("value")})
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
func (t *translator) stateSnapshot(e event) bool {
	state := e.Peek("snapshot")
	if rawjson.Kind(state) != '{' && rawjson.Kind(state) != '[' || e.by != t.root {
		return false
	}
	t.root.Emit(chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "replace", Value: &state}}})
	return true
}

func (t *translator) stateDelta(e event) bool {
	delta := e.Peek("delta")
	if rawjson.Kind(delta) != '[' || e.by != t.root {
		return false
	}
	var ops []chunk.PatchOp
	for v := range rawjson.Elements(delta) {
		o := dialect.Read(v)
		op := chunk.PatchOp{Op: o.Or("op", ""), Path: o.Or("path", ""), From: o.Maybe("from")}
		if _, hasPath := o.Text("path"); !hasPath {
			return false
		}
		if value := o.Peek("value"); value != nil {
			op.Value = &value
		}
		if ops = append(ops, op); len(ops) > chunk.MaxPatchOps {
			return false
		}
	}
	t.root.Emit(chunk.StatePatch{Patches: ops})
	return true
}

// activity translates the activities of a Writer: files and sources.
func (t *translator) activity(e event) bool {
	kind, _ := e.Text("activityType")
	o := e.Object.Object("content")
	url, isURL := o.Text("url")
	mediaType, hasType := o.Text("mediaType")
	id, hasID := o.Text("sourceId")
	switch {
	case kind == ActivityFile && isURL && hasType:
		t.produce(e.by, "")
		e.by.Emit(chunk.File{URL: url, MediaType: mediaType, Filename: o.Maybe("filename")})
	case kind == ActivitySource && hasID && isURL:
		t.produce(e.by, "")
		e.by.Emit(chunk.SourceURL{SourceID: id, URL: url, Title: o.Maybe("title")})
	case kind == ActivitySource && hasID && hasType:
		t.produce(e.by, "")
		e.by.Emit(chunk.SourceDocument{SourceID: id, MediaType: mediaType, Title: o.Or("title", ""), Filename: o.Maybe("filename")})
	default:
		return false
	}
	return true
}

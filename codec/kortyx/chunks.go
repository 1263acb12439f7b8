package kortyx

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/structured"
	"github.com/tailrace/tailrace/internal/turn"
)

// status writes a text about the run.
func (p *printer) status(quoted []byte) {
	p.frames.Open("status")
	p.frames.Raw("message", quoted)
	p.frames.Shut()
}

// call writes an event of a call: of one of a sub-agent only the question to the user.
func (p *printer) call(e *turn.Event) {
	it, c := e.Item, e.Call
	switch own := c.By.Own(); {
	case e.Kind == turn.Ask:
		p.approvalRequest(it, c)
	case !own:
	case e.Kind == turn.Started:
		p.openCall(it, c, "tool-call-start")
		p.frames.Raw("input", it.Get("arguments"))
		p.frames.Shut()
	case it.Rec.Type == chunk.TypeToolApprovalResponse:
		p.decision(e)
	case e.Kind == turn.Late && e.Denied: // its denial was written as the outcome
	case it.Rec.Type == chunk.TypeToolEnd && it.Get("error") == nil:
		p.openCall(it, c, "tool-call-result")
		p.result(it.OrNull("result"))
		p.frames.Shut()
	default:
		p.openCall(it, c, "tool-call-error")
		p.frames.Raw("message", it.Get("error"))
		p.frames.Shut()
	}
}

func (p *printer) openCall(it *turn.Item, c *turn.Call, kind string) {
	p.frames.Open(kind)
	p.frames.Raw("tool", it.Get("toolName"))
	p.frames.Content("toolCallId", c.Shown)
	p.labels(it.Content("agentType"))
}

// decision writes the decision of a user, and a denial as the outcome of the call. An approval has no chunk: the outcome follows.
func (p *printer) decision(e *turn.Event) {
	it := e.Item
	if e.Kind != turn.Outcome {
		p.carry(it)
	}
	if e.Kind == turn.Decision || it.Is("approved") {
		return
	}
	p.openCall(it, e.Call, "tool-call-result")
	reason := it.Get("reason")
	if reason == nil {
		reason = chunk.Value(`"Denied."`)
	}
	p.frames.Raw("content", reason)
	p.frames.Flag("isError", true)
	p.frames.Shut()
}

// result writes the result of a tool: as text for the model, and as a value if it is an object or an array.
func (p *printer) result(v chunk.Value) {
	kind := rawjson.Kind(v)
	if kind == '"' {
		p.frames.Raw("content", v)
		return
	}
	p.frames.Bytes("content", v)
	if kind == '{' || kind == '[' {
		p.frames.Raw("structuredContent", v)
	}
}

var null = chunk.Value("null")

// approvalRequest writes a question to the user whether a call may run, in the form of Kortyx's own agents.
func (p *printer) approvalRequest(it *turn.Item, c *turn.Call) {
	call := it.Content("toolCallId") // the member sessionId says which sub-agent it is of
	if c.By.Own() {
		call = c.Shown
	}
	id := append([]byte(approvalPrefix), call...)
	p.openInterrupt(it, it.Text("approvalId"))
	p.frames.Content("id", id)
	p.frames.Nest("input")
	p.frames.String("kind", "choice")
	p.frames.Bool("multiple", false)
	p.frames.Content("question", append(append([]byte("Approve "), it.Content("toolName")...), '?'))
	p.frames.Content("id", id)
	p.frames.Raw("options", approvalOptions)
	p.frames.Nest("meta")
	p.frames.Raw("tool", it.Get("toolName"))
	p.frames.Content("toolCallId", call)
	p.frames.Raw("input", it.Get("input"))
	if !c.By.Own() {
		p.frames.String("sessionId", c.By.Session)
	}
	p.frames.Close()
	p.frames.Close()
	p.frames.Shut()
}

var approvalOptions = []byte(`[{"id":"approve","label":"Approve"},{"id":"deny","label":"Deny"}]`)

// openInterrupt opens a question to the user.
func (p *printer) openInterrupt(it *turn.Item, requestID string) {
	p.frames.Open("interrupt")
	p.frames.String("requestId", requestID)
	p.frames.String("resumeToken", "") // see the package
	p.labels(it.Content("agentType"))
}

// resync writes what a client has to know after records were removed: the structured data that they contained is invalid. Text stays.
func (p *printer) resync(it *turn.Item) {
	since := chunk.Seq(0) // all that are remembered, for an earlier checkpoint
	for _, c := range p.saved {
		if c.id == it.Text("checkpointId") {
			since = c.at
		}
	}
	for _, s := range p.data.since(since) {
		p.frames.Open(invalidated)
		p.frames.String("streamId", s.id())
		p.frames.Raw("checkpointId", it.Get("checkpointId"))
		p.frames.Shut()
	}
	p.data.list = slices.DeleteFunc(p.data.list, func(s sentStream) bool { return s.at > since })
	p.data.rewind(it.Rec.Seq)
	if p.state.shown {
		p.showState(it)
	}
	p.status(resynced)
}

// resynced is the text that users see after a resync.
var resynced = []byte(`"The answer was rolled back to an earlier point and continues from there."`)

// custom writes an event of the application. Chunks of Kortyx's own agents have their original form.
func (p *printer) custom(it *turn.Item) {
	name := it.Text("eventName")
	if p.original(it, name) {
		return
	}
	if !p.final(it, "custom", name, it.Get("data")) {
		p.carry(it)
	}
}

// forms has the members of the chunks that are written in their original form: those that must be strings, and others.
var forms = map[string]struct{ required, strings, any []string }{
	"status":      {required: []string{"message"}, strings: []string{"node"}},
	"transition":  {required: []string{"transitionTo"}, any: []string{"payload"}},
	"tool-result": {strings: []string{"tool", "node"}, any: []string{"content"}},
}

// original writes a chunk of a Kortyx agent in its form, without members that the dialect does not have. It reports false for other events.
func (p *printer) original(it *turn.Item, name string) bool {
	data := it.Get("data")
	if rawjson.Kind(data) != '{' {
		return false
	}
	switch name {
	case structured.PieceEvent:
		p.streamed(it, data)
		return true
	case structured.InvalidatedEvent:
		return p.invalidate(it)
	case prefix + "interrupt":
		return p.question(it)
	}
	kind, ok := strings.CutPrefix(name, prefix)
	form, known := forms[kind]
	if !ok || !known {
		return false
	}
	for _, name := range form.required {
		if rawjson.Kind(it.Get("data", name)) != '"' {
			return false
		}
	}
	p.frames.Open(kind)
	for _, name := range append(append([]string{}, form.required...), form.strings...) {
		if v := it.Get("data", name); rawjson.Kind(v) == '"' {
			p.frames.Raw(name, v)
		}
	}
	for _, name := range form.any {
		p.frames.Raw(name, it.Get("data", name))
	}
	if kind == "tool-result" && it.Get("data", "content") == nil {
		p.frames.Raw("content", null)
	}
	p.frames.Shut()
	return true
}

// question writes a question of a Kortyx agent to the user, with the server's token: the log does not have the agent's.
func (p *printer) question(it *turn.Item) bool {
	input := it.Get("data", "input")
	if rawjson.Kind(input) != '{' || rawjson.Kind(it.Get("data", "requestId")) != '"' {
		return false
	}
	p.openInterrupt(it, it.Text("data", "requestId"))
	for _, name := range []string{"workflow", "id", "schemaId", "schemaVersion"} {
		if v := it.Get("data", name); rawjson.Kind(v) == '"' {
			p.frames.Raw(name, v)
		}
	}
	p.frames.Raw("input", input)
	if meta := it.Get("data", "meta"); rawjson.Kind(meta) == '{' {
		p.frames.Raw("meta", meta)
	}
	p.frames.Shut()
	return true
}

// output writes the final structured output of the run.
func (p *printer) output(it *turn.Item) {
	id := "output:" + string(rawjson.Unescaped(p.turn.RunID()))
	if p.data.rewound > 0 || p.data.outputs[id] {
		id = "output:" + strconv.FormatUint(uint64(it.Rec.Seq), 10)
	}
	p.data.addOutput(id)
	if !p.finalOf(it, sentStream{name: id, at: it.Rec.Seq, own: true}, "output", it.OrNull("output")) {
		p.carry(it)
	}
}

// part writes a source or a file as structured data.
func (p *printer) part(it *turn.Item) {
	dataType := "source"
	if it.Rec.Type == chunk.TypeFile {
		dataType = "file"
	}
	o := rawjson.Begin(nil)
	it.WriteNotice(&o)
	if !p.final(it, dataType, dataType, o.End()) {
		p.carry(it)
	}
}

// carry writes a chunk that has data of the application and no counterpart in the dialect: the result of a sub-agent, the decision of a user, an unknown type.
func (p *printer) carry(it *turn.Item) {
	o := rawjson.Begin(nil)
	o.Raw("chunk", it.JSON())
	o.Number("sequence", int64(it.Rec.Seq))
	p.final(it, "native", "native.chunk", o.End())
}

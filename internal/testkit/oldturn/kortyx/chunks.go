package kortyx

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/structured"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/dialect"
)

// chunk writes a chunk of the turn's own agent.
func (w *Writer) chunk(it *item) {
	if it.kind != dialect.NoBlock {
		w.write(it, it.kind, it.piece)
		return
	}
	if !it.known {
		w.carry(it)
		return
	}
	switch it.rec.Type {
	case chunk.TypeTextDelta:
		w.write(it, dialect.TextBlock, it.content("delta"))
	case chunk.TypeThinking:
		w.think(it, it.is("isComplete"), it.content("content"))
	case chunk.TypeToolStart, chunk.TypeToolEnd, chunk.TypeToolOutputError, chunk.TypeToolInputError, chunk.TypeToolApprovalRequest, chunk.TypeToolApprovalResponse:
		if it.Text("toolName") != dialect.FinishTool {
			w.tool(it)
		}
	case chunk.TypeCustom:
		w.custom(it)
	case chunk.TypeStatePatch:
		w.statePatch(it)
	case chunk.TypeOutput:
		w.output(it)
	case chunk.TypeSourceURL:
		w.part(it, "source", "sourceId", "url", "title")
	case chunk.TypeSourceDocument:
		w.part(it, "source", "sourceId", "mediaType", "title", "filename")
	case chunk.TypeFile:
		w.part(it, "file", "url", "mediaType", "filename")
	default:
		w.runChunk(it)
	}
}

// runChunk writes a chunk about the run.
func (w *Writer) runChunk(it *item) {
	switch it.rec.Type {
	case chunk.TypeError:
		if it.is("recoverable") {
			w.status(it.Get("error")) // a client shows an error as the end of the answer
			return
		}
		w.outcome = failed
		w.fail(it)
	case chunk.TypeRunInterrupted:
		w.outcome = interrupted
		w.end()
	case chunk.TypeCheckpointCreated:
		w.checkpoint = append(w.checkpoint[:0], it.content("checkpointId")...)
		w.checkpoints++
		if len(w.saved) == maxSaved {
			w.saved = slices.Delete(w.saved, 0, maxSaved/2)
		}
		w.saved = append(w.saved, saved{it.Text("checkpointId"), it.rec.Seq})
	case chunk.TypeStreamResync:
		w.resync(it)
	case chunk.TypeSubagentEnd:
		w.carry(it)
	}
}

// childChunk writes the requests of a sub-agent to the user.
func (w *Writer) childChunk(it *item) {
	switch {
	case it.kind != dialect.NoBlock || !it.known:
	case it.rec.Type == chunk.TypeToolApprovalRequest && !it.is("isAutomatic"):
		w.begins(it, true)
		w.approvalRequest(it)
	case it.rec.Type == chunk.TypeToolApprovalResponse || it.rec.Type == chunk.TypeToolEnd || it.rec.Type == chunk.TypeToolOutputError:
		delete(w.calls, it.key())
	}
}

// status writes a text about the run.
func (w *Writer) status(quoted []byte) {
	w.frames.Open("status")
	w.frames.Raw("message", quoted)
	w.frames.Shut()
}

// tool writes a chunk about a call.
func (w *Writer) tool(it *item) {
	switch it.rec.Type {
	case chunk.TypeToolStart:
		w.begins(it, false)
		w.openCall(it, "tool-call-start")
		w.frames.Raw("input", it.Get("arguments"))
		w.frames.Shut()
	case chunk.TypeToolApprovalRequest:
		if !it.is("isAutomatic") {
			w.begins(it, true)
			w.approvalRequest(it)
		}
	case chunk.TypeToolApprovalResponse:
		w.approvalResponse(it)
	case chunk.TypeToolEnd:
		if w.isDecided(it) {
			return
		}
		if it.Get("error") != nil {
			w.toolError(it)
			return
		}
		w.openCall(it, "tool-call-result")
		w.result(it.Get("result"))
		w.frames.Shut()
	default:
		if !w.isDecided(it) {
			w.toolError(it)
		}
	}
}

// isDecided ends a call and reports whether its denial was written as its outcome.
func (w *Writer) isDecided(it *item) bool {
	key := it.key()
	delete(w.calls, key)
	_, denied := w.denied[key.id]
	delete(w.denied, key.id)
	return denied
}

func (w *Writer) openCall(it *item, kind string) {
	w.frames.Open(kind)
	w.frames.Raw("tool", it.Get("toolName"))
	w.frames.Raw("toolCallId", it.Get("toolCallId"))
	w.labels(it.content("agentType"))
}

// result writes the result of a tool: as text for the model, and as a value if it is an object or an array.
func (w *Writer) result(v chunk.Value) {
	if v == nil {
		v = null
	}
	kind := rawjson.Kind(v)
	if kind == '"' {
		w.frames.Raw("content", v)
		return
	}
	w.frames.Bytes("content", v)
	if kind == '{' || kind == '[' {
		w.frames.Raw("structuredContent", v)
	}
}

var null = chunk.Value("null")

func (w *Writer) toolError(it *item) {
	w.openCall(it, "tool-call-error")
	w.frames.Raw("message", it.Get("error"))
	w.frames.Shut()
}

// approvalRequest writes a question to the user whether a call may run, in the form of Kortyx's own agents.
func (w *Writer) approvalRequest(it *item) {
	id := append([]byte(approvalPrefix), it.content("toolCallId")...)
	w.openInterrupt(it, it.Text("approvalId"))
	w.frames.Content("id", id)
	w.frames.Nest("input")
	w.frames.String("kind", "choice")
	w.frames.Bool("multiple", false)
	w.frames.Content("question", append(append([]byte("Approve "), it.content("toolName")...), '?'))
	w.frames.Content("id", id)
	w.frames.Raw("options", approvalOptions)
	w.frames.Nest("meta")
	w.frames.Raw("tool", it.Get("toolName"))
	w.frames.Raw("toolCallId", it.Get("toolCallId"))
	w.frames.Raw("input", it.Get("input"))
	if it.child {
		w.frames.String("sessionId", it.rec.Session.ID)
	}
	w.frames.Close()
	w.frames.Close()
	w.frames.Shut()
}

var approvalOptions = []byte(`[{"id":"approve","label":"Approve"},{"id":"deny","label":"Deny"}]`)

// openInterrupt opens a question to the user.
func (w *Writer) openInterrupt(it *item, requestID string) {
	w.frames.Open("interrupt")
	w.frames.String("requestId", requestID)
	w.frames.String("resumeToken", "") // see the package
	w.labels(it.content("agentType"))
}

// approvalResponse writes a denial as the outcome of the call. An approval has no chunk: the outcome follows.
func (w *Writer) approvalResponse(it *item) {
	w.carry(it)
	key := it.key()
	if c, known := w.calls[key]; known {
		c.asked = false
		w.calls[key] = c
	}
	if it.is("approved") {
		return
	}
	delete(w.calls, key)
	if w.denied == nil {
		w.denied = make(map[string]chunk.Ordinal)
	}
	w.denied[key.id] = it.rec.Ordinal
	w.openCall(it, "tool-call-result")
	reason := it.Get("reason")
	if reason == nil {
		reason = chunk.Value(`"Denied."`)
	}
	w.frames.Raw("content", reason)
	w.frames.Flag("isError", true)
	w.frames.Shut()
}

// resync writes what a client has to know after records were removed: the structured data that they contained is invalid. Text stays.
func (w *Writer) resync(it *item) {
	since := chunk.Seq(0) // all that are remembered, for an earlier checkpoint
	for _, c := range w.saved {
		if c.id == it.Text("checkpointId") {
			since = c.at
		}
	}
	for _, s := range w.data.since(since) {
		w.frames.Open(invalidated)
		w.frames.String("streamId", s.id())
		w.frames.Raw("checkpointId", it.Get("checkpointId"))
		w.frames.Shut()
	}
	w.data.list = slices.DeleteFunc(w.data.list, func(s sentStream) bool { return s.at > since })
	w.data.rewind(it.rec.Seq)
	if w.state.shown {
		w.showState(it)
	}
	w.status(resynced)
}

// resynced is the text that users see after a resync.
var resynced = []byte(`"The answer was rolled back to an earlier point and continues from there."`)

// custom writes an event of the application. Chunks of Kortyx's own agents have their original form.
func (w *Writer) custom(it *item) {
	name := it.Text("eventName")
	if w.original(it, name) {
		return
	}
	if !w.final(it, "custom", name, it.Get("data")) {
		w.carry(it)
	}
}

// forms has the members of the chunks that are written in their original form: those that must be strings, and others.
var forms = map[string]struct{ required, strings, any []string }{
	"status":      {required: []string{"message"}, strings: []string{"node"}},
	"transition":  {required: []string{"transitionTo"}, any: []string{"payload"}},
	"tool-result": {strings: []string{"tool", "node"}, any: []string{"content"}},
}

// original writes a chunk of a Kortyx agent in its form, without members that the dialect does not have. It reports false for other events.
func (w *Writer) original(it *item, name string) bool {
	data := it.Get("data")
	if rawjson.Kind(data) != '{' {
		return false
	}
	switch name {
	case structured.PieceEvent:
		w.streamed(it, data)
		return true
	case structured.InvalidatedEvent:
		return w.invalidate(it)
	case prefix + "interrupt":
		return w.question(it)
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
	w.frames.Open(kind)
	for _, name := range append(append([]string{}, form.required...), form.strings...) {
		if v := it.Get("data", name); rawjson.Kind(v) == '"' {
			w.frames.Raw(name, v)
		}
	}
	for _, name := range form.any {
		w.frames.Raw(name, it.Get("data", name))
	}
	if kind == "tool-result" && it.Get("data", "content") == nil {
		w.frames.Raw("content", null)
	}
	w.frames.Shut()
	return true
}

// question writes a question of a Kortyx agent to the user, with the server's token: the log does not have the agent's.
func (w *Writer) question(it *item) bool {
	input := it.Get("data", "input")
	if rawjson.Kind(input) != '{' || rawjson.Kind(it.Get("data", "requestId")) != '"' {
		return false
	}
	w.openInterrupt(it, it.Text("data", "requestId"))
	for _, name := range []string{"workflow", "id", "schemaId", "schemaVersion"} {
		if v := it.Get("data", name); rawjson.Kind(v) == '"' {
			w.frames.Raw(name, v)
		}
	}
	w.frames.Raw("input", input)
	if meta := it.Get("data", "meta"); rawjson.Kind(meta) == '{' {
		w.frames.Raw("meta", meta)
	}
	w.frames.Shut()
	return true
}

// output writes the final structured output of the run.
func (w *Writer) output(it *item) {
	id := "output:" + string(rawjson.Unescaped(w.runID))
	if w.data.rewound > 0 || w.data.outputs[id] {
		id = "output:" + strconv.FormatUint(uint64(it.rec.Seq), 10)
	}
	w.data.addOutput(id)
	if !w.finalOf(it, sentStream{name: id, at: it.rec.Seq, own: true}, "output", orNull(it.Get("output"))) {
		w.carry(it)
	}
}

func orNull(v chunk.Value) chunk.Value {
	if v == nil {
		return null
	}
	return v
}

// part writes members of a record as structured data.
func (w *Writer) part(it *item, dataType string, names ...string) {
	o := rawjson.Begin(nil)
	for _, name := range names {
		o.Raw(name, it.Get(name))
	}
	if !w.final(it, dataType, dataType, o.End()) {
		w.carry(it)
	}
}

// carry writes a chunk that has data of the application and no counterpart in the dialect: the result of a sub-agent, the decision of a user, an unknown type.
func (w *Writer) carry(it *item) {
	o := rawjson.Begin(nil)
	o.Raw("chunk", it.json())
	o.Name("sequence")
	o.Dst = strconv.AppendUint(o.Dst, uint64(it.rec.Seq), 10)
	w.final(it, "native", "native.chunk", o.End())
}

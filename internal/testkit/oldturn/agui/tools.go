package agui

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

// shownID returns the id of a call in the messages, with the number behind it.
func (k callKey) shownID(suffix int) string {
	id := dialect.CallID(k.agent, k.id)
	if suffix > 1 {
		id += "_" + strconv.Itoa(suffix)
	}
	return id
}

// call is a tool call without an outcome.
type call struct {
	key    callKey
	suffix int // number behind the id, 1 for none
	by     *agentState
	tag    []byte     // subagentRunId of it
	id     string     // in the messages
	shown  []byte     // id as the content of a JSON string
	name   []byte     // of the tool, as the content of a JSON string
	of     messageRef // message that it is attached to

	begun     bool   // TOOL_CALL_START was written
	open      bool   // TOOL_CALL_END was not, in this run
	streaming bool   // its arguments stream
	broken    bool   // its arguments were streamed again: the client has text that is not part of them
	written   []byte // arguments that the client has
	sent      bool   // its arguments are complete
	inputHash uint64 // hash of these

	delegated  bool   // a sub-agent executes it
	approvalID []byte // id of the approval that waits for a decision, as the content of a JSON string; nil for none
	approved   bool   // a user approved it

	// The records of these changes. A truncated record may remove them.
	begunAt, sentAt, approvalAt chunk.Ordinal
}

// finishedCall is what is kept of a call with an outcome. Calls cannot be forgotten: only the earlier ones show whether an id is new, and a truncated record
// may remove an outcome.
type finishedCall struct {
	by          *agentState
	id          string
	name        []byte
	suffix      int
	of          messageRef
	begunAt     chunk.Ordinal
	completedAt chunk.Ordinal
	delegated   bool
}

// hashSeed is the seed of the hashes of arguments.
var hashSeed = maphash.MakeSeed()

// escaped returns a text as the content of a JSON string.
func escaped(text string) []byte { return rawjson.AppendEscaped(make([]byte, 0, len(text)), text) }

// writeTool writes a record about a call. It reports false for another record.
func (w *Writer) writeTool(it *item) bool {
	switch it.rec.Type {
	case chunk.TypeToolArgStreamStart, chunk.TypeToolStart, chunk.TypeToolApprovalRequest:
		if it.Text("toolName") == dialect.FinishTool {
			return true
		}
		w.beginCall(it)
	case chunk.TypeToolArgStreamDelta:
		w.argsDelta(it)
	case chunk.TypeToolArgStreamEnd: // tool_start has the arguments
	case chunk.TypeToolEnd:
		w.toolEnd(it)
	case chunk.TypeToolInputError, chunk.TypeToolOutputError:
		w.toolError(it)
	case chunk.TypeToolApprovalResponse:
		w.approvalResponse(it)
	default:
		return false
	}
	return true
}

func (w *Writer) beginCall(it *item) {
	c := w.call(it)
	switch it.rec.Type {
	case chunk.TypeToolArgStreamStart:
		c.broken = c.broken || len(c.written) > 0
		c.streaming, c.sent, c.approvalID = true, false, nil
		if !c.open {
			w.callStart(c)
		}
	case chunk.TypeToolStart:
		w.arguments(it, c, it.orNull("arguments"))
	case chunk.TypeToolApprovalRequest:
		w.arguments(it, c, it.orNull("input"))
		if !it.is("isAutomatic") {
			c.approvalID, c.approvalAt = bytes.Clone(it.content("approvalId")), it.rec.Ordinal
		}
	}
}

// call returns the call of a record, a new one if there is none with its id that has no outcome.
func (w *Writer) call(it *item) *call {
	w.close(it.by)
	key := callKey{it.by.agent, it.Text("toolCallId")}
	if c := w.calls[key]; c != nil {
		return c
	}
	c := &call{key: key, suffix: w.freeSuffix(key), by: it.by, tag: it.by.tag, of: it.by.carrierOf(it.rec), begunAt: it.rec.Ordinal}
	c.name = bytes.Clone(it.content("toolName"))
	c.delegated = strings.HasPrefix(it.Text("toolName"), dialect.SubAgentTool)
	w.addCall(c)
	return c
}

// addCall adds a call without an outcome.
func (w *Writer) addCall(c *call) {
	c.id = c.key.shownID(c.suffix)
	c.shown = escaped(c.id)
	if w.calls == nil {
		w.calls, w.shown, w.finished = make(map[callKey]*call), make(map[string]bool), make(map[string]finishedCall)
	}
	w.calls[c.key], w.shown[c.id] = c, true
	w.openCalls = append(w.openCalls, c)
	if c.suffix > 1 {
		if w.reused == nil {
			w.reused = make(map[callKey]int)
		}
		w.reused[c.key] = c.suffix
	}
}

// removeCall removes a call from those without an outcome.
func (w *Writer) removeCall(c *call) {
	delete(w.calls, c.key)
	delete(w.shown, c.id)
	w.openCalls = slices.DeleteFunc(w.openCalls, func(o *call) bool { return o == c })
}

// freeSuffix returns the number behind the id of a new call: a client would take a second call with the same id for the first one.
func (w *Writer) freeSuffix(key callKey) int {
	for n := max(1, w.reused[key]); ; n++ {
		if id := key.shownID(n); !w.shown[id] {
			if _, done := w.finished[id]; !done {
				return n
			}
		}
	}
}

// latest returns the latest finished call with a key.
func (w *Writer) latest(key callKey) (finishedCall, bool) {
	f, ok := w.finished[key.shownID(max(1, w.reused[key]))]
	return f, ok
}

// tagOf writes which sub-agent a call is of. It does not change: a client rejects another one if the sub-agent was started again.
func (w *Writer) tagOf(c *call) {
	if c.tag != nil {
		w.out.Content("subagentRunId", c.tag)
	}
}

func (w *Writer) callStart(c *call) {
	c.begun, c.open = true, true
	w.out.Open("TOOL_CALL_START")
	w.out.Content("toolCallId", c.shown)
	w.out.Content("toolCallName", c.name)
	w.messageID("parentMessageId", c.of)
	w.tagOf(c)
	w.out.Shut()
}

// callEnd ends the arguments of a call. arguments has them if the text that was streamed does not: the client finds them in the metadata of the call.
func (w *Writer) callEnd(c *call, arguments chunk.Value) {
	if !c.open {
		return
	}
	c.open = false
	w.out.Open("TOOL_CALL_END")
	w.out.Content("toolCallId", c.shown)
	w.tagOf(c)
	if arguments != nil {
		w.out.Nest("metadata")
		w.out.Raw("arguments", arguments)
		w.out.Close()
	}
	w.out.Shut()
}

func (w *Writer) callArgs(c *call, content []byte) {
	w.out.Open("TOOL_CALL_ARGS")
	w.out.Content("toolCallId", c.shown)
	w.out.Content("delta", content)
	w.tagOf(c)
	w.out.Shut()
}

// argsDelta writes a piece of the arguments.
func (w *Writer) argsDelta(it *item) {
	piece, c := it.content("delta"), w.calls[callKey{it.by.agent, it.Text("toolCallId")}]
	if len(piece) == 0 || c == nil || !c.streaming {
		return
	}
	if c.broken {
		return // the client cannot begin the text again
	}
	c.written = append(c.written, piece...)
	w.callArgs(c, piece)
}

// cutInputs ends the arguments that stream. A run that is resumed streams them again.
func (w *Writer) cutInputs() {
	for _, c := range w.openCalls {
		c.streaming = false
	}
}

// arguments writes the arguments of a call, unless the client has them.
func (w *Writer) arguments(it *item, c *call, arguments chunk.Value) {
	if arguments.IsNull() {
		arguments = chunk.Value(`{}`)
	}
	hash := maphash.Bytes(hashSeed, arguments)
	if c.sent && c.inputHash == hash {
		return
	}
	if !c.open {
		w.callStart(c)
	}
	c.streaming = false
	text := rawjson.AppendEscaped(w.scratch[:0], arguments)
	w.scratch = text
	switch {
	case !c.broken && !c.sent && bytes.HasPrefix(text, c.written):
		if len(text) > len(c.written) {
			w.callArgs(c, text[len(c.written):])
		}
		w.callEnd(c, nil)
	case !c.broken && !c.sent && isSameJSON(rawjson.Unescaped(c.written), arguments):
		w.callEnd(c, nil)
	default:
		w.callEnd(c, arguments)
	}
	// A later record may have other arguments: they are in the metadata then, because the client appends to the text.
	c.sent, c.sentAt, c.broken = true, it.rec.Ordinal, true
	c.inputHash, c.written = hash, nil
}

// isSameJSON reports whether text is a JSON value that differs from v in white space only.
func isSameJSON(text []byte, v chunk.Value) bool {
	if _, ok := rawjson.Scan(text, rawjson.Limits{Levels: chunk.MaxDepth}); !ok {
		return false
	}
	return bytes.Equal(rawjson.AppendCompact(nil, text), rawjson.AppendCompact(nil, v))
}

// awaited returns the call that a record completes, nil if the record has no effect: it is too late, or the call is of an earlier turn. A call that runs on
// the server and whose start is missing is written first.
func (w *Writer) awaited(it *item, ours bool) *call {
	if it.Text("toolName") == dialect.FinishTool {
		return nil
	}
	key := callKey{it.by.agent, it.Text("toolCallId")}
	c := w.calls[key]
	if c == nil && ours {
		if _, done := w.latest(key); !done {
			c = w.call(it)
		}
	}
	if c != nil && !c.sent {
		w.arguments(it, c, it.orNull("partialInput")) // the outcome came before the arguments were complete
	}
	return c
}

func (w *Writer) toolEnd(it *item) {
	c := w.awaited(it, it.is("providerExecuted"))
	if c == nil {
		return
	}
	if it.Get("error") != nil {
		w.result(it, c, it.content("error"), it.Get("error"), it.Get("errorCode"))
		return
	}
	result := it.orNull("result")
	if result[0] == '"' {
		w.result(it, c, result[1:len(result)-1], nil, nil)
		return
	}
	text := rawjson.AppendEscaped(w.scratch[:0], result)
	w.scratch = text
	w.result(it, c, text, nil, nil)
}

func (w *Writer) toolError(it *item) {
	c := w.awaited(it, true)
	if c == nil {
		return
	}
	if it.rec.Type == chunk.TypeToolInputError {
		w.close(it.by)
		w.arguments(it, c, it.orNull("partialInput")) // the snapshot has these, also of a call that had others
	}
	w.result(it, c, it.content("error"), it.Get("error"), nil)
}

// approvalResponse writes the decision of a user. A denial is the outcome of the call.
func (w *Writer) approvalResponse(it *item) {
	c := w.calls[callKey{it.by.agent, it.Text("toolCallId")}]
	if it.Text("toolName") == dialect.FinishTool || c == nil {
		return
	}
	c.approvalID = nil
	w.lifecycleEvent(it)
	if it.is("approved") {
		c.approved, c.approvalAt = true, it.rec.Ordinal
		return
	}
	if !c.sent {
		w.arguments(it, c, null)
	}
	text := "call denied"
	if reason := it.Text("reason"); reason != "" {
		text += ": " + reason
	}
	content := rawjson.AppendEscaped(nil, text)
	w.result(it, c, content, quoted(content), quoted([]byte("denied")))
}

func quoted(content []byte) chunk.Value {
	return append(append(append(make(chunk.Value, 0, len(content)+2), '"'), content...), '"')
}

// result writes the outcome of a call. The event has no member for an error, so its metadata has it.
func (w *Writer) result(it *item, c *call, content []byte, failure, code chunk.Value) {
	w.callEnd(c, nil)
	if !w.omitted[c.id] {
		w.resultEvent(c, content, failure, code)
	}
	w.removeCall(c)
	w.finished[c.id] = finishedCall{
		by: c.by, id: c.key.id, name: c.name, suffix: c.suffix, of: c.of,
		begunAt: c.begunAt, completedAt: it.rec.Ordinal, delegated: c.delegated,
	}
}

func (w *Writer) resultEvent(c *call, content []byte, failure, code chunk.Value) {
	w.out.Open("TOOL_CALL_RESULT")
	w.out.Name("messageId")
	w.out.Dst = append(appendResultID(append(w.out.Dst, '"'), w.id, c.shown), '"')
	w.out.Content("toolCallId", c.shown)
	w.out.Content("content", content)
	w.out.Raw("role", []byte(`"tool"`))
	w.tagOf(c)
	if failure != nil {
		w.out.Nest("metadata")
		w.out.Raw("error", failure)
		w.out.Raw("errorCode", code)
		w.out.Close()
	}
	w.out.Shut()
}

// appendResultID appends the id of the message with the result of a call.
func appendResultID(dst, answer, call []byte) []byte {
	return append(append(append(dst, answer...), "-result-"...), call...)
}

// questions returns the calls that wait for the client: those that a user must approve, and those that the client executes.
func (w *Writer) questions() (approvals, calls []*call) {
	for _, c := range w.openCalls {
		switch {
		case c.approvalID != nil:
			approvals = append(approvals, c)
		case w.isClient(c):
			calls = append(calls, c)
		}
	}
	return approvals, calls
}

// asks reports whether a call waits for the client.
func (w *Writer) asks() bool {
	return slices.ContainsFunc(w.openCalls, func(c *call) bool { return c.approvalID != nil || w.isClient(c) })
}

// isClient reports whether the client executes a call: its agent waits, and nothing else executes it.
func (w *Writer) isClient(c *call) bool {
	if !c.sent || c.approved || c.delegated || !c.by.paused {
		return false
	}
	return !slices.ContainsFunc(w.order, func(a *agentState) bool { return a.child.running && a.child.by == c.by && a.child.call == c.key.id })
}

// delegates reports whether a sub-agent of the session's own agent is running.
func (w *Writer) delegates() bool {
	return slices.ContainsFunc(w.order, func(a *agentState) bool { return a.child.running }) ||
		slices.ContainsFunc(w.openCalls, func(c *call) bool { return c.delegated })
}

package mastra

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/dialect"
)

// toolCall is a call of an agent.
type toolCall struct {
	name  string // content of a JSON string
	input []byte // to announce it again

	// The records of these changes. A truncation record may remove them.
	at, announcedAt, doneAt chunk.Ordinal

	first     int  // the response in which its tool-call was first written, 0 for none
	announced int  // the latest one
	streaming int  // the response in which the start of its streamed arguments was written, 0 for none
	complete  bool // it has its outcome
	hidden    bool // the finish tool
	asks      bool // a user must decide about it
	suspended bool // a user must give it data
	delegated bool // a sub-agent executes it
	client    bool // the client runs it: a response ended for that
}

// waits reports whether the client must act before the call has an outcome.
func (c *toolCall) waits() bool { return !c.complete && (c.asks || c.suspended) }

// runsInClient reports whether a call that has no outcome where an answer waits is one that the client runs.
func (c *toolCall) runsInClient() bool {
	return !c.complete && !c.hidden && c.announced > 0 && !c.asks && !c.suspended && !c.delegated
}

// doneCall is a call with an outcome, of an earlier step: there may be many.
type doneCall struct{ at, doneAt chunk.Ordinal }

// call returns the call of a record, nil for none.
func (it *item) call() *toolCall {
	id := it.text("toolCallId")
	if c := it.sp.calls[string(id)]; c != nil {
		return c
	}
	if _, done := it.sp.done[string(id)]; done {
		return &toolCall{complete: true}
	}
	return nil
}

// compactCalls moves the calls with an outcome to the compact ones. A crashed worker's step, whose records are removed, is the one that has not ended.
func (sp *speaker) compactCalls() {
	for _, id := range sp.completed {
		c := sp.calls[id]
		if c == nil || !c.complete {
			continue
		}
		if sp.done == nil {
			sp.done = make(map[string]doneCall)
		}
		sp.done[id] = doneCall{c.at, c.doneAt}
		delete(sp.calls, id)
	}
	sp.completed = sp.completed[:0]
}

// tool writes a record of a tool call.
func (w *Writer) tool(it *item) {
	sp, c := it.sp, it.call()
	name := it.text("toolName")
	if string(name) == dialect.FinishTool || c != nil && c.hidden && name == nil {
		w.hideCall(it, c)
		return
	}
	if c != nil && c.hidden {
		c = nil // another tool has the id now
	}
	if sp.network {
		w.networkTool(it, c)
		return
	}
	switch it.rec.Type {
	case chunk.TypeToolArgStreamStart:
		w.close(sp)
		if c == nil || c.complete {
			c = w.newCall(it)
		}
		w.streamStart(it, c)
	case chunk.TypeToolArgStreamDelta:
		w.argsDelta(it, c)
	case chunk.TypeToolArgStreamEnd:
		w.streamEnd(it, c)
	case chunk.TypeToolStart:
		w.close(sp)
		if c == nil || c.complete {
			c = w.newCall(it)
		}
		if c.announced == 0 {
			w.announce(it, c, it.Get("arguments"))
		}
	case chunk.TypeToolApprovalRequest:
		w.approvalRequest(it, c)
	case chunk.TypeToolApprovalResponse:
		w.approvalResponse(it, c)
	default:
		w.outcome(it, c)
	}
}

// networkTool records what a record changes about a call of a network. The chunks of the network have its input and outcome.
func (w *Writer) networkTool(it *item, c *toolCall) {
	if c == nil || c.complete {
		c = w.newCall(it)
	}
	switch it.rec.Type {
	case chunk.TypeToolApprovalRequest:
		c.asks = true
	case chunk.TypeToolApprovalResponse:
		w.approvalResponse(it, c)
	case chunk.TypeToolEnd, chunk.TypeToolInputError, chunk.TypeToolOutputError:
		c.end(it)
	}
}

// hideCall records that a call is not shown, so that its pieces, which do not name the tool, are not shown either.
func (w *Writer) hideCall(it *item, c *toolCall) {
	if c == nil || c.complete {
		w.newCall(it).hidden = true
		it.sp.openCalls--
	}
}

func (w *Writer) newCall(it *item) *toolCall {
	name := it.content("toolName")
	if len(name) == 0 {
		name = unknownTool
	}
	c := &toolCall{name: w.intern(name), at: it.rec.Ordinal, delegated: bytes.HasPrefix(name, []byte(dialect.SubAgentTool))}
	if it.sp.calls == nil {
		it.sp.calls = make(map[string]*toolCall)
	}
	id := string(it.text("toolCallId"))
	delete(it.sp.done, id)
	it.sp.calls[id] = c
	it.sp.openCalls++
	return c
}

// unknownTool is the name of the tool of a call whose first record does not have it.
var unknownTool = []byte("unknown")

// intern returns the name of a tool: most calls have one of a few.
func (w *Writer) intern(name []byte) string {
	if s, ok := w.names[string(name)]; ok {
		return s
	}
	if w.names == nil || len(w.names) > maxNames {
		w.names = make(map[string]string)
	}
	s := string(name)
	w.names[s] = s
	return s
}

const maxNames = 256

// callHead writes the id of the call of a record and its tool.
func (w *Writer) callHead(it *item, c *toolCall) {
	w.frames.Raw("toolCallId", it.Get("toolCallId"))
	if name := it.Get("toolName"); name != nil {
		w.frames.Raw("toolName", name)
		return
	}
	w.frames.Name("toolName")
	w.frames.Dst = append(append(append(w.frames.Dst, '"'), c.name...), '"')
}

func (w *Writer) streamStart(it *item, c *toolCall) {
	c.streaming = w.response
	w.open(it.sp, "tool-call-input-streaming-start")
	w.callHead(it, c)
	w.shut(it.sp)
}

// argsDelta writes a piece of the arguments. The client stops its tools at a piece without a start in the response.
func (w *Writer) argsDelta(it *item, c *toolCall) {
	piece := it.content("delta")
	if len(piece) == 0 || c != nil && (c.complete || c.announced > 0) {
		return
	}
	if c == nil {
		c = w.newCall(it)
	}
	if c.streaming != w.response {
		w.close(it.sp)
		w.streamStart(it, c)
	}
	w.open(it.sp, "tool-call-delta")
	w.callHead(it, c)
	w.frames.Content("argsTextDelta", piece)
	w.shut(it.sp)
}

func (w *Writer) streamEnd(it *item, c *toolCall) {
	if c == nil || c.streaming != w.response {
		return
	}
	c.streaming = 0
	w.open(it.sp, "tool-call-input-streaming-end")
	w.frames.Raw("toolCallId", it.Get("toolCallId"))
	w.shut(it.sp)
}

// announce writes the call with its input. A call that has no outcome where a response ends is announced again before it has one.
func (w *Writer) announce(it *item, c *toolCall, input chunk.Value) {
	w.streamEnd(it, c)
	if len(input) == 0 || input[0] != '{' {
		input = arguments(input)
	}
	if len(c.input) == 0 {
		c.input = append([]byte(nil), input...)
	}
	c.announced, c.announcedAt = w.response, it.rec.Ordinal
	c.first = cmp.Or(c.first, w.response)
	w.open(it.sp, "tool-call")
	w.callHead(it, c)
	w.frames.Raw("args", input)
	w.shut(it.sp)
}

// announced returns the call of a record that needs one that was announced in this response.
func (w *Writer) announced(it *item, c *toolCall, input chunk.Value) *toolCall {
	if c == nil {
		c = w.newCall(it)
	}
	if c.announced != w.response {
		if c.input != nil {
			input = c.input
		}
		w.close(it.sp)
		w.announce(it, c, input)
	}
	return c
}

// end records the outcome of a call.
func (c *toolCall) end(it *item) {
	it.sp.openCalls--
	c.complete, c.doneAt, c.asks, c.suspended = true, it.rec.Ordinal, false, false
	it.sp.completed = append(it.sp.completed, string(it.text("toolCallId")))
}

// outcome writes the outcome of a call. Later ones of the same call are dropped.
func (w *Writer) outcome(it *item, c *toolCall) {
	if c != nil && c.complete {
		return
	}
	if c != nil && c.client && c.announced != w.response && it.rec.Type == chunk.TypeToolEnd && !it.is("providerExecuted") {
		w.clientOutcome(it, c)
		return
	}
	var input chunk.Value
	if it.rec.Type == chunk.TypeToolInputError {
		input = it.Get("partialInput")
		w.close(it.sp)
	}
	c = w.announced(it, c, input)
	c.end(it)
	if it.Get("error") == nil {
		w.open(it.sp, "tool-result")
		w.callHead(it, c)
		w.frames.Raw("result", orNull(it.Get("result")))
		w.shut(it.sp)
		return
	}
	w.open(it.sp, "tool-error")
	w.callHead(it, c)
	if input != nil {
		w.frames.Raw("args", arguments(input))
	}
	w.frames.Nest("error")
	w.frames.Raw("message", it.Get("error"))
	w.frames.Raw("code", it.Get("errorCode"))
	w.frames.Close()
	w.shut(it.sp)
}

// clientOutcome writes the outcome of a call that the client ran after an earlier response. The client has it: Mastra's servers do not send it, and a call with
// that result would be run again at the end of this response, one without would stop the client's tools.
func (w *Writer) clientOutcome(it *item, c *toolCall) {
	c.end(it)
	w.sendNotice(it.sp, "tool-result", func(f *dialect.Frames) {
		w.callHead(it, c)
		f.Raw("result", orNull(it.Get("result")))
		f.Raw("error", it.Get("error"))
	})
}

// resumeSchema describes the answer to a request for approval.
const resumeSchema = `{"type":"object","properties":{"approved":{"type":"boolean"},"reason":{"type":"string"}},"required":["approved"]}`

// approvalRequest writes a request to the user. A request that a rule answers is not shown.
func (w *Writer) approvalRequest(it *item, c *toolCall) {
	w.close(it.sp)
	if c != nil && c.complete {
		c = nil
	}
	input := it.Get("input")
	c = w.announced(it, c, input)
	if it.is("isAutomatic") {
		return
	}
	c.asks = true
	w.begin(it.sp, "tool-call-approval")
	w.approvalEnvelope(it)
	w.frames.Nest("payload")
	w.callHead(it, c)
	w.frames.Raw("args", arguments(input))
	w.frames.String("resumeSchema", resumeSchema)
	w.shut(it.sp)
}

// approvalEnvelope is envelope with the run that makes the client's id of the approval, run::call, that of the log.
func (w *Writer) approvalEnvelope(it *item) {
	run, ok := strings.CutSuffix(it.Text("approvalId"), "::"+it.Text("toolCallId"))
	if !ok || run == "" || !w.isOwn(it.sp) {
		w.envelope(it.sp)
		return
	}
	w.frames.String("runId", run)
	w.frames.Raw("from", []byte(`"AGENT"`))
}

// approvalResponse writes a decision. Mastra has a chunk for a denial only.
func (w *Writer) approvalResponse(it *item, c *toolCall) {
	if c != nil && c.complete {
		return
	}
	if it.is("approved") {
		if c != nil {
			c.asks = false
		}
		w.sendNotice(it.sp, "tool-approval-response", func(f *dialect.Frames) {
			for _, name := range []string{"toolCallId", "toolName", "approvalId", "approved", "reason"} {
				f.Raw(name, it.Get(name))
			}
		})
		return
	}
	c = w.announced(it, c, nil)
	c.end(it)
	w.open(it.sp, "tool-output-denied")
	w.callHead(it, c)
	w.frames.Nest("approval")
	w.frames.Raw("id", it.Get("approvalId"))
	w.frames.Bool("approved", false)
	w.frames.Raw("reason", it.Get("reason"))
	w.frames.Close()
	w.shut(it.sp)
}

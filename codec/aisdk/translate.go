package aisdk

import (
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// The codes of the StreamFailed that a Translator returns.
const (
	CodeConnectionLost = "connection_lost"   // the response ended without finish: its end is missing
	CodeAgentFailed    = "agent_failed"      // the response had an error
	customPrefix       = dialect.AISDK + "." // of the custom event that carries a part without a counterpart
	unknownTool        = "unknown"           // name of the tool of an outcome whose call was in another response
	typeOutput         = "tool-output-available"
)

// translator translates the parts of a UI message stream, which the servers of the AI SDK write (toUIMessageStreamResponse of version 6 and 7), to the chunks
// of the log. It is a codec.Translator, see there; package doc has the table. The caller reads the server-sent events and stops at [DONE].
type translator struct {
	b     *dialect.Builder
	agent dialect.Agent
	runID string
	calls map[string]*incomingCall // by id, of all responses

	stepEnds bool        // finish-step was read; step_end is written with the next part, which may have the reason
	metadata chunk.Value // of the message, from before the first step
	used     used
	texts    textBlocks
	text     string // of the error that the response had
	ending   responseEnd
}

// responseEnd is what the end of the body would mean.
type responseEnd int

const (
	lost     responseEnd = iota // there was no finish
	complete                    // a finish, or an abort
	errored
)

// NewTranslator returns a Translator of a run; its Session is required. The AgentType defaults to "agent". The RunID is for run_interrupted, and may be empty.
func NewTranslator(c codec.Run) codec.Translator {
	b, agent := dialect.NewBuilder(customPrefix, c)
	return &translator{b: b, agent: agent, runID: c.RunID, calls: make(map[string]*incomingCall)}
}

// Translate implements codec.Translator. raw is the data of one event.
func (t *translator) Translate(raw []byte) ([]chunk.Chunk, error) {
	whole, err := dialect.CheckValue(raw)
	if err != nil {
		return nil, err
	}
	p := part{Object: dialect.Read(whole)}
	if p.kind = p.text("type"); p.kind == "" {
		return nil, &chunk.FieldError{Field: "type", Want: "the type of a part of a UI message stream"}
	}
	t.resume()
	if p.kind != "finish" && p.kind != "message-metadata" { // whose metadata belongs to the step
		t.endStep(nil)
	}
	first, id := len(t.b.Out), p.text("toolCallId")
	before := t.calls[id]
	if before != nil {
		before = new(*before)
	}
	if known := t.part(p); t.b.Valid(first) && known {
		t.agent.KeepRest(first, t.b.Rests.Of(p.Object, p.kind, leftOut))
		return t.b.Take(), nil
	}
	t.b.Out = t.b.Out[:first]
	t.restore(id, before)
	kind := p.kind // it has no counterpart, or is malformed
	if len(customPrefix+kind) > maxEventName {
		kind = "unknown"
	}
	t.agent.Keep(kind, p.All())
	return t.b.Take(), nil
}

// End implements codec.Translator. The body has ended: with a finish, or because the connection was lost.
func (t *translator) End() []chunk.Chunk {
	t.beginMetadata()
	t.flushTexts()
	t.endStep(nil)
	switch {
	case t.agent.Paused:
	case t.ending == errored:
		t.agent.End(&chunk.ErrorDetail{Message: t.text, Code: new(CodeAgentFailed)}, nil, nil)
	case t.ending == lost:
		t.agent.End(&chunk.ErrorDetail{Message: "the answer of the agent is incomplete", Code: new(CodeConnectionLost)}, nil, nil)
	case t.waits():
		t.agent.Pause("tool-calls")
	default:
		t.agent.End(nil, nil, nil)
	}
	t.texts.open = ""
	return t.b.Take()
}

// resume continues a paused run: another response has begun. The client has answered the calls that the run waited for.
func (t *translator) resume() {
	if !t.agent.Resume() {
		return
	}
	for _, c := range t.calls {
		c.waits = false
	}
	t.ending, t.used = lost, used{model: t.used.model}
}

// restore resets a call to its state before a part that could not be translated. Otherwise a call that the log does not have would pause the run.
func (t *translator) restore(id string, c *incomingCall) {
	if c == nil {
		delete(t.calls, id)
	} else {
		t.calls[id] = c
	}
}

// waits reports whether a call has no outcome.
func (t *translator) waits() bool {
	for _, c := range t.calls {
		if c.waits {
			return true
		}
	}
	return false
}

func (t *translator) emit(b chunk.Body, extra ...chunk.Member) {
	t.texts.next(b)
	t.agent.Emit(b, extra...)
}

// setMetadata writes metadata of the message. That of the start waits for the first step: before it the response may have the outcomes of approved calls, which belong
// to an earlier step.
func (t *translator) setMetadata(p part) {
	v := chunk.MessageMetadata(p.All())
	if v == nil {
		return
	}
	p.Get("messageMetadata")
	t.used.read(v, p.kind)
	o := rawjson.Begin(nil)
	o.String("type", "message-metadata")
	o.Raw("messageMetadata", v)
	whole := o.End()
	if p.kind == "start" {
		t.metadata = whole
		return
	}
	t.emit(chunk.Custom{EventName: chunk.MetadataEvent, Data: whole})
}

// beginMetadata writes the metadata of the start.
func (t *translator) beginMetadata() {
	if t.metadata != nil {
		t.emit(chunk.Custom{EventName: chunk.MetadataEvent, Data: t.metadata})
		t.metadata = nil
	}
}

// endStep writes the end of a step whose finish-step was read.
func (t *translator) endStep(reason *string) {
	if t.stepEnds {
		t.stepEnds = false
		t.emit(t.used.stepEnd(reason))
	}
}

// maxEventName bounds the name of a carried part, so that a type of any length fits.
const maxEventName = 128

// leftOut has the members of parts that have no counterpart in the log, see docs/reference/dialects.md.
var leftOut = dialect.LeaveOut(map[string]string{
	"start": "messageId", "text-start text-delta text-end reasoning-start reasoning-delta reasoning-end": "id",
})

// part is one part of the stream.
type part struct {
	*dialect.Object

	kind string
}

func (p part) text(name string) string { return p.Or(name, "") }

// members returns the members of p with these names that a chunk has in its Part.
func (p part) members(names ...string) *chunk.Part {
	o := rawjson.Begin(nil)
	for _, name := range names {
		o.Raw(name, p.Peek(name))
	}
	if len(o.Dst) == 1 {
		return new(chunk.Part)
	}
	all := chunk.PartOf([]chunk.Member{{Name: chunk.PartMember, Value: o.End()}})
	for _, m := range all.Extra() {
		for name := range rawjson.Members(m.Value) {
			p.Get(string(name.Bytes()))
		}
	}
	return &all
}

// part writes the chunks for p, or reports false.
func (t *translator) part(p part) bool {
	switch p.kind {
	case "start":
		t.setMetadata(p)
	case "message-metadata":
		t.setMetadata(p)
	case "start-step":
		t.flushTexts()
		t.texts.open = ""
		t.agent.NextStep(nil)
		t.beginMetadata()
	case "finish-step":
		t.stepEnds = true
	case "finish":
		t.finish(p)
	case "error":
		text := p.Maybe("errorText")
		if text == nil {
			return false
		}
		t.ending, t.text = errored, *text
		t.emit(chunk.Error{Error: *text, Code: new(CodeAgentFailed)})
	case "abort":
		if t.ending != errored { // of two ends the worse one counts
			t.ending = complete
		}
		t.emit(chunk.RunInterrupted{RunID: t.runID, Reason: p.Maybe("reason")})
	case "text-start", "text-delta", "text-end", "reasoning-start", "reasoning-delta", "reasoning-end":
		return t.textPart(p)
	case "source-url", "source-document", "file":
		return t.reference(p)
	default:
		if name, ok := strings.CutPrefix(p.kind, "data-"); ok {
			return t.data(name, p)
		}
		return t.toolPart(p)
	}
	return true
}

// finish handles the end of the message. Data may follow it, and a body that ends without it was cut.
func (t *translator) finish(p part) {
	t.beginMetadata()
	t.setMetadata(p)
	t.stepEnds = t.used.finish() || t.stepEnds
	reason := p.text("finishReason")
	if t.ending != errored {
		t.ending = complete
		if reason == dialect.ReasonError {
			t.ending, t.text = errored, "the agent failed without a reason"
		}
	}
	if reason == "" {
		t.endStep(nil)
		return
	}
	if !finishReasons[reason] {
		reason = dialect.ReasonOther
		p.Unread("finishReason")
	}
	t.endStep(&reason)
}

// references has the members that parts about sources and files need.
var references = map[string][]string{"source-url": {"sourceId", "url"}, "source-document": {"sourceId", "mediaType", "title"}, "file": {"url", "mediaType"}}

func (t *translator) reference(p part) bool {
	var body chunk.Body
	switch p.kind {
	case "source-url":
		body = chunk.SourceURL{SourceID: p.text("sourceId"), URL: p.text("url"), Title: p.Maybe("title")}
	case "source-document":
		body = chunk.SourceDocument{SourceID: p.text("sourceId"), MediaType: p.text("mediaType"), Title: p.text("title"), Filename: p.Maybe("filename")}
	default:
		body = chunk.File{URL: p.text("url"), MediaType: p.text("mediaType"), Filename: p.Maybe("filename")}
	}
	for _, name := range references[p.kind] {
		if rawjson.Kind(p.Peek(name)) != '"' {
			return false
		}
	}
	t.emit(body, p.members("providerMetadata").Extra()...)
	return true
}

func (t *translator) data(name string, p part) bool {
	v := p.Get("data")
	if v == nil {
		return false
	}
	t.emit(chunk.Custom{EventName: name, Data: v}, p.members("id", "transient").Extra()...)
	return true
}

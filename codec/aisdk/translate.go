package aisdk

import (
	"strings"

	"github.com/tailrace/tailrace/chunk"
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

// Translator translates the parts of a UI message stream, which the servers of the AI SDK write (toUIMessageStreamResponse of version 6 and 7), to the chunks
// of the log. It is a dialect.Translator, see there; package doc has the table. The caller reads the server-sent events and stops at [DONE].
type Translator struct {
	cfg   TranslatorConfig
	step  int64
	calls map[string]*incomingCall // by id, of all responses
	out   []chunk.Chunk            // result for the current part so far

	stepEnds bool        // finish-step was read; step_end is written with the next part, which may have the reason
	metadata chunk.Value // of the message, from before the first step
	used     used
	texts    textBlocks
	rests    dialect.Rests
	text     string // of the error that the response had
	ending   responseEnd
	paused   bool // stream_paused was the last chunk
}

var _ dialect.Translator = (*Translator)(nil)

// responseEnd is what the end of the body would mean.
type responseEnd int

const (
	lost     responseEnd = iota // there was no finish
	complete                    // a finish, or an abort
	errored
)

// TranslatorConfig describes the run that a Translator translates.
type TranslatorConfig struct {
	Session   string // id of its session; required
	AgentType string // of its chunks; defaults to "agent"
	RunID     string // of the run; optional, for run_interrupted
	Step      int64  // that the run has reached, 0 before the first: a Translator of a later response of a run continues counting
}

// NewTranslator returns a Translator.
func NewTranslator(c TranslatorConfig) *Translator {
	if c.AgentType == "" {
		c.AgentType = "agent"
	}
	return &Translator{cfg: c, step: c.Step, calls: make(map[string]*incomingCall)}
}

// Translate implements dialect.Translator. raw is the data of one event.
func (t *Translator) Translate(raw []byte) ([]chunk.Chunk, error) {
	whole, err := dialect.CheckValue(raw)
	if err != nil {
		return nil, err
	}
	p := part{Object: dialect.Read(whole), whole: whole}
	if p.kind = p.text("type"); p.kind == "" {
		return nil, &chunk.FieldError{Field: "type", Want: "the type of a part of a UI message stream"}
	}
	t.resume()
	if p.kind != "finish" && p.kind != "message-metadata" { // whose metadata belongs to the step
		t.endStep(nil)
	}
	first, id := len(t.out), p.text("toolCallId")
	before := t.calls[id]
	if before != nil {
		before = new(*before)
	}
	known := t.part(p)
	for _, c := range t.out[first:] {
		known = known && c.ValidateUnstored() == nil
	}
	if !known {
		t.out = t.out[:first]
		t.restore(id, before)
		t.carry(p)
	} else if rest := t.rests.Of(p.Object, p.kind, leftOut); rest != nil {
		t.out = dialect.Keep(t.out, first, t.chunk(chunk.Custom{EventName: customPrefix + dialect.RestEvent, Data: rest}))
	}
	return t.take(), nil
}

// End implements dialect.Translator. The body has ended: with a finish, or because the connection was lost.
func (t *Translator) End() []chunk.Chunk {
	t.beginMetadata()
	t.flushTexts()
	t.endStep(nil)
	switch {
	case t.paused:
	case t.ending == errored:
		t.fail(t.text, CodeAgentFailed)
	case t.ending == lost:
		t.fail("the answer of the agent is incomplete", CodeConnectionLost)
	case t.waits():
		t.paused = true
		t.emit(chunk.StreamPaused{Reason: new("tool-calls")})
	default:
		t.emit(chunk.StreamEnd{StreamID: t.cfg.Session})
	}
	return t.take()
}

// resume continues a paused run: another response has begun. The client has answered the calls that the run waited for.
func (t *Translator) resume() {
	if !t.paused {
		return
	}
	for _, c := range t.calls {
		c.waits = false
	}
	t.paused, t.ending, t.used = false, lost, used{model: t.used.model}
	t.emit(chunk.StreamActive{})
}

// restore resets a call to its state before a part that could not be translated. Otherwise a call that the log does not have would pause the run.
func (t *Translator) restore(id string, c *incomingCall) {
	if c == nil {
		delete(t.calls, id)
	} else {
		t.calls[id] = c
	}
}

func (t *Translator) fail(text, code string) {
	t.emit(chunk.StreamFailed{Error: text, ErrorDetail: &chunk.ErrorDetail{Message: text, Code: &code}})
}

// waits reports whether a call has no outcome.
func (t *Translator) waits() bool {
	for _, c := range t.calls {
		if c.waits {
			return true
		}
	}
	return false
}

func (t *Translator) take() []chunk.Chunk {
	out := t.out
	t.out = nil
	return out
}

func (t *Translator) emit(b chunk.Body) { t.emitPart(b, chunk.Part{}) }

// emitPart is emit for a part with members that the chunk schema does not have.
func (t *Translator) emitPart(b chunk.Body, ui chunk.Part) {
	t.texts.next(b)
	t.out = append(t.out, t.chunk(b, ui.Extra()...))
}

func (t *Translator) chunk(b chunk.Body, extra ...chunk.Member) chunk.Chunk {
	return chunk.Chunk{AgentID: t.cfg.Session, AgentType: t.cfg.AgentType, Step: t.step, Body: b, Extra: extra}
}

// setMetadata writes metadata of the message. That of the start waits for the first step: before it the response may have the outcomes of approved calls, which belong
// to an earlier step.
func (t *Translator) setMetadata(p part) {
	v := chunk.MessageMetadata(p.whole)
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
func (t *Translator) beginMetadata() {
	if t.metadata != nil {
		t.emit(chunk.Custom{EventName: chunk.MetadataEvent, Data: t.metadata})
		t.metadata = nil
	}
}

// endStep writes the end of a step whose finish-step was read.
func (t *Translator) endStep(reason *string) {
	if t.stepEnds {
		t.stepEnds = false
		t.emit(t.used.stepEnd(reason))
	}
}

// carry keeps a part that has no counterpart, or that is malformed.
func (t *Translator) carry(p part) {
	name := customPrefix + p.kind
	if len(name) > maxEventName || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7F }) {
		name = customPrefix + "unknown"
	}
	t.emit(chunk.Custom{EventName: name, Data: p.whole})
}

// maxEventName bounds the name of a carried part, so that a type of any length fits.
const maxEventName = 128

// leftOut has the members of parts that have no counterpart in the log, see docs/dialects.md.
var leftOut = dialect.LeaveOut(map[string]string{
	"start": "messageId", "text-start text-delta text-end reasoning-start reasoning-delta reasoning-end": "id",
})

// part is one part of the stream.
type part struct {
	*dialect.Object

	kind  string
	whole chunk.Value
}

func (p part) text(name string) string { return p.Or(name, "") }

// members returns the members of p with these names that a chunk has in its Part.
func (p part) members(names ...string) chunk.Part {
	o := rawjson.Begin(nil)
	for _, name := range names {
		o.Raw(name, p.Peek(name))
	}
	if len(o.Dst) == 1 {
		return chunk.Part{}
	}
	all := chunk.PartOf([]chunk.Member{{Name: chunk.PartMember, Value: o.End()}})
	for _, m := range all.Extra() {
		for name := range rawjson.Members(m.Value) {
			p.Get(string(name.Bytes()))
		}
	}
	return all
}

// part writes the chunks for p, or reports false.
func (t *Translator) part(p part) bool {
	switch p.kind {
	case "start":
		t.setMetadata(p)
	case "message-metadata":
		t.setMetadata(p)
	case "start-step":
		t.flushTexts()
		t.step++
		t.emit(chunk.StepStart{})
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
		t.emit(chunk.RunInterrupted{RunID: t.cfg.RunID, Reason: p.Maybe("reason")})
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
func (t *Translator) finish(p part) {
	t.beginMetadata()
	t.setMetadata(p)
	t.stepEnds = t.used.finish() || t.stepEnds
	reason := p.text("finishReason")
	if t.ending != errored {
		t.ending = complete
		if reason == reasonError {
			t.ending, t.text = errored, "the agent failed without a reason"
		}
	}
	if reason == "" {
		t.endStep(nil)
		return
	}
	if !finishReasons[reason] {
		reason = reasonOther
		p.Unread("finishReason")
	}
	t.endStep(&reason)
}

// references has the members that parts about sources and files need.
var references = map[string][]string{"source-url": {"sourceId", "url"}, "source-document": {"sourceId", "mediaType", "title"}, "file": {"url", "mediaType"}}

func (t *Translator) reference(p part) bool {
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
	t.emitPart(body, p.members("providerMetadata"))
	return true
}

func (t *Translator) data(name string, p part) bool {
	v := p.Get("data")
	if v == nil {
		return false
	}
	t.emitPart(chunk.Custom{EventName: name, Data: v}, p.members("id", "transient"))
	return true
}

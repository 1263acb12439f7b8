package aisdk

import (
	"slices"
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
	cfg       TranslatorConfig
	step      int64
	messageID string
	calls     map[string]*incomingCall // by id, of all responses
	out       []chunk.Chunk            // result for the current part so far

	stepEnds bool        // finish-step was read; step_end is written with the next part, which may have the reason
	metadata chunk.Value // of the message, from before the first step
	texts    textBlocks
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

// incomingCall is a tool call of the server.
type incomingCall struct {
	name      string
	input     chunk.Value // nil before it is complete
	streaming bool        // its arguments stream
	waits     bool        // nothing has the outcome: the client runs it, or a user must approve it
}

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

// MessageID returns the server's id of the message, "" until a start has one.
func (t *Translator) MessageID() string { return t.messageID }

// Translate implements dialect.Translator. raw is the data of one event.
func (t *Translator) Translate(raw []byte) ([]chunk.Chunk, error) {
	whole, err := dialect.CheckValue(raw)
	if err != nil {
		return nil, err
	}
	p := part{whole: whole}
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
		known = known && c.Validate() == nil
	}
	if !known {
		t.out = t.out[:first]
		t.restore(id, before)
		t.carry(p)
	}
	return t.take(), nil
}

// End implements dialect.Translator. The body has ended: with a finish, or because the connection was lost.
func (t *Translator) End() []chunk.Chunk {
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
	t.paused, t.ending = false, lost
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
	t.out = append(t.out, chunk.Chunk{AgentID: t.cfg.Session, AgentType: t.cfg.AgentType, Step: t.step, Body: b, Extra: ui.Extra()})
}

// setMetadata writes metadata of the message. That of the start waits for the first step: before it the response may have the outcomes of approved calls, which belong
// to an earlier step.
func (t *Translator) setMetadata(p part) {
	v := chunk.MessageMetadata(p.whole)
	if v == nil {
		return
	}
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
		t.emit(chunk.StepEnd{FinishReason: reason})
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

// part is one part of the stream.
type part struct {
	kind  string
	whole chunk.Value
}

func (p part) get(name string) chunk.Value { return rawjson.Get(p.whole, name) }

func (p part) maybe(name string) *string {
	v := p.get(name)
	if len(v) == 0 || v[0] != '"' {
		return nil
	}
	s, err := rawjson.Text(v).Unquote()
	if err != nil {
		return nil
	}
	return &s
}

func (p part) text(name string) string {
	if s := p.maybe(name); s != nil {
		return *s
	}
	return ""
}

// members returns the members of p that a chunk has in its Part.
func (p part) members() chunk.Part {
	return chunk.PartOf([]chunk.Member{{Name: chunk.PartMember, Value: p.whole}})
}

func (p part) is(name string) bool { return string(p.get(name)) == "true" }

// part writes the chunks for p, or reports false.
func (t *Translator) part(p part) bool {
	switch p.kind {
	case "start":
		if id := p.text("messageId"); id != "" {
			t.messageID = id
		}
		t.setMetadata(p)
	case "message-metadata":
		t.setMetadata(p)
	case "start-step":
		t.step++
		t.emit(chunk.StepStart{})
		t.beginMetadata()
	case "finish-step":
		t.stepEnds = true
	case "finish":
		t.finish(p)
	case "error":
		text := p.maybe("errorText")
		if text == nil {
			return false
		}
		t.ending, t.text = errored, *text
		t.emit(chunk.Error{Error: *text, Code: new(CodeAgentFailed)})
	case "abort":
		if t.ending != errored { // of two ends the worse one counts
			t.ending = complete
		}
		t.emit(chunk.RunInterrupted{RunID: t.cfg.RunID, Reason: p.maybe("reason")})
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
	}
	t.endStep(&reason)
}

func (t *Translator) reference(p part) bool {
	id, url, mediaType, title := p.maybe("sourceId"), p.maybe("url"), p.maybe("mediaType"), p.maybe("title")
	ui := chunk.Part{ProviderMetadata: p.members().ProviderMetadata}
	switch {
	case p.kind == "source-url" && id != nil && url != nil:
		t.emitPart(chunk.SourceURL{SourceID: *id, URL: *url, Title: title}, ui)
	case p.kind == "source-document" && id != nil && mediaType != nil && title != nil:
		t.emitPart(chunk.SourceDocument{SourceID: *id, MediaType: *mediaType, Title: *title, Filename: p.maybe("filename")}, ui)
	case p.kind == "file" && url != nil && mediaType != nil:
		t.emitPart(chunk.File{URL: *url, MediaType: *mediaType}, ui)
	default:
		return false
	}
	return true
}

func (t *Translator) data(name string, p part) bool {
	v := p.get("data")
	if v == nil {
		return false
	}
	all := p.members()
	t.emitPart(chunk.Custom{EventName: name, Data: v}, chunk.Part{ID: all.ID, Transient: all.Transient})
	return true
}

// toolPart translates a part of a tool call. A part of a call that is not known, because it was in another response, is carried, except its outcome.
func (t *Translator) toolPart(p part) bool {
	id := p.text("toolCallId")
	if id == "" {
		return false
	}
	c := t.calls[id]
	if name := p.text("toolName"); c == nil && name != "" && slices.Contains([]string{"tool-input-start", "tool-input-available", "tool-input-error"}, p.kind) {
		c = &incomingCall{name: name}
		t.calls[id] = c
	}
	if c == nil {
		return t.outcomeOfEarlierCall(id, p)
	}
	switch p.kind {
	case "tool-input-start":
		if c.streaming || c.input != nil {
			return false
		}
		c.streaming = true
		t.emitPart(chunk.ToolArgStreamStart{ToolCallID: id, ToolName: c.name}, callMembers(p))
	case "tool-input-delta":
		piece := p.maybe("inputTextDelta")
		if piece == nil || !c.streaming {
			return false
		}
		t.emit(chunk.ToolArgStreamDelta{ToolCallID: id, Delta: *piece})
	case "tool-input-available":
		return t.inputAvailable(id, c, p)
	case "tool-input-error":
		c.streaming, c.waits = false, false
		e := chunk.ToolInputError{ToolCallID: id, ToolName: c.name, Error: p.text("errorText")}
		if v := p.get("input"); v != nil {
			e.PartialInput = &v
		}
		t.emitPart(e, callMembers(p))
	case "tool-approval-request":
		approval := p.maybe("approvalId")
		if approval == nil || c.input == nil {
			return false
		}
		req := chunk.ToolApprovalRequest{ToolCallID: id, ToolName: c.name, ApprovalID: *approval, Input: c.input}
		if p.is("isAutomatic") {
			req.IsAutomatic = new(true) // a rule of the server decides it
		} else {
			c.waits = true
		}
		t.emit(req)
	default:
		return t.outcome(id, c, p)
	}
	return true
}

func (t *Translator) inputAvailable(id string, c *incomingCall, p part) bool {
	input := p.get("input")
	if input == nil || c.input != nil {
		return false
	}
	if c.streaming {
		c.streaming = false
		t.emit(chunk.ToolArgStreamEnd{ToolCallID: id})
	}
	switch {
	case input.IsNull():
		input = chunk.Value(`{}`)
	case rawjson.Kind(input) != '{':
		input = append(append(chunk.Value(`{"value":`), input...), '}')
	}
	c.input = input
	// The provider reports the outcome of its own call, perhaps in a later response.
	c.waits = !p.is("providerExecuted")
	t.emitPart(chunk.ToolStart{ToolCallID: id, ToolName: c.name, Arguments: input}, callMembers(p))
	return true
}

// outcome writes the outcome of a call.
func (t *Translator) outcome(id string, c *incomingCall, p part) bool {
	switch p.kind {
	case typeOutput:
		output := p.get("output")
		if output == nil {
			return false
		}
		if p.is("preliminary") {
			t.emit(chunk.Custom{EventName: chunk.PreliminaryEvent, Data: p.whole})
			return true
		}
		t.emitPart(chunk.ToolEnd{ToolCallID: id, ToolName: c.name, Result: output, ProviderExecuted: new(true)}, outcomeMembers(p))
	case "tool-output-error":
		text := p.maybe("errorText")
		if text == nil {
			return false
		}
		t.emitPart(chunk.ToolEnd{ToolCallID: id, ToolName: c.name, Error: text, ProviderExecuted: new(true)}, outcomeMembers(p))
	case "tool-output-denied":
		t.emit(chunk.ToolApprovalResponse{ToolCallID: id, ToolName: c.name})
	default:
		return false
	}
	c.waits = false
	return true
}

// outcomeOfEarlierCall writes the outcome of a call that an earlier response had, to which another Translator was used: an approved call has run.
func (t *Translator) outcomeOfEarlierCall(id string, p part) bool {
	return t.outcome(id, &incomingCall{name: unknownTool}, p)
}

// callMembers returns the members of a part that begins a call which the chunk schema does not have. Servers leave out dynamic in the part of a static tool.
func callMembers(p part) chunk.Part {
	all := p.members()
	return chunk.Part{Static: !p.is("dynamic"), Title: all.Title, ToolMetadata: all.ToolMetadata, ProviderMetadata: all.ProviderMetadata}
}

// outcomeMembers returns those of an outcome.
func outcomeMembers(p part) chunk.Part {
	all := p.members()
	return chunk.Part{ToolMetadata: all.ToolMetadata, ProviderMetadata: all.ProviderMetadata}
}

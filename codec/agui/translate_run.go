package agui

import (
	"cmp"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/turn"
)

type failure struct {
	text string
	code *string
}

func (f *failure) detail() *chunk.ErrorDetail {
	return &chunk.ErrorDetail{Message: f.text, Code: f.code}
}

func (t *Translator) runStarted() {
	t.discard()
	t.ending, t.failure, t.output = broken, failure{}, nil
	if t.root.paused {
		t.root.paused = false
		t.emit(t.root, chunk.StreamActive{})
	}
}

// discard keeps an end that does not count, because another one has come.
func (t *Translator) discard() {
	if t.ending == fails {
		t.emit(t.root, chunk.Error{Error: t.failure.text, Code: t.failure.code, Recoverable: true})
	}
	if t.output != nil {
		t.emit(t.root, chunk.Custom{EventName: Prefix + dialect.RestEvent, Data: append(append(chunk.Value(`{"type":"RUN_FINISHED","result":`), t.output...), '}')})
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
	if t.ending == fails { // of two ends the worse one counts
		t.usage(e)
		return
	}
	t.ending, t.output = ended, e.object["result"]
	outcome := e.object.object("outcome")
	switch kind, _ := outcome.text("type"); kind {
	case "interrupt":
		for v := range rawjson.Elements(outcome["interrupts"]) {
			t.interrupt(v)
		}
		t.ending = waits
		t.waitFor = cmp.Or(t.waitFor, "interrupt")
	case "cancelled":
		code := turn.CodeAborted
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
	for v := range rawjson.Elements(e.object["usage"]) { // one for each model
		o := read(v)
		end := chunk.StepEnd{Usage: &chunk.Usage{
			InputTokens: o.number("inputTokens"), OutputTokens: o.number("outputTokens"), ReasoningTokens: o.maybeNumber("reasoningTokens"),
			CachedTokens: o.maybeNumber("cachedInputTokens"), CacheWriteTokens: o.maybeNumber("cacheWriteInputTokens"),
		}}
		chunk.Model{Name: o.or("model", ""), Provider: o.or("provider", "")}.AddTo(&end)
		t.emit(t.root, end)
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
		t.emitValid(t.root, chunk.Custom{EventName: Prefix + "interrupt", Data: v})
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
		if t.emitValid(a, chunk.ToolApprovalRequest{ToolCallID: callID, ToolName: name, ApprovalID: id, Input: input}) {
			return
		}
	} else if t.emitValid(a, chunk.ToolStart{ToolCallID: id, ToolName: InterruptTool, Arguments: v}) {
		return
	}
	t.emitValid(a, chunk.Custom{EventName: Prefix + "interrupt", Data: v})
}

// emitValid emits a chunk of an event that has several, and reports whether it is valid.
func (t *Translator) emitValid(a *source, b chunk.Body) bool {
	c := chunk.Chunk{AgentID: a.session, AgentType: a.kind, Step: a.step, Body: b}
	if c.ValidateUnstored() != nil {
		return false
	}
	t.out = append(t.out, c)
	return true
}

func (t *Translator) runError(e event) bool {
	message, ok := e.text("message")
	if !ok {
		return false
	}
	if t.ending == fails {
		t.discard()
	}
	t.ending, t.failure = fails, failure{text: message, code: e.maybe("code")}
	for _, a := range t.all() {
		t.endStep(a, nil)
	}
	t.usage(e)
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
		return true
	}
	return false
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

var finishReasons = []string{"stop", "length", "tool-calls", "content-filter", "error"}

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
		if !slices.Contains(finishReasons, reason) {
			reason = "other"
		}
		end.FinishReason = &reason
	}
	t.emit(a, end)
}

// pause suspends the run and its sub-agents.
func (t *Translator) pause() {
	t.discard()
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

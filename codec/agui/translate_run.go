package agui

import (
	"cmp"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/turn"
)

func (t *translator) runStarted() {
	t.discard()
	t.ending, t.failure, t.output = broken, chunk.ErrorDetail{}, nil
	t.root.Resume()
}

// discard keeps an end that does not count, because another one has come.
func (t *translator) discard() {
	if t.ending == fails {
		t.root.Emit(chunk.Error{Error: t.failure.Message, Code: t.failure.Code, Recoverable: true})
	}
	if t.output != nil {
		t.root.Keep(dialect.RestEvent, append(append(chunk.Value(`{"type":"RUN_FINISHED","result":`), t.output...), '}'))
	}
}

// runFinished handles the end of a run of the agent. Our run ends when the response ends: another run of the agent may follow in it.
func (t *translator) runFinished(e event) {
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
	t.ending, t.output = ended, e.Value("result")
	outcome := e.Object.Object("outcome")
	switch kind, _ := outcome.Text("type"); kind {
	case "interrupt":
		for v := range rawjson.Elements(outcome.Peek("interrupts")) {
			t.interrupt(v)
		}
		t.ending = waits
		t.waitFor = cmp.Or(t.waitFor, "interrupt")
	case "cancelled":
		t.ending, t.failure = fails, chunk.ErrorDetail{Message: e.Object.Object("metadata").Or("reason", "cancelled"), Code: new(turn.CodeAborted)}
	default:
		if len(t.root.order) > 0 { // the client runs them
			t.ending, t.waitFor = waits, "client_tool"
		}
	}
	t.usage(e)
}

// usage writes the tokens of the run as those of a step, unless the steps had theirs.
func (t *translator) usage(e event) {
	if t.counted {
		t.counted = false
		return
	}
	for v := range rawjson.Elements(e.Peek("usage")) { // one for each model
		o := dialect.Read(v)
		end := chunk.StepEnd{Usage: usageOf(o, "cachedInputTokens", "cacheWriteInputTokens")}
		end.Usage.ReasoningTokens = o.Number("reasoningTokens")
		chunk.Model{Name: o.Or("model", ""), Provider: o.Or("provider", "")}.AddTo(&end)
		t.root.Emit(end)
	}
}

// usageOf returns tokens, those of the cache by their names.
func usageOf(o *dialect.Object, read, written string) *chunk.Usage {
	zero := new(chunk.Number("0"))
	return &chunk.Usage{
		InputTokens: *cmp.Or(o.Number("inputTokens"), zero), OutputTokens: *cmp.Or(o.Number("outputTokens"), zero),
		CachedTokens: o.Number(read), CacheWriteTokens: o.Number(written),
	}
}

// interrupt writes what a user must answer: the approval of a call, or a call that asks.
func (t *translator) interrupt(v chunk.Value) {
	o := dialect.Read(v)
	id, ok := o.Text("id")
	if !ok {
		t.root.EmitValid(chunk.Custom{EventName: Prefix + "interrupt", Data: v})
		return
	}
	a := t.root
	if s := t.agents[o.Or("subagentRunId", "")]; s != nil && !s.Ended {
		a = s
	}
	callID, isCall := o.Text("toolCallId")
	t.waitFor = o.Or("reason", t.waitFor)
	c := a.calls[callID]
	if isCall && (c == nil || !c.ended) {
		name, input := o.Object("metadata").Or("toolCallName", ""), null
		if c != nil {
			name, input = c.name, c.input
		}
		if a.EmitValid(chunk.ToolApprovalRequest{ToolCallID: callID, ToolName: name, ApprovalID: id, Input: input}) {
			return
		}
	} else if a.EmitValid(chunk.ToolStart{ToolCallID: id, ToolName: InterruptTool, Arguments: v}) {
		return
	}
	a.EmitValid(chunk.Custom{EventName: Prefix + "interrupt", Data: v})
}

func (t *translator) runError(e event) bool {
	message, ok := e.Text("message")
	if !ok {
		return false
	}
	if t.ending == fails {
		t.discard()
	}
	t.ending, t.failure = fails, chunk.ErrorDetail{Message: message, Code: e.Maybe("code")}
	for _, a := range t.all() {
		t.endStep(a, nil)
	}
	t.usage(e)
	return true
}

func (t *translator) stepStarted(e event) bool {
	name, ok := e.Text("stepName")
	if !ok {
		return false
	}
	t.endStep(e.by, nil)
	e.by.stepName, e.by.stepOpen, e.by.implicit = name, true, false
	e.by.NextStep(&name)
	return true
}

func (t *translator) stepFinished(e event) bool {
	name, ok := e.Text("stepName")
	if ok && e.by.stepOpen && e.by.stepName == name {
		t.endStep(e.by, e.Object.Object("metadata"))
		return true
	}
	return false
}

// produce opens a step for output outside of the steps of the agent: a message of the agent is one then.
func (t *translator) produce(a *source, message string) {
	if a.stepOpen && a.implicit && message != "" && a.message != "" && a.message != message {
		t.endStep(a, nil)
	}
	if message != "" {
		a.message = message
	}
	if !a.stepOpen {
		a.stepOpen, a.implicit, a.stepName = true, true, ""
		a.NextStep(nil)
	}
}

// endStep ends the open step, with what the agent said about it.
func (t *translator) endStep(a *source, metadata *dialect.Object) {
	t.endThought(a)
	if !a.stepOpen {
		return
	}
	a.stepOpen, a.message = false, ""
	end := chunk.StepEnd{}
	if !a.implicit {
		end.StepID = new(a.stepName)
	}
	if u := metadata.Object("usage"); u != nil {
		t.counted = true
		end.Usage = usageOf(u, "cachedTokens", "cacheWriteTokens")
	}
	if reason, ok := metadata.Text("finishReason"); ok {
		reason, _ = dialect.FinishReason(reason)
		end.FinishReason = &reason
	}
	a.Emit(end)
}

// pause suspends the run and its sub-agents.
func (t *translator) pause() {
	t.discard()
	for _, a := range slices.Backward(t.list) {
		if !a.Paused {
			a.Pause(t.waitFor)
		}
	}
	t.root.Pause(t.waitFor)
}

// conclude ends the run and its sub-agents.
func (t *translator) conclude() {
	if t.ending == broken {
		t.ending, t.failure = fails, chunk.ErrorDetail{Message: "the stream of the agent broke off"}
	}
	var f *chunk.ErrorDetail
	if t.ending == fails {
		f = &t.failure
	}
	for len(t.list) > 0 {
		t.concludeAgent(t.list[len(t.list)-1], f, nil)
	}
	t.endStep(t.root, nil)
	t.root.End(f, t.output, nil)
}

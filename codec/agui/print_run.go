package agui

import (
	"slices"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/turn"
	"github.com/tailrace/tailrace/projector/fold"
)

// begin writes RUN_STARTED, and the start of the sub-agents that are running: the client knows those of this run only.
func (p *printer) begin(f *turn.Frames, e *turn.Event) {
	if !e.Again {
		p.run = e.Turn.RunID()
	}
	opens := e.First && e.Item.Rec.Type == chunk.TypeRunStarted
	f.Open("RUN_STARTED")
	f.String("threadId", e.Turn.Session().ID)
	f.Content("runId", p.run)
	f.String("protocolVersion", ProtocolVersion)
	if opens {
		p.input(f, e)
	}
	f.Shut()
	f.Bare()
	if state := p.opt.State; opens && state != nil && string(state) != "{}" {
		f.Open("STATE_SNAPSHOT")
		f.Raw("snapshot", state)
		f.Shut()
	}
	for _, a := range e.Turn.Agents() {
		outputOf(a).announced = false
	}
	for _, a := range e.Turn.Agents() {
		if a.Running {
			p.announce(f, a)
		}
	}
}

// input writes the messages of the users that the turn answers, so that the client of another user has them, and what they replace.
func (p *printer) input(f *turn.Frames, e *turn.Event) {
	run, _ := chunk.BodyOf[chunk.RunStarted](*e.Item.Rec)
	input := run.Input
	f.Nest("input")
	f.String("threadId", e.Turn.Session().ID)
	f.Content("runId", p.run)
	f.Name("messages")
	f.Dst = append(f.Dst, '[')
	index, known := fold.MessageIndex(p.message)
	for i := range input {
		in := &input[i]
		if in.Metadata != nil && fold.IsHidden(*in.Metadata) {
			continue
		}
		id := p.message + "-input-" + strconv.Itoa(i)
		if at := index - len(input) + i; known && at >= 0 {
			id = fold.MessageID(at)
		}
		if in.ClientMessageID != nil {
			id = *in.ClientMessageID
		}
		if f.Dst[len(f.Dst)-1] != '[' {
			f.Dst = append(f.Dst, ',')
		}
		f.Dst = appendUserMessage(f.Dst, id, in.Content, in.Files, in.Metadata)
	}
	f.Dst = append(f.Dst, `],"tools":[],"context":[]`...)
	f.Close()
	var replaces chunk.Value
	if len(input) > 0 {
		for _, m := range input[0].Extra {
			if m.Name == fold.ReplacesMember {
				replaces = m.Value
			}
		}
	}
	parent := e.Item.Get("parent")
	if replaces == nil && parent == nil {
		return
	}
	f.Nest("metadata")
	f.Raw(fold.ReplacesMember, replaces)
	f.Raw("parent", parent)
	f.Close()
}

// pause ends the response of a run that waits: for approvals, which are interrupts; for calls of the client; or for something else that the record names,
// which is an interrupt too.
func (p *printer) pause(f *turn.Frames, e *turn.Event) {
	var questions []interrupt
	var calls [][]byte
	for _, c := range e.Turn.OpenCalls() {
		switch {
		case c.ApprovalID != nil:
			questions = append(questions, interrupt{id: c.ApprovalID, call: c.Shown, tool: c.Name, tag: callOutputOf(c).tag})
		case e.Turn.WaitsForClient(c):
			calls = append(calls, c.Shown)
		}
	}
	if len(questions)+len(calls) == 0 {
		reason := e.Item.Content("reason")
		if len(reason) == 0 {
			reason = []byte("paused")
		}
		questions = []interrupt{{id: p.run, reason: reason}}
	}
	p.openFinished(f, e)
	f.Nest("outcome")
	if questions == nil {
		f.String("type", "success")
	} else {
		f.String("type", "interrupt")
		f.List("interrupts", len(questions), func(dst []byte, i int) []byte { return appendInterrupt(dst, questions[i]) })
		if calls != nil { // the outcome has no place for them
			f.Close()
			f.Nest("metadata")
		}
	}
	contents(f, "pendingToolCallIds", calls)
	f.Close()
	p.shutFinished(f)
}

// contents writes a list of strings, from their contents.
func contents(f *turn.Frames, name string, list [][]byte) {
	f.List(name, len(list), func(dst []byte, i int) []byte { return append(append(append(dst, '"'), list[i]...), '"') })
}

// interrupt is a question to a user. The texts are the contents of JSON strings.
type interrupt struct{ id, reason, call, tool, tag []byte }

// approvalSchema is the JSON Schema of the answer to an approval.
const approvalSchema = `{"type":"object","properties":{"approved":{"type":"boolean"},"reason":{"type":"string"}},"required":["approved"]}`

// reasonApproval is the reason of an interrupt that asks for the approval of a call.
const reasonApproval = "tool_call"

// appendInterrupt appends an interrupt: an approval if it has a call.
func appendInterrupt(dst []byte, in interrupt) []byte {
	o := rawjson.Begin(dst)
	o.Content("id", in.id)
	if in.call == nil {
		o.Content("reason", in.reason)
		return o.End()
	}
	o.String("reason", reasonApproval)
	o.Content("toolCallId", in.call)
	o.Raw("responseSchema", []byte(approvalSchema))
	tag(&o, in.tag)
	o.Nest("metadata")
	o.Content("toolCallName", in.tool)
	o.Close()
	return o.End()
}

// end writes the end of the run.
func (p *printer) end(f *turn.Frames, e *turn.Event) {
	p.openFinished(f, e)
	if e.Reason == turn.Success {
		succeeded(f, e.Value)
	} else {
		f.Nest("outcome")
		f.String("type", "cancelled")
		f.Close()
	}
	if e.Reason == turn.Aborted {
		f.Nest("metadata")
		f.Raw("reason", e.Item.Get("error"))
		f.Close()
	}
	p.shutFinished(f)
}

// succeeded writes the result of a run, if it has one, and that it was successful.
func succeeded(f *turn.Frames, result chunk.Value) {
	if !result.IsNull() {
		f.Raw("result", result)
	}
	f.Nest("outcome")
	f.String("type", "success")
	f.Close()
}

func (p *printer) fail(f *turn.Frames, e *turn.Event) {
	p.conclude(f, e)
	f.Open("RUN_ERROR")
	f.Raw("message", e.Failure)
	if code := rawjson.Text(e.Code).Content(); code != nil {
		f.Content("code", code)
	}
	p.shutFinished(f)
}

func (p *printer) openFinished(f *turn.Frames, e *turn.Event) {
	p.conclude(f, e)
	f.Open("RUN_FINISHED")
	f.String("threadId", e.Turn.Session().ID)
	f.Content("runId", p.run)
}

// shutFinished ends the event with the tokens of the run.
func (p *printer) shutFinished(f *turn.Frames) {
	if u := p.usage; u != nil {
		f.Name("usage")
		o := rawjson.Begin(append(f.Dst, '['))
		o.Number("inputTokens", u.Input)
		o.Number("outputTokens", u.Output)
		o.Int("cachedInputTokens", u.Cached)
		o.Int("cacheWriteInputTokens", u.CacheWrite)
		f.Dst = append(o.End(), ']')
	}
	p.usage = nil
	f.Shut()
}

// conclude ends the calls and sub-agents that are open: a client rejects an end of the run before that.
func (p *printer) conclude(f *turn.Frames, e *turn.Event) {
	for _, c := range e.Turn.OpenCalls() {
		callEnd(f, c, nil)
	}
	for _, a := range slices.Backward(e.Turn.Agents()) {
		if a.Running {
			p.suspend(f, e.Turn, a)
		}
	}
}

// step writes the start or the end of the open step of an agent, with what the record of its end has.
func step(f *turn.Frames, kind string, a *turn.Agent, usage, reason chunk.Value) {
	f.Open(kind)
	if a.StepID != nil {
		f.Content("stepName", a.StepID)
	} else {
		f.Name("stepName")
		f.Dst = append(strconv.AppendInt(append(f.Dst, `"step-`...), a.StepNo, 10), '"')
	}
	tag(&f.Object, outputOf(a).tag)
	if usage != nil || reason != nil {
		f.Nest("metadata")
		f.Raw("finishReason", reason)
		f.Raw("usage", usage)
		f.Close()
	}
	f.Shut()
}

func (p *printer) stepEnd(f *turn.Frames, e *turn.Event) {
	usage := e.Item.Get("usage")
	if usage != nil {
		if p.usage == nil {
			p.usage = &turn.Usage{}
		}
		p.usage.Add(usage)
	}
	if e.Agent.StepOpen {
		step(f, "STEP_FINISHED", e.Agent, usage, e.Item.Get("finishReason"))
	}
}

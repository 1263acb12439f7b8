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
	p.thread = escaped(e.Turn.Session().ID)
	if !e.Again {
		p.run = e.Turn.RunID()
	}
	opens := e.First && e.Item.Rec.Type == chunk.TypeRunStarted
	f.Open("RUN_STARTED")
	f.Content("threadId", p.thread)
	f.Content("runId", p.run)
	f.String("protocolVersion", ProtocolVersion)
	if opens {
		p.input(f, e.Item)
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
func (p *printer) input(f *turn.Frames, it *turn.Item) {
	var input []chunk.InputMessage
	if run, ok := chunk.BodyOf[chunk.RunStarted](*it.Rec); ok {
		input = run.Input
	}
	f.Nest("input")
	f.Content("threadId", p.thread)
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
	parent := it.Get("parent")
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
	var approvals, calls []*turn.Call
	for _, c := range e.Turn.OpenCalls() {
		switch {
		case c.ApprovalID != nil:
			approvals = append(approvals, c)
		case e.Turn.WaitsForClient(c):
			calls = append(calls, c)
		}
	}
	p.openFinished(f, e)
	f.Nest("outcome")
	if len(approvals) == 0 && len(calls) > 0 {
		f.String("type", "success")
		pending(f, calls)
		f.Close()
		p.shutFinished(f)
		return
	}
	f.String("type", "interrupt")
	f.Name("interrupts")
	f.Dst = append(f.Dst, '[')
	for i, c := range approvals {
		if i > 0 {
			f.Dst = append(f.Dst, ',')
		}
		f.Dst = appendInterrupt(f.Dst, interrupt{id: c.ApprovalID, call: c.Shown, tool: c.Name, tag: callOutputOf(c).tag})
	}
	if len(approvals) == 0 {
		reason := e.Item.Content("reason")
		if len(reason) == 0 {
			reason = []byte("paused")
		}
		f.Dst = appendInterrupt(f.Dst, interrupt{id: p.run, reason: reason})
	}
	f.Dst = append(f.Dst, ']')
	f.Close()
	if len(calls) > 0 { // the outcome has no place for them
		f.Nest("metadata")
		pending(f, calls)
		f.Close()
	}
	p.shutFinished(f)
}

// pending writes the ids of the calls that the client must answer.
func pending(f *turn.Frames, calls []*turn.Call) {
	f.List("pendingToolCallIds", len(calls), func(dst []byte, i int) []byte {
		return append(append(append(dst, '"'), calls[i].Shown...), '"')
	})
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
	if in.tag != nil {
		o.Content("subagentRunId", in.tag)
	}
	o.Nest("metadata")
	o.Content("toolCallName", in.tool)
	o.Close()
	return o.End()
}

// end writes the end of the run.
func (p *printer) end(f *turn.Frames, e *turn.Event) {
	p.openFinished(f, e)
	if !e.Value.IsNull() {
		f.Raw("result", e.Value)
	}
	if e.Reason == turn.Success || e.Reason == turn.Waiting {
		outcome(f, "success")
	} else {
		outcome(f, "cancelled")
	}
	if e.Reason == turn.Aborted {
		f.Nest("metadata")
		f.Raw("reason", e.Item.Get("error"))
		f.Close()
	}
	p.shutFinished(f)
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

// outcome writes an outcome without members.
func outcome(f *turn.Frames, kind string) {
	f.Nest("outcome")
	f.String("type", kind)
	f.Close()
}

func (p *printer) openFinished(f *turn.Frames, e *turn.Event) {
	p.conclude(f, e)
	f.Open("RUN_FINISHED")
	f.Content("threadId", p.thread)
	f.Content("runId", p.run)
}

func (p *printer) shutFinished(f *turn.Frames) {
	p.writeUsage(f)
	f.Shut()
}

// conclude ends the calls and sub-agents that are open: a client rejects an end of the run before that.
func (p *printer) conclude(f *turn.Frames, e *turn.Event) {
	for _, c := range e.Turn.OpenCalls() {
		callEnd(f, c, nil)
	}
	for _, a := range slices.Backward(e.Turn.Agents()) {
		if a.Running && outputOf(a).announced {
			p.suspend(f, e.Turn, a)
		}
	}
}

// stepEvent writes the start or the end of the open step of an agent.
func stepEvent(f *turn.Frames, kind string, a *turn.Agent) {
	f.Open(kind)
	stepName(f, a)
	tag(f, a)
	f.Shut()
}

func stepName(f *turn.Frames, a *turn.Agent) {
	if a.StepID != nil {
		f.Content("stepName", a.StepID)
		return
	}
	f.Name("stepName")
	f.Dst = append(strconv.AppendInt(append(f.Dst, `"step-`...), a.StepNo, 10), '"')
}

func (p *printer) stepEnd(f *turn.Frames, e *turn.Event) {
	usage, reason := e.Item.Get("usage"), e.Item.Get("finishReason")
	if usage != nil {
		if p.usage == nil {
			p.usage = &turn.Usage{}
		}
		p.usage.Add(usage)
	}
	if !e.Agent.StepOpen {
		return
	}
	f.Open("STEP_FINISHED")
	stepName(f, e.Agent)
	tag(f, e.Agent)
	if usage != nil || reason != nil {
		f.Nest("metadata")
		f.Raw("finishReason", reason)
		f.Raw("usage", usage)
		f.Close()
	}
	f.Shut()
}

// writeUsage writes the tokens of the run.
func (p *printer) writeUsage(f *turn.Frames) {
	u := p.usage
	if p.usage = nil; u == nil {
		return
	}
	f.Name("usage")
	o := rawjson.Begin(append(f.Dst, '['))
	o.Name("inputTokens")
	o.Dst = strconv.AppendInt(o.Dst, u.Input, 10)
	o.Name("outputTokens")
	o.Dst = strconv.AppendInt(o.Dst, u.Output, 10)
	o.Int("cachedInputTokens", u.Cached)
	o.Int("cacheWriteInputTokens", u.CacheWrite)
	f.Dst = append(o.End(), ']')
}

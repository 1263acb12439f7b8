package agui

import (
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/turn"
)

// delta opens the event of a piece of the open text.
func (p *printer) delta(f *turn.Frames, a *turn.Agent) {
	kind := "TEXT_MESSAGE_CONTENT"
	if a.Block.Kind == turn.ReasoningBlock {
		kind = "REASONING_MESSAGE_CONTENT"
	}
	f.Open(kind)
	p.messageID(f, "messageId", outputOf(a).block)
}

// blockOpen writes the start of the open text of an agent.
func (p *printer) blockOpen(f *turn.Frames, e *turn.Event) {
	a, o := e.Agent, outputOf(e.Agent)
	kind, role := "TEXT_MESSAGE_START", "assistant"
	if !e.Again {
		o.block = newMessage(a, a.Block.Kind == turn.TextBlock)
	}
	if a.Block.Kind == turn.ReasoningBlock {
		p.blockEvent(f, "REASONING_START", a)
		kind, role = "REASONING_MESSAGE_START", "reasoning"
	}
	f.Open(kind)
	p.messageID(f, "messageId", o.block)
	f.String("role", role)
	tag(&f.Object, o.tag)
	f.Shut()
}

func (p *printer) blockClose(f *turn.Frames, a *turn.Agent) {
	if a.Block.Kind == turn.TextBlock {
		p.blockEvent(f, "TEXT_MESSAGE_END", a)
		return
	}
	p.blockEvent(f, "REASONING_MESSAGE_END", a)
	p.blockEvent(f, "REASONING_END", a)
}

// blockEvent writes an event that has only the id of the open message.
func (p *printer) blockEvent(f *turn.Frames, kind string, a *turn.Agent) {
	f.Open(kind)
	p.messageID(f, "messageId", outputOf(a).block)
	tag(&f.Object, outputOf(a).tag)
	f.Shut()
}

// agentOpen writes the start of a sub-agent. A client rejects an id that was used in this run: one that was started again has a number behind it.
func (p *printer) agentOpen(f *turn.Frames, e *turn.Event) {
	o := outputOf(e.Agent)
	if o.tag = escaped(e.Agent.Session); e.Agent.Starts > 1 {
		o.tag = strconv.AppendInt(append(o.tag, '_'), int64(e.Agent.Starts), 10)
	}
	p.announce(f, e.Agent)
}

func (p *printer) announce(f *turn.Frames, a *turn.Agent) {
	o := outputOf(a)
	o.announced = true
	f.Open("SUBAGENT_STARTED")
	f.Content("subagentRunId", o.tag)
	f.Content("name", a.Type)
	if by := a.Parent; !by.Own() && outputOf(by).announced {
		f.Content("parentSubagentRunId", outputOf(by).tag)
	}
	if a.CallID != "" {
		f.Content("parentToolCallId", a.Call)
	}
	f.Shut()
}

func agentClose(f *turn.Frames, e *turn.Event) {
	failure, kind := chunk.Value(rawjson.Get(e.Value, "error")), "SUBAGENT_ERROR"
	if failure.IsNull() {
		kind = "SUBAGENT_FINISHED"
	}
	f.Open(kind)
	f.Content("subagentRunId", outputOf(e.Agent).tag)
	switch {
	case failure.IsNull():
		succeeded(f, e.Value)
	case failure[0] == '"':
		f.Raw("message", failure)
	default:
		f.Bytes("message", failure)
	}
	f.Shut()
}

// suspend ends a sub-agent that is running for the client, because the run ends for it: a client rejects an end of the run before that.
func (p *printer) suspend(f *turn.Frames, m *turn.Machine, a *turn.Agent) {
	outputOf(a).announced = false
	f.Open("SUBAGENT_FINISHED")
	f.Content("subagentRunId", outputOf(a).tag)
	f.Nest("outcome")
	f.String("type", "suspended")
	var ids [][]byte
	for _, c := range m.OpenCalls() {
		if c.By == a && c.ApprovalID != nil {
			ids = append(ids, c.ApprovalID)
		}
	}
	contents(f, "interruptIds", ids)
	f.Close()
	f.Shut()
}

// lifecycle writes a record that the protocol has no event for. It has none that removes messages without naming all others: after a removal of records the client
// gets a CUSTOM event and loads the snapshot.
func lifecycle(f *turn.Frames, e *turn.Event) {
	begins := e.Kind == turn.Run && !e.Open // another worker has not taken the run over: the response begins with it
	if begins || e.Quiet || !e.Item.IsNotice() {
		return
	}
	f.Open("CUSTOM")
	f.String("name", LifecyclePrefix+string(e.Item.Rec.Type))
	f.Nest("value")
	e.Item.WriteNotice(&f.Object)
	f.Close()
	tag(&f.Object, outputOf(e.Item.By).tag)
	f.Shut()
}

// statePatch writes a change of the custom state, which is that of the session: the state of a sub-agent is in its own session.
func statePatch(f *turn.Frames, e *turn.Event) {
	if !e.Agent.Own() {
		return
	}
	patches := e.Item.Get("patches")
	state, whole := wholeState(patches)
	switch {
	case !whole:
		f.Open("STATE_DELTA")
		f.Raw("delta", patches)
		f.Shut()
	case rawjson.Kind(state) == '{' || rawjson.Kind(state) == '[': // the snapshot refuses others
		f.Open("STATE_SNAPSHOT")
		f.Raw("snapshot", state)
		f.Shut()
	}
}

// wholeState returns the value of a patch that only replaces the whole state.
func wholeState(patches chunk.Value) (state chunk.Value, ok bool) {
	n := 0
	for op := range rawjson.Elements(patches) {
		if n++; n > 1 {
			return nil, false
		}
		name := dialect.TextAt(op, "op")
		ok = string(rawjson.Get(op, "path")) == `""` && (name == "replace" || name == "add")
		state = rawjson.Get(op, "value")
	}
	return state, ok
}

// part writes a file or a source as an activity message: a message that the client shows, and that is not output of the model.
func (p *printer) part(f *turn.Frames, e *turn.Event) {
	kind := ActivitySource
	if e.Item.Rec.Type == chunk.TypeFile {
		kind = ActivityFile
	}
	p.openActivity(f, e, kind)
	e.Item.WriteNotice(&f.Object)
	f.Close()
	f.Shut()
}

// openActivity opens an activity message, and its content.
func (p *printer) openActivity(f *turn.Frames, e *turn.Event, kind string) {
	f.Open("ACTIVITY_SNAPSHOT")
	p.messageID(f, "messageId", newMessage(e.Agent, false))
	f.String("activityType", kind)
	tag(&f.Object, outputOf(e.Agent).tag)
	f.Nest("content")
}

// custom writes an event of the application. The snapshot of our log has it as a part of the answer, AG-UI messages have no such part.
func (p *printer) custom(f *turn.Frames, e *turn.Event) {
	if e.Is != turn.ValuePart && e.Is != turn.InvalidPart {
		f.Open("CUSTOM")
		f.Raw("name", e.Item.Get("eventName"))
		f.Raw("value", e.Item.OrNull("data"))
		tag(&f.Object, outputOf(e.Agent).tag)
		f.Shut()
		return
	}
	p.openActivity(f, e, ActivityStructured)
	f.Raw("id", e.Item.Get("data", "streamId"))
	f.Name("data")
	if e.Is == turn.InvalidPart {
		f.Dst = append(f.Dst, `{"status":"invalidated"}`...)
	} else {
		f.Dst = e.Stream.AppendValue(f.Dst)
	}
	f.Close()
	f.Shut()
}

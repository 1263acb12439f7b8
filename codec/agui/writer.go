package agui

import (
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/turn"
)

// New returns a Writer of the turn whose answer has this id in the snapshot, fold.MessageID(s.TurnMessages()), before the first record of the turn. A response that
// continues after Done has RUN_STARTED next, which the protocol allows.
//
// Resume writes RUN_STARTED with the id of the run, and the beginning of what is open: steps, sub-agents, the message and the calls that are written. If no run is
// open, because the turn waits or has ended, it writes nothing: the next record that starts or ends a run has RUN_STARTED. Each call of runAgent in the client checks
// the order of events from the start, so without these events it would reject the rest of the run. The client keeps its messages: a TEXT_MESSAGE_START with the id of
// a message that it has, and a TOOL_CALL_START with the id of such a call, create no other one, and the content that follows is appended.
func New(messageID string, opt Options) codec.Writer {
	p := &printer{message: messageID, id: escaped(messageID), opt: opt}
	var rules turn.Rules
	if !opt.SubAgents {
		rules = turn.Rules{Drops: drops, Shows: p.shows}
	}
	return turn.New(p, rules, turn.Config{})
}

// printer writes the events of a turn.
type printer struct {
	message string // id of the answer
	id      []byte // the same, as the content of a JSON string
	opt     Options

	run     []byte      // id in the latest RUN_STARTED
	usage   *turn.Usage // of the steps since it, nil for none
	scratch []byte      // text that is escaped
}

// Print implements turn.Printer.
func (p *printer) Print(f *turn.Frames, e *turn.Event) {
	switch e.Kind {
	case turn.Begin:
		p.begin(f, e)
	case turn.Pause:
		p.pause(f, e)
	case turn.End:
		p.end(f, e)
	case turn.Fail:
		p.fail(f, e)
	case turn.StepOpen:
		step(f, "STEP_STARTED", e.Agent, nil, nil)
	case turn.StepEnd:
		p.stepEnd(f, e)
	case turn.StepClose:
		step(f, "STEP_FINISHED", e.Agent, nil, nil)
	case turn.BlockOpen:
		p.blockOpen(f, e)
	case turn.BlockDelta:
		p.delta(f, e.Agent)
		f.Content("delta", e.Text)
		tag(&f.Object, outputOf(e.Agent).tag)
		f.Shut()
	case turn.BlockClose:
		p.blockClose(f, e.Agent)
	case turn.AgentOpen:
		p.agentOpen(f, e)
	case turn.AgentClose:
		agentClose(f, e)
	case turn.AgentGone:
		p.suspend(f, e.Turn, e.Agent)
	case turn.Run, turn.AgentFail, turn.Output, turn.Error, turn.Notice, turn.Removed:
		lifecycle(f, e)
	case turn.Part:
		p.part(f, e)
	case turn.Data:
		p.custom(f, e)
	case turn.State:
		statePatch(f, e)
	default:
		p.call(f, e)
	}
}

// DeltaHead implements turn.DeltaPrinter.
func (p *printer) DeltaHead(f *turn.Frames, a *turn.Agent) (tail string) {
	p.delta(f, a)
	f.Name("delta")
	f.Dst = append(f.Dst, '"')
	return "\"}\n\n"
}

// drops reports whether records of sub-agents with a type are not written without Options.SubAgents.
func drops(kind chunk.Type) bool {
	switch kind {
	case chunk.TypeCustom, chunk.TypeSubagentStart, chunk.TypeSubagentEnd, chunk.TypeError, chunk.TypeToolApprovalRequest, chunk.TypeToolStart,
		chunk.TypeToolEnd, chunk.TypeToolInputError, chunk.TypeToolOutputError, chunk.TypeToolApprovalResponse:
		return false
	}
	return true
}

// shows reports whether a record of a sub-agent that drops lets through is written.
func (p *printer) shows(it *turn.Item) bool {
	switch it.Rec.Type {
	case chunk.TypeToolApprovalRequest:
		return !it.Is("isAutomatic")
	case chunk.TypeToolStart, chunk.TypeToolEnd, chunk.TypeToolInputError, chunk.TypeToolOutputError, chunk.TypeToolApprovalResponse:
		return it.OpenCall() != nil || it.Rec.Type == chunk.TypeToolStart && p.opt.ClientTool != nil && p.opt.ClientTool(it.Text("toolName"))
	}
	return true
}

// agentOutput is what was written of an agent.
type agentOutput struct {
	tag       []byte // subagentRunId, as the content of a JSON string; empty for the session's own agent
	announced bool   // SUBAGENT_STARTED was written in this run

	// The step of the answer that is written: it is one message in the snapshot, and several here.
	next    messageRef // of the step, after its latest message
	carries bool       // calls are attached to that one; otherwise the next call begins one
	block   messageRef // of the open text
}

// outputOf returns what was written of an agent.
func outputOf(a *turn.Agent) *agentOutput {
	o, isNew := turn.Kept[agentOutput](&a.Kept)
	if isNew {
		o.tag = escaped(a.Session)
	}
	return o
}

// messageRef identifies a message: the sequence of the record that opened the step of the answer, and the number of the message in the step.
type messageRef struct {
	first chunk.Seq
	n     int
}

// newMessage returns a new message of the step of an agent. carries: the calls that follow are attached to it.
func newMessage(a *turn.Agent, carries bool) messageRef {
	o := outputOf(a)
	if o.next.first != a.First {
		o.next = messageRef{first: a.First}
	}
	o.carries = carries
	o.next.n++
	return messageRef{a.First, o.next.n - 1}
}

// carrierOf returns the message that a new call is attached to: the text before it in the step, or the message of the calls before it, or a new one.
func carrierOf(a *turn.Agent) messageRef {
	if o := outputOf(a); o.carries && o.next.first == a.First {
		return messageRef{a.First, o.next.n - 1}
	}
	return newMessage(a, true)
}

// appendMessageID appends the id of a message: that of the answer, the sequence of the record that opened the step, and the number of the message in it. It
// depends on the log only, and the snapshot has the same. A step that is written again after a crash has other ids: otherwise its text would be appended to
// the text that was removed.
func appendMessageID(dst, answer []byte, ref messageRef) []byte {
	dst = append(dst, answer...)
	dst = append(dst, '-')
	dst = strconv.AppendUint(dst, uint64(ref.first), 10)
	dst = append(dst, '-')
	return strconv.AppendInt(dst, int64(ref.n), 10)
}

// messageID writes the id of a message under a name.
func (p *printer) messageID(f *turn.Frames, name string, ref messageRef) {
	f.Name(name)
	f.Dst = append(f.Dst, '"')
	f.Dst = append(appendMessageID(f.Dst, p.id, ref), '"')
}

// tag writes which sub-agent an event is of, by the tag of an agent or a call.
func tag(o *rawjson.Object, id []byte) {
	if len(id) > 0 {
		o.Content("subagentRunId", id)
	}
}

// escaped returns a text as the content of a JSON string.
func escaped(text string) []byte { return rawjson.AppendEscaped(make([]byte, 0, len(text)), text) }

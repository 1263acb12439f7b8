package mastra

import (
	"cmp"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/turn"
)

// NewWriter returns a Writer of a turn, as the chunks of a Mastra agent, or of a workflow if its log has those of one. messageID is that of the answer in snapshots. The
// cursor of a record follows its last chunk as an event of its own.
//
// Resume writes start, and begins an open text again: the client may be another one than before, and the AI SDK fails at a piece of a text without its start.
// Arguments that stream are not begun again: @mastra/client-js would keep those of the first start.
func NewWriter(messageID string) codec.Writer {
	p := &printer{message: messageID, late: make(map[turn.CallKey]chunk.Ordinal)}
	rules := turn.Rules{CursorAfter: true, EndAgain: true, Restarts: true, Shows: p.shows, Asks: p.waitsForClient}
	p.turn = turn.New(p, rules, turn.Config{})
	p.own = p.of(p.turn.Own())
	return p.turn
}

// printer writes the events of a turn.
type printer struct {
	message string
	turn    *turn.Machine
	f       *turn.Frames // of the event at hand

	own      *speaker
	late     map[turn.CallKey]chunk.Ordinal // calls of earlier turns, with the record of the outcome that was written
	started  bool                           // start was written
	response int                            // number of the response
}

// speaker is what was written of an agent: that of the session, or a sub-agent.
type speaker struct {
	*work // nil after the end of a sub-agent: most write nothing more, and a turn may have thousands of them

	agent  *turn.Agent
	parent *speaker // nil for that of the session, and for a sub-agent that was not announced
	callID string   // of the call of the parent that started it
	kind   string   // name of its definition
	run    string   // id of its run, see runID

	ended    bool // a sub-agent whose finish was written
	workflow bool // it wrote the chunks of a workflow
	network  bool // it wrote the chunks of a network, which have its steps, calls and end too
	event    byte // of networkEvents, for the chunks around its own, 0 if no network runs it
}

// work is what was written of an agent that works.
type work struct {
	blockAt  []chunk.Ordinal // of the first pieces of its texts
	stepping bool            // step-start was written, step-finish was not
	pending  *string         // id of a step whose step-start is still to be written: a chunk of a workflow that follows replaces it
	steps    []stepTotal     // that ended, without those that have nothing

	executing string // session of what the network runs …
	runs      byte   // … and the event of its chunks
	workStep  string // step of the workflow whose result was written last
	output    []byte // of a workflow
	outputAt  chunk.Ordinal
	failure   string // text of the last error
	failureAt chunk.Ordinal
	tripped   bool // a guard stopped it

	suspendedAt chunk.Ordinal // of the record since which it waits for data of a user
}

// of returns what was written of an agent.
func (p *printer) of(a *turn.Agent) *speaker {
	sp, _ := turn.Kept[speaker](&a.Kept)
	if sp.agent = a; sp.work == nil {
		sp.work = &work{}
	}
	return sp
}

// shows reports whether chunks of an agent can be written: a sub-agent must have a parent.
func (p *printer) shows(it *turn.Item) bool { return it.By.Own() || p.of(it.By).parent != nil }

// Print implements turn.Printer.
func (p *printer) Print(f *turn.Frames, e *turn.Event) {
	p.f = f
	sp := p.of(e.Agent)
	switch it := e.Item; e.Kind {
	case turn.Begin:
		p.beginResponse(e.Again)
	case turn.Run:
		sp.run, sp.kind = it.Text("runId"), cmp.Or(it.Text("agentType"), "agent")
	case turn.Wait:
		p.flushStep(sp)
	case turn.Pause:
		p.pause(it)
	case turn.Final:
		if sp.outputAt == 0 {
			p.output(it, sp, e.Value)
		}
	case turn.End, turn.Fail:
		p.ended(e)
	case turn.Record:
		p.record(it, sp, e.First)
	case turn.StepOpen:
		if !e.Again {
			p.stepStart(it, sp)
		}
	case turn.StepEnd:
		p.stepEnd(it, sp)
	case turn.BlockOpen, turn.BlockDelta, turn.BlockClose:
		p.text(e, sp)
	case turn.AgentOpen:
		if !e.Alone || sp.parent == nil {
			p.announceAgent(it, p.of(it.By), sp, it.Text("callId"), it.Text("subAgentType"))
		}
	case turn.AgentRun:
		p.agentRun(e, sp)
	case turn.AgentEnd, turn.AgentFail, turn.AgentClose:
		p.agentEnds(e, sp)
	case turn.Part:
		p.part(it, sp)
	case turn.Data:
		p.custom(it, sp)
	case turn.State, turn.Notice:
		p.notice(it, sp)
	case turn.Output:
		p.output(it, sp, it.OrNull("output"))
	case turn.Error:
		p.error(e, sp)
	case turn.Removed, turn.AgentRemoved:
		p.removed(e, sp)
	default:
		if e.Call != nil && it != nil {
			p.call(e, sp)
		}
	}
}

// DeltaHead implements turn.DeltaPrinter.
func (p *printer) DeltaHead(f *turn.Frames, a *turn.Agent) (tail string) {
	p.f = f
	p.openBlock(p.of(a), a.Block.Kind, "-delta")
	f.Name("text")
	f.Dst = append(f.Dst, '"')
	return "\"}}\n\n"
}

// beginResponse begins a response. The first chunk of one that is not a continuation is written with the next chunk, see ensureStart.
func (p *printer) beginResponse(again bool) {
	if !again {
		p.response++
		return
	}
	p.started = true
	if !p.own.workflow && !p.own.network { // its responses have no start
		p.start(p.own)
	}
}

// endResponse ends the response with the record at hand.
func (p *printer) endResponse() {
	p.f.IdentifyEmpty() // without a cursor the client would continue before this record, and get the end again
	p.f.Identify()      // clients stop reading at [DONE]
	p.f.Mark("[DONE]")
}

// record begins a step if the record has a higher step than the records before, and is not the start of one. It writes the step-start that waits for the record,
// unless the record is the chunk of that step of a workflow.
func (p *printer) record(it *turn.Item, sp *speaker, first bool) {
	work := sp.pending != nil && it.Text("eventName") == keptPrefix+workflowStepStart && it.Text("data", "payload", "id") == *sp.pending
	if !work {
		p.flushStep(sp)
	}
	if first && sp.agent.Own() && it.Rec.Type != chunk.TypeStepStart {
		p.beginStep(sp)
	}
}

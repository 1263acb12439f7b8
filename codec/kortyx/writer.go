package kortyx

import (
	"slices"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/turn"
)

// NewWriter returns a Writer for the turn whose first record is passed to it first. state is the custom state of the session before the turn, to which the patches of
// the turn apply: that of its snapshot, {} if that has none. nil means that it is not known. Then patches are carried, unless the turn is the first of the session.
//
// Besides the session, Resume writes the custom state and the structured data that is not final: a client that comes from another dialect does not have them, and
// those that have them do not change.
func NewWriter(state chunk.Value) codec.Writer {
	return machineOf(&printer{state: customState{doc: state}})
}

func machineOf(p *printer) *turn.Machine {
	return turn.New(p, turn.Rules{EarlyStart: true, Reopens: true, CursorAfter: true, ErrorEnds: true, Shows: shows}, turn.Config{})
}

// shows reports whether a record of a sub-agent is handled: a question to the user, and what answers it.
func shows(it *turn.Item) bool {
	switch it.Rec.Type {
	case chunk.TypeToolApprovalRequest:
		return !it.Is("isAutomatic")
	case chunk.TypeToolApprovalResponse, chunk.TypeToolEnd, chunk.TypeToolInputError, chunk.TypeToolOutputError:
		return it.OpenCall() != nil
	}
	return false
}

// printer writes the events of a turn.
type printer struct {
	frames  *turn.Frames // of the event at hand
	turn    *turn.Machine
	scratch []byte

	begun bool
	node  []byte // agentType of the latest text, as the content of a JSON string

	checkpoint  []byte  // id of the last checkpoint that was not written, nil for none
	checkpoints int64   // of the turn so far
	saved       []saved // the latest maxSaved checkpoints of the turn
	state       customState
	data        sentData
}

// saved is a checkpoint.
type saved struct {
	id string
	at chunk.Seq
}

const maxSaved = 256

// Print implements turn.Printer.
func (p *printer) Print(f *turn.Frames, e *turn.Event) {
	p.frames, p.turn = f, e.Turn
	switch it := e.Item; e.Kind {
	case turn.Begin:
		p.begin(e)
	case turn.Pause, turn.End:
		p.save()
		p.done()
	case turn.Fail:
		p.fail(it)
	case turn.BlockOpen, turn.BlockDelta, turn.BlockClose:
		p.text(e)
	case turn.Started, turn.Ask, turn.Decision, turn.Outcome, turn.Late:
		p.call(e)
	case turn.AgentEnd, turn.AgentFail:
		e.Turn.Withdraw(e.Agent)
	case turn.AgentClose, turn.Unknown:
		p.carry(it)
	case turn.Part:
		p.part(it)
	case turn.Data:
		p.custom(it)
	case turn.State:
		p.statePatch(it)
	case turn.Output:
		p.output(it)
	case turn.Error: // the agent recovers from it: a client shows an error as the end of the answer
		p.status(it.Get("error"))
	case turn.Notice:
		p.notice(it)
	case turn.Removed:
		p.removed(e)
	}
}

// begin begins a response.
func (p *printer) begin(e *turn.Event) {
	if !p.begun {
		p.begun = true
		if p.state.doc == nil {
			p.state.doc, p.state.lost = chunk.Value(`{}`), e.Item == nil || e.Item.Rec.Ordinal > 1
		}
	}
	p.frames.Open("session")
	p.frames.String("sessionId", p.turn.Session().ID)
	p.frames.Shut()
	if e.Again {
		p.restate()
	}
}

// save writes the last checkpoint of the response.
func (p *printer) save() {
	if p.checkpoint == nil {
		return
	}
	p.frames.Open("checkpoint")
	p.frames.Content("id", p.checkpoint)
	p.frames.String("sessionId", p.turn.Session().ID)
	p.frames.Number("turnIndex", p.checkpoints-1)
	p.frames.Shut()
	p.checkpoint = nil
}

// done ends the response.
func (p *printer) done() {
	p.frames.Open("done")
	p.frames.Shut()
	p.frames.Identify() // a client reads nothing after [DONE]
	p.frames.Mark("[DONE]")
}

// fail ends the response with the error of a record.
func (p *printer) fail(it *turn.Item) {
	p.frames.Open("error")
	p.frames.Raw("message", it.Get("error"))
	p.frames.Shut()
	p.done()
}

// DeltaHead implements turn.DeltaPrinter. Reasoning is not written.
func (p *printer) DeltaHead(f *turn.Frames, a *turn.Agent) (tail string) {
	if a.Block.Kind != turn.TextBlock {
		return ""
	}
	p.frames = f
	p.openText("text-delta", a)
	f.Name("delta")
	f.Dst = append(f.Dst, '"')
	return "\"}\n\n"
}

// text writes an event of the open text. A response that continues has no other start of it.
func (p *printer) text(e *turn.Event) {
	a := e.Agent
	if e.Kind == turn.BlockOpen && !e.Again {
		p.node = append(p.node[:0], nodeOf(e.Item)...)
	}
	if a.Block.Kind != turn.TextBlock || e.Again {
		return
	}
	switch e.Kind {
	case turn.BlockOpen:
		p.openText("text-start", a)
	case turn.BlockDelta:
		p.openText("text-delta", a)
		p.frames.Content("delta", e.Text)
	default:
		p.openText("text-end", a)
	}
	p.frames.Shut()
}

// openText opens a chunk of the open text. Its ids depend on the log only, so all processes use the same ids.
func (p *printer) openText(kind string, a *turn.Agent) {
	p.frames.Open(kind)
	p.labels(p.node)
	p.frames.Dst = append(p.frames.Dst, `,"segmentId":"block-`...)
	p.frames.Dst = strconv.AppendUint(p.frames.Dst, uint64(a.Block.At), 10)
	p.frames.Dst = append(p.frames.Dst, '"')
}

// labels writes the workflow node and the operation of a chunk: the type of the agent, and its run.
func (p *printer) labels(node []byte) {
	if len(node) > 0 {
		p.frames.Content("node", node)
	}
	if run := p.turn.RunID(); len(run) > 0 {
		p.frames.Content("opId", run)
	}
}

// nodeOf returns the type of the agent of a record, as the content of a JSON string.
func nodeOf(it *turn.Item) []byte {
	if !it.IsPiece() {
		return it.Content("agentType")
	}
	return rawjson.Text(rawjson.Get(it.Rec.Data, "agentType")).Content()
}

// removed handles the removal of records. A client keeps what they wrote; the stream_resync that follows tells it. Other processes may not have them, so from here
// on nothing depends on them: the ids of streams change, see sentData.
func (p *printer) removed(e *turn.Event) {
	p.data.rewind(e.Item.Rec.Seq)
	p.state.restore(e.Taken)
}

// notice writes a checkpoint, or what a client has to know after records were removed.
func (p *printer) notice(it *turn.Item) {
	switch it.Rec.Type {
	case chunk.TypeCheckpointCreated:
		p.checkpoint = append(p.checkpoint[:0], it.Content("checkpointId")...)
		p.checkpoints++
		if len(p.saved) == maxSaved {
			p.saved = slices.Delete(p.saved, 0, maxSaved/2)
		}
		p.saved = append(p.saved, saved{it.Text("checkpointId"), it.Rec.Seq})
	case chunk.TypeStreamResync:
		p.resync(it)
	}
}

package mastra

import (
	"bytes"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/turn"
)

// WriterConfig configures a Writer.
type WriterConfig struct {
	// MessageID is the id of the answer: that of the message in snapshots.
	MessageID string

	// Framing is the framing of the response.
	Framing Framing
}

// Framing is how the chunks of a response are separated.
type Framing int

// The values of Framing. Events is the default, and the framing of agents. The clients of workflows expect Separated.
const (
	Events    Framing = iota // server-sent events: the chunks of a record, then its cursor as an event of its own, and [DONE] at the end
	Separated                // U+001E after each chunk, no cursors and no end mark
)

// Header returns the headers of a response, in addition to those that the server sets. no-transform and X-Accel-Buffering keep proxies from buffering chunks.
func (f Framing) Header() map[string]string {
	kind := "text/event-stream"
	if f == Separated {
		kind = "text/plain; charset=utf-8"
	}
	return map[string]string{"Content-Type": kind, "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
}

// Writer writes one turn of a session as the chunks of a Mastra agent, or of a workflow if its log has those of one. It is an internal/dialect.Writer: what it
// writes depends on the records only. It is not safe for concurrent use.
type Writer struct {
	machine *turn.Machine
	printer *printer
	framing Framing
	scratch []byte // frames that are framed differently
}

// NewWriter returns a Writer of a turn, before its first record.
func NewWriter(cfg WriterConfig) *Writer {
	p := &printer{message: cfg.MessageID, own: speaker{work: &work{}}}
	rules := turn.Rules{CursorAfter: true, EndAgain: true, Restarts: true, Shows: p.shows, Asks: p.waits}
	return &Writer{machine: turn.New(p, rules, turn.Config{}), printer: p, framing: cfg.Framing}
}

// Append appends the frames of rec, the next record of the session or of its tree. Some records have no frame. The cursor of rec follows its last chunk as an
// event of its own. A malformed record has no frame.
func (w *Writer) Append(dst []byte, rec chunk.Record) []byte {
	return w.frame(dst, w.machine.Append(w.begin(dst), rec))
}

// Hide is Append for a record whose content the client must not get. It writes at most the end of the text that the record ends.
func (w *Writer) Hide(dst []byte, rec chunk.Record) []byte {
	return w.frame(dst, w.machine.Hide(w.begin(dst), rec))
}

// Resume begins another response, for a client that has the records so far, with start, and begins an open text again: the client may be another one than before,
// and the AI SDK fails at a piece of a text without its start. Arguments that stream are not begun again: @mastra/client-js would keep those of the first start.
func (w *Writer) Resume(dst []byte) []byte { return w.frame(dst, w.machine.Resume(w.begin(dst))) }

// Done reports whether the response is over: its last frames were appended. Another response may continue the turn.
func (w *Writer) Done() bool { return w.printer.done }

// begin returns where events are appended.
func (w *Writer) begin(dst []byte) []byte {
	if w.framing == Events {
		return dst
	}
	return w.scratch[:0]
}

// frame returns the events that were appended, in the framing of the response.
func (w *Writer) frame(dst, events []byte) []byte {
	if w.framing == Events {
		return events
	}
	w.scratch = events
	return separate(dst, events)
}

// separate appends the chunks of events with a separator after each.
func separate(dst, events []byte) []byte {
	for line := range bytes.Lines(events) {
		if data, ok := bytes.CutPrefix(line, []byte("data: {")); ok {
			dst = append(append(append(dst, '{'), bytes.TrimSuffix(data, []byte("\n"))...), '\x1e')
		}
	}
	return dst
}

// printer writes the events of a turn.
type printer struct {
	message string
	turn    *turn.Machine
	f       *turn.Frames // of the event at hand

	own      speaker
	late     map[turn.CallKey]chunk.Ordinal // calls of earlier turns, with the record of the outcome that was written
	started  bool                           // start was written
	closed   bool                           // the response has ended, and the turn was not resumed
	done     bool                           // the response has ended, and none was begun since
	response int                            // number of the response
}

// speaker is what was written of an agent: that of the session, or a sub-agent.
type speaker struct {
	*work // nil after the end of a sub-agent

	agent  *turn.Agent
	parent *speaker // nil for that of the session, and for a sub-agent that was not announced
	callID string   // of the call of the parent that started it
	kind   string   // name of its definition

	ended    bool // a sub-agent whose finish was written
	workflow bool // it wrote the chunks of a workflow
	network  bool // it wrote the chunks of a network, which have its steps, calls and end too
	executed byte // a network runs it, see event
}

// work is what was written of an agent that works.
type work struct {
	run      []byte          // see runID, nil before it is written
	blockAt  []chunk.Ordinal // of the first pieces of its texts
	stepping bool            // step-start was written, step-finish was not
	pending  *pendingStep    // whose step-start is still to be written
	steps    []stepTotal     // that ended, without those that have nothing

	executing string // session of what the network runs …
	runs      string // … and the event of its chunks
	workStep  string // step of the workflow whose result was written last
	output    []byte // of a workflow
	outputAt  chunk.Ordinal
	failure   string // text of the last error
	failureAt chunk.Ordinal
	tripped   bool // a guard stopped it
}

// of returns what was written of an agent.
func (p *printer) of(a *turn.Agent) *speaker {
	sp := &p.own
	switch {
	case a == nil:
	case a.Own():
		sp.agent = a
	case a.Kept == nil:
		sp = &speaker{agent: a}
		a.Kept = sp
	default:
		sp, _ = a.Kept.(*speaker)
	}
	if sp.work == nil {
		sp.work = &work{}
	}
	return sp
}

// runID returns the id of the run of an agent, as the content of a JSON string. That of a sub-agent is its session: clients put the chunks of one run together,
// and its runs are one delegation.
func (sp *speaker) runID() []byte {
	if sp.work == nil {
		sp.work = &work{}
	}
	if sp.run == nil && sp.session() != "" {
		sp.run = escaped(sp.session())
	}
	return sp.run
}

// release frees the memory of a sub-agent that has ended: most write nothing more, and a turn may have thousands of them.
func (sp *speaker) release() {
	if !sp.workflow && !sp.network {
		sp.work = nil
		return
	}
	*sp.work = work{run: sp.run} // which is that of its chunks
}

// What a network runs.
const (
	agentOfNetwork    = 'a'
	workflowOfNetwork = 'w'
)

// event returns the start of the types of the chunks of an agent that a network runs.
func (sp *speaker) event() string {
	if sp.executed == workflowOfNetwork {
		return workflowEvent
	}
	return agentEvent
}

// session returns the session of a sub-agent, "" for the session's own agent.
func (sp *speaker) session() string {
	if sp.agent == nil {
		return ""
	}
	return sp.agent.Session
}

// isOwn reports whether sp is the agent of the session.
func (p *printer) isOwn(sp *speaker) bool { return sp == &p.own }

// shows reports whether chunks of an agent can be written: a sub-agent must have a parent.
func (p *printer) shows(it *turn.Item) bool { return it.By.Own() || p.of(it.By).parent != nil }

// Print implements turn.Printer.
func (p *printer) Print(f *turn.Frames, e *turn.Event) {
	p.f, p.turn = f, e.Turn
	sp := p.of(e.Agent)
	switch it := e.Item; e.Kind {
	case turn.Begin:
		p.beginResponse(e.Again)
	case turn.Run:
		p.runStarted(it)
	case turn.Wait:
		p.flushStep(&p.own)
	case turn.Pause:
		p.pause(it)
	case turn.Final:
		if p.own.outputAt == 0 {
			p.output(it, &p.own, e.Value)
		}
	case turn.End:
		p.ended(e)
	case turn.Fail:
		p.fail(e)
	case turn.Record:
		p.record(it, e.First)
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
			p.announceAgent(p.of(it.By), sp, it.Text("callId"), it.Text("subAgentType"))
		}
	case turn.AgentClose:
		p.agentClose(it, sp)
	case turn.AgentRun:
		p.agentRun(it, sp)
	case turn.AgentEnd:
		p.finishAgent(sp, sp.reason())
	case turn.AgentFail:
		p.agentFail(it, sp)
	case turn.Part:
		p.part(it, sp)
	case turn.Data, turn.Structured:
		p.custom(it, sp)
	case turn.State, turn.Notice:
		p.notice(it, sp)
	case turn.Output:
		p.output(it, sp, it.Get("output"))
	case turn.Error:
		p.error(e, sp)
	case turn.Removed:
		p.removed(e, sp)
	case turn.AgentRemoved:
		e.Quiet = e.Quiet || sp.parent == nil
		p.removed(e, sp)
	default:
		if e.Call != nil {
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
	p.done = false
	if !again {
		p.closed = false
		p.response++
		return
	}
	p.started = true
	if !p.own.workflow && !p.own.network { // its responses have no start
		p.start(&p.own)
	}
}

// endResponse ends the response with the record at hand.
func (p *printer) endResponse() {
	p.closed, p.done = true, true
	p.f.IdentifyEmpty() // without a cursor the client would continue before this record, and get the end again
	p.f.Identify()      // clients stop reading at [DONE]
	p.f.Mark("[DONE]")
}

// record begins a step if the record has a higher step than the records before, and is not the start of one. It writes the step-start that waits for the record.
func (p *printer) record(it *turn.Item, first bool) {
	sp := p.of(it.By)
	if it.Rec.Type != chunk.TypeCustom || !startsWorkStep(it, sp) {
		p.flushStep(sp)
	}
	if first && p.isOwn(sp) && it.Rec.Type != chunk.TypeStepStart {
		p.beginStep(sp)
	}
}

package turn

import (
	"github.com/tailrace/tailrace/chunk"
)

// Item is a record with its parsed members.
type Item struct {
	*chunk.Members // empty for a piece of a text

	Rec  *chunk.Record
	By   *Agent
	Step int64

	kind  BlockKind // of which it is a piece, NoBlock for none
	piece []byte    // content of a JSON string
	turn  *Machine
}

var noMembers chunk.Members // of a piece

// IsPiece reports whether the record is a piece of a text, whose members are not parsed.
func (it *Item) IsPiece() bool { return it.kind != NoBlock }

// OrNull returns a member of any type, null if it is missing.
func (it *Item) OrNull(name string) chunk.Value {
	if v := it.Get(name); v != nil {
		return v
	}
	return null
}

// Content returns the content of a string member, still escaped, nil if it is missing.
func (it *Item) Content(name string, inner ...string) []byte {
	v := it.Get(name, inner...)
	if len(v) < 2 || v[0] != '"' {
		return nil
	}
	return v[1 : len(v)-1]
}

// Is reports whether a member is true.
func (it *Item) Is(name string) bool { return string(it.Get(name)) == "true" }

// Part returns the members of the part that the chunk schema does not have.
func (it *Item) Part() chunk.Part {
	if it.IsPiece() {
		return chunk.Part{}
	}
	return chunk.PartOf([]chunk.Member{{Name: chunk.PartMember, Value: it.Get(chunk.PartMember)}})
}

// HasCall reports whether the turn has the call of the record.
func (it *Item) HasCall() bool {
	_, ok := it.turn.ShownID(it.callKey())
	return ok
}

// RunsInClient reports whether the client runs a call that the record begins.
func (it *Item) RunsInClient() bool { return it.turn.runsInClient(it, it.Text("toolName")) }

// OpenCall returns the call of the record if it has no outcome, nil for none.
func (it *Item) OpenCall() *Call { return it.turn.OpenCall(it.callKey()) }

func (it *Item) callKey() CallKey { return CallKey{it.By.Session, it.Text("toolCallId")} }

var null = chunk.Value("null")

// record handles the record at hand. After the end of a response it writes nothing until the turn is resumed.
func (m *Machine) record() {
	rec := &m.rec
	by := m.agent(rec)
	if by == nil || !by.Own() && m.drops(rec) {
		return
	}
	it := m.read(rec, by)
	if it == nil || m.isOfEarlier(it) {
		return
	}
	if wasIdle := m.idle; m.isResumedBy(it) {
		m.idle = false
		if by.Own() || wasIdle {
			for _, c := range m.calls.list() { // the run streams the arguments again
				c.Streaming = false
			}
		}
	}
	if m.rules.EarlyStart && !m.idle {
		m.open = m.open && !m.again
		m.respond(it)
	}
	if m.idle && rec.Type.Control() {
		m.out.Release()
	}
	_, known := it.Type()
	switch known = known || it.IsPiece(); {
	case rec.Type.Control():
		m.control(it)
	case known:
		m.chunk(it)
	case by.Own() && !m.idle:
		m.emit(&Event{Kind: Unknown, Item: it})
	}
	m.turn = m.turn || by.Own()
}

// agent returns the agent of rec, nil if rec changes nothing: it follows the turn, was handled before, or is of a fenced writer.
func (m *Machine) agent(rec *chunk.Record) *Agent {
	if m.over {
		return nil
	}
	m.bind(rec)
	a := &m.own
	if rec.Session != m.session {
		a = m.subAgent(rec.Session.ID)
	}
	if rec.Epoch < a.epoch || rec.Ordinal > 0 && rec.Ordinal <= a.ordinal {
		return nil
	}
	if a.Own() && rec.Ordinal != a.ordinal+1 {
		m.gapAt = rec.Ordinal
	}
	a.epoch, a.ordinal = rec.Epoch, rec.Ordinal
	return a
}

// bind makes the session of the first record that of the turn.
func (m *Machine) bind(rec *chunk.Record) {
	if !m.begun {
		m.begun, m.session = true, rec.Session
	}
}

// drops reports whether a record of a sub-agent changes nothing.
func (m *Machine) drops(rec *chunk.Record) bool {
	return m.rules.Drops != nil && !rec.Type.Control() && m.rules.Drops(rec.Type)
}

// read parses the record. It returns nil for a record that is malformed.
func (m *Machine) read(rec *chunk.Record, by *Agent) *Item {
	it := &m.item
	*it = Item{Rec: rec, By: by, turn: m}
	if it.kind, it.Step, it.piece = by.read(rec); it.kind != NoBlock {
		it.Members = &noMembers
		return it
	}
	it.Members = &m.members
	if it.Read(rec.Data) != nil {
		return nil
	}
	it.Step, _ = Digits(it.Get("step"))
	if typ, _ := it.Type(); typ != rec.Type {
		return nil
	}
	return it
}

// isOfEarlier reports whether a record is an outcome of one of Config.Earlier.
func (m *Machine) isOfEarlier(it *Item) bool {
	if len(m.earlier) == 0 || !it.By.Own() {
		return false
	}
	switch it.Rec.Type {
	case chunk.TypeToolEnd, chunk.TypeToolApprovalResponse, chunk.TypeToolOutputError, chunk.TypeToolInputError:
		return m.earlier[it.Text("toolCallId")]
	case chunk.TypeSubagentEnd:
		return m.earlier[it.Text("callId")]
	case chunk.TypeToolStart, chunk.TypeToolArgStreamStart, chunk.TypeToolApprovalRequest:
		delete(m.earlier, it.Text("toolCallId"))
	}
	return false
}

// advance handles the first chunk of a step. It reports whether it is one.
func (m *Machine) advance(it *Item) (first bool) {
	if it.Step <= it.By.Step {
		return false
	}
	m.closeBlock(it.By, it)
	it.By.First = 0
	it.By.Step = it.Step
	if it.By.Own() {
		m.data.keep()
	}
	return true
}

// chunk handles a record that is not a control record.
func (m *Machine) chunk(it *Item) {
	first := m.advance(it)
	if m.idle {
		return
	}
	if !it.By.Own() && m.rules.Shows != nil && !m.rules.Shows(it) {
		m.emit(&Event{Kind: Other, Item: it})
		return
	}
	m.respond(it)
	m.emit(&Event{Kind: Record, Item: it, First: first})
	if it.IsPiece() {
		m.text(it, it.kind, it.piece)
		return
	}
	switch it.Rec.Type {
	case chunk.TypeTextDelta:
		m.text(it, TextBlock, it.Content("delta"))
	case chunk.TypeThinking:
		m.think(it)
	case chunk.TypeStepStart:
		m.stepStart(it)
	case chunk.TypeStepEnd:
		m.stepEnd(it)
	case chunk.TypeFile, chunk.TypeSourceURL, chunk.TypeSourceDocument:
		m.closeBlock(it.By, it)
		it.By.openStep(it)
		m.emit(&Event{Kind: Part, Item: it})
	case chunk.TypeStatePatch:
		m.emit(&Event{Kind: State, Item: it})
	case chunk.TypeCustom:
		m.custom(it)
	case chunk.TypeSubagentStart:
		m.agentStart(it)
	case chunk.TypeSubagentEnd:
		m.agentEnd(it)
	case chunk.TypeOutput:
		m.emit(&Event{Kind: Output, Item: it})
	case chunk.TypeError:
		m.reported(it)
	case chunk.TypeRunInterrupted:
		m.interrupted(it)
	case chunk.TypeRunPaused, chunk.TypeStreamResync, chunk.TypeExecutorSuperseded:
		m.closeBlock(it.By, it)
		m.emit(&Event{Kind: Notice, Item: it})
	default:
		if !m.tool(it) {
			m.emit(&Event{Kind: Notice, Item: it})
		}
	}
}

// hide handles a record that is hidden from the client: it ends the text that the record ends, and follows the steps of the answer.
func (m *Machine) hide() {
	rec := &m.rec
	if rec.Session != m.session && m.begun && m.agents[rec.Session.ID] == nil {
		return // nothing of this sub-agent is shown
	}
	by := m.agent(rec)
	if by == nil || rec.Type.Control() || !by.Own() && m.drops(rec) {
		return
	}
	it := m.read(rec, by)
	if it == nil || m.isOfEarlier(it) {
		return
	}
	if _, known := it.Type(); !known && !it.IsPiece() {
		return
	}
	m.advance(it)
	if m.idle {
		return
	}
	endsText, addsPart := m.hidden(it)
	if endsText || m.hasPart(it) {
		m.closeBlock(by, it)
	}
	switch {
	case rec.Type == chunk.TypeStepStart || rec.Type == chunk.TypeStepEnd:
		if by.Own() {
			m.closeTexts(it)
		}
		by.First = 0
	case addsPart:
		by.openStep(it)
	}
}

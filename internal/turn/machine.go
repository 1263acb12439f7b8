package turn

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/structured"
)

// Rules are what the dialects decide differently. The zero Rules are those of AG-UI.
type Rules struct {
	// EarlyStart begins a response with the first record that is handled. Otherwise it begins with the first one of which something is shown.
	EarlyStart bool

	// Reopens lets a response that Resume begins continue after the end of the turn: what follows in the log is written. It begins with the first record.
	Reopens bool

	// Restarts makes Resume write the beginning of a response also where none is open: the turn waits or has ended, or nothing was shown.
	Restarts bool

	// EndAgain makes the end of a turn that waits or was interrupted another response.
	EndAgain bool

	// CursorAfter writes the cursor of a record as an event of its own, see Frames.
	CursorAfter bool

	// ErrorEnds ends the response at an error of the session's agent that is not recoverable.
	ErrorEnds bool

	// OneInput leaves out arguments of a call that has some, unless a user is asked about them.
	OneInput bool

	// CloseAll ends the texts of all agents where a step of the session's agent begins or ends.
	CloseAll bool

	// EmptyParts makes an empty piece of a text count if its record has members of the part, see chunk.Part. One that begins a part ends the text before it.
	EmptyParts bool

	// Drops reports whether the records of sub-agents with a type change nothing. They are not parsed.
	Drops func(chunk.Type) bool

	// Shows reports whether a record of a sub-agent is written like one of the session's agent. Others are events of the kind Other.
	Shows func(*Item) bool

	// Asks reports whether a call without an outcome waits for the client; one that waits for an approval or for data does. Default: Machine.WaitsForClient.
	Asks func(*Call) bool
}

// Config is what a Machine needs to know besides the records.
type Config struct {
	// IsClient reports whether the client runs a tool; nil: it runs none. A member providerExecuted in the record that starts the call takes precedence.
	IsClient func(tool string) bool

	// Earlier are calls of the session's agent that an earlier turn began: their outcomes, and the ends of their sub-agents, are left out. One that begins again is
	// of this turn.
	Earlier []string
}

// Machine follows one turn of a session, from the run_started record that opens it. What it writes depends on the records only, so every process that reads the
// same records writes the same bytes. It is not safe for concurrent use.
type Machine struct {
	course

	session chunk.Session
	begun   bool // the first record was handled: session is that of the turn
	over    bool // another turn began: no later record belongs to this one
	open    bool // a response has begun, and has not ended
	idle    bool // the turn waits or has ended: nothing is written until it is resumed
	again   bool // another response is wanted while the turn is idle, and has not begun

	// Ordinals of the session: of the latest record with a piece of a text that is written, and of the latest that did not follow the one before it.
	pieceAt, gapAt chunk.Ordinal

	ahead *Replay // of the history that is read, nil for none

	printer Printer
	deltas  DeltaPrinter // the printer, nil if it is not one
	rules   Rules
	cfg     Config

	out     Frames
	rec     chunk.Record // at hand
	item    Item
	members chunk.Members
	event   Event

	own    Agent
	agents map[string]*Agent // sub-agents, by session
	order  []*Agent          // the same, as they came
	works  map[*Agent]bool   // those whose own run is active
	runs   map[CallKey]int   // number of those that are running, by the call that started them

	blocks int // number of texts so far
	more   continued

	calls   calls
	earlier map[string]bool // see Config.Earlier
	data    data

	skipped []byte // frames that are dropped
}

// outcome is the state of the latest run. Each stops those before it, see course.stop.
type outcome int

const (
	running outcome = iota
	paused
	interrupted
	finished
	failed
)

// reasons say why a response ends in which nothing follows.
var reasons = [...]Reason{running: Success, paused: Waiting, interrupted: Interrupted, finished: Success, failed: Failed}

// New returns a Machine before the first record of a turn.
func New(p Printer, r Rules, c Config) *Machine {
	m := &Machine{printer: p, rules: r, cfg: c, works: make(map[*Agent]bool), runs: make(map[CallKey]int), earlier: make(map[string]bool)}
	for _, id := range c.Earlier {
		m.earlier[id] = true
	}
	m.deltas, _ = p.(DeltaPrinter)
	m.out.IDAfter = r.CursorAfter
	return m
}

// Append appends the frames of rec, the next record of the session or of one of its sub-agents. Some records have none. The last frame of a record has its cursor.
// A malformed record has no frames.
func (m *Machine) Append(dst []byte, rec chunk.Record) []byte { return m.write(dst, &rec) }

// Skip is Append for a client that has the frames.
func (m *Machine) Skip(rec chunk.Record) { m.skipped = m.Append(m.skipped[:0], rec) }

// Hide is Append for a record that is hidden from the client. It writes at most the end of a text that the record ends. The control records of the session are not
// hidden: they determine the course of the turn.
func (m *Machine) Hide(dst []byte, rec chunk.Record) []byte {
	m.begin(dst, &rec)
	m.hide()
	return m.end()
}

func (m *Machine) begin(dst []byte, rec *chunk.Record) {
	m.rec = *rec
	m.out.Begin(dst, rec.Cursor())
}

func (m *Machine) end() []byte {
	m.rec.Data = nil // it is the caller's
	return m.out.End()
}

// Done reports whether the frames that end the response were appended: the turn has ended, or waits for the client. Records may follow in the log. Append after
// Done continues the turn if the record resumes it.
func (m *Machine) Done() bool { return m.idle && !m.open && (!m.again || !m.rules.Restarts) }

// Resume begins another response of the turn, for a client that has the records so far: it appends its beginning, without a cursor, and the beginning of what is
// open. If nothing is open, because the turn waits or has ended, the response may begin with the record that resumes or ends the turn, see Rules.EarlyStart.
func (m *Machine) Resume(dst []byte) []byte {
	if !m.open && (!m.rules.EarlyStart || m.rules.Reopens && !m.begun) {
		m.again = m.idle
		if !m.rules.Restarts {
			return dst
		}
		m.out.Begin(dst, chunk.Cursor{})
		m.emit(&Event{Kind: Begin, Again: true})
		return m.out.End()
	}
	m.out.Begin(dst, chunk.Cursor{})
	if m.open, m.again = true, false; m.rules.Reopens {
		m.idle = false
		if m.outcome != paused {
			m.outcome = running // the response has an end, also if the turn had it before
		}
	}
	m.emit(&Event{Kind: Begin, Again: true})
	for _, a := range m.allAgents() {
		if a.StepOpen {
			m.emit(&Event{Kind: StepOpen, Agent: a, Again: true})
		}
		if a.Block.Kind != NoBlock {
			m.emit(&Event{Kind: BlockOpen, Agent: a, Again: true})
		}
	}
	for _, c := range m.calls.list() {
		m.emit(&Event{Kind: InputOpen, Agent: c.By, Call: c, Again: true})
	}
	return m.out.End()
}

// Continue is Resume for a client that has the beginning of what is open. Rules.EarlyStart: the response begins with the next record that is handled.
func (m *Machine) Continue() { m.open, m.again = m.idle, m.idle }

// Start appends the beginning of the response, before its first record, unless it has begun.
func (m *Machine) Start(dst []byte) []byte {
	m.out.Begin(dst, chunk.Cursor{})
	m.start()
	return m.out.End()
}

func (m *Machine) start() {
	m.open, m.again = m.open || !m.idle, false
	m.emit(&Event{Kind: Begin})
}

// Finish appends the end of the response unless it has ended. It is for a log that has ended, and for a response without records.
func (m *Machine) Finish(dst []byte) []byte {
	m.out.Begin(dst, chunk.Cursor{})
	if !m.Done() {
		m.start()
		m.endResponse(&Event{Kind: End, Reason: reasons[m.outcome]})
	}
	return m.out.End()
}

// Ordinals returns ordinals of the session: of its latest record, of the latest with a piece of a text that is written, and of the latest that did not follow the
// one before it.
func (m *Machine) Ordinals() (latest, piece, gap chunk.Ordinal) {
	return m.own.ordinal, m.pieceAt, m.gapAt
}

// Replays reports whether the record at hand is history.
func (m *Machine) Replays() bool { return m.ahead != nil }

// CloseTexts ends the open texts of all agents, before a printer writes the event at hand: not the text that the event begins.
func (m *Machine) CloseTexts() {
	at := m.event
	closes := func(a *Agent) {
		if a.Block.Kind != NoBlock && (at.Kind != BlockOpen || a != at.Agent) {
			m.closeBlock(a, nil)
		}
	}
	closes(&m.own)
	for _, a := range m.order {
		closes(a)
	}
	m.event = at
}

// Session returns the session of the turn, after the first record.
func (m *Machine) Session() chunk.Session { return m.session }

// RunID returns the id of the latest run, as the content of a JSON string.
func (m *Machine) RunID() []byte { return m.run }

// Own returns the session's own agent.
func (m *Machine) Own() *Agent { return &m.own }

// Agents returns the sub-agents, as they came.
func (m *Machine) Agents() []*Agent { return m.order }

// Agent returns the sub-agent with a session, nil for none.
func (m *Machine) Agent(session string) *Agent { return m.agents[session] }

// OpenCalls returns the calls without an outcome, as they came.
func (m *Machine) OpenCalls() []*Call { return m.calls.list() }

// respond begins a response unless one is open.
func (m *Machine) respond(it *Item) {
	if m.open {
		return
	}
	m.open, m.again = true, false
	m.emit(&Event{Kind: Begin, Item: it, First: !m.turn && it.By.Own()})
}

// emit passes an event to the printer.
func (m *Machine) emit(e *Event) {
	m.event = *e
	m.event.Turn = m
	switch {
	case e.Agent != nil:
	case e.Item != nil:
		m.event.Agent = e.Item.By
	default:
		m.event.Agent = &m.own
	}
	m.printer.Print(&m.out, &m.event)
}

// data is the structured data of the session's agent.
type data struct {
	streams *structured.State // nil for none
	at      chunk.Ordinal     // latest record of it
	before  dataBefore
}

package turn

import (
	"bytes"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// Agent is the state of an agent whose records are read: the session's own, or a sub-agent.
type Agent struct {
	Session string // of a sub-agent, "" for the session's own
	Kept    any    // what the printer keeps of it
	Paused  bool   // it waits for users, or for its sub-agents
	Running bool   // of a sub-agent, according to the records of its parent

	StepOpen  bool  // a step began, and has not ended
	Suspended bool  // it waits for data of a user, until it is resumed; set by a printer
	OpenCalls int32 // number of its calls without an outcome
	Starts    int32 // of a sub-agent: how often it was started, according to the records of its parent

	// The steps. First is the sequence of the record that opened the step of the answer that is written, as the snapshot has it, 0 if the next part opens one.
	Step   int64  // highest step it reached
	StepNo int64  // number of that which is open
	StepID []byte // of that, as the content of a JSON string; nil for none
	First  chunk.Seq

	Block Block

	// Of a sub-agent, according to the records of its parent.
	Parent *Agent // nil for one that was not started
	CallID string // id of the call that started it, while it is running
	Call   []byte // the same in the messages, as the content of a JSON string
	Type   []byte // its definition, as the content of a JSON string, while it is running

	startedAt chunk.Ordinal
	epoch     chunk.Epoch
	ordinal   chunk.Ordinal
	hidden    hiddenCalls
	texts     *texts // nil before the first record, and after the end of a sub-agent
}

// texts are the buffers of the texts of an agent.
type texts struct {
	pieces  DeltaReader
	thought []byte // of the open reasoning: its text so far, escaped as in the records
}

// read reads a piece of a text of the agent, see DeltaReader.
func (a *Agent) read(rec *chunk.Record) (kind BlockKind, step int64, piece []byte) {
	if a.texts == nil {
		a.texts = &texts{}
	}
	return a.texts.pieces.Read(rec)
}

// Own reports whether it is the session's own agent.
func (a *Agent) Own() bool { return a.Session == "" }

// openStep opens the step of the answer unless it is open. Every record that adds a part to the snapshot does.
func (a *Agent) openStep(it *Item) {
	if a.First == 0 {
		a.First = it.Rec.Seq
	}
}

// release frees the buffers of an agent without an open text: most sub-agents write nothing more after their end, and a turn may have thousands of them.
func (a *Agent) release() { a.texts = nil }

// allAgents returns all agents, the session's own first.
func (m *Machine) allAgents() []*Agent { return append([]*Agent{&m.own}, m.order...) }

// subAgent returns the state of a sub-agent, by session.
func (m *Machine) subAgent(session string) *Agent {
	if a := m.agents[session]; a != nil {
		return a
	}
	if m.agents == nil {
		m.agents = make(map[string]*Agent)
	}
	a := &Agent{Session: session}
	m.agents[session] = a
	m.order = append(m.order, a)
	return a
}

// named returns the sub-agent that a record of another agent starts or ends. It is nil for the session, for the other agent itself, and for one without a name: no
// session has the empty id.
func (m *Machine) named(it *Item) *Agent {
	session := it.Text("subSessionId")
	if session == "" || session == m.session.ID || session == it.By.Session {
		return nil
	}
	return m.subAgent(session)
}

// agentStart handles the start of a sub-agent. A repeated start changes nothing.
func (m *Machine) agentStart(it *Item) {
	m.closeBlock(it.By, it)
	if a := m.named(it); a != nil && !a.Running {
		m.startAgent(it, a, false)
	}
}

func (m *Machine) startAgent(it *Item, a *Agent, alone bool) {
	it.By.openStep(it)
	m.closeStep(a, it)
	a.First = 0
	a.startedAt = it.Rec.Ordinal
	a.Starts++
	a.CallID, a.Type = it.Text("callId"), bytes.Clone(it.Content("subAgentType"))
	m.Adopt(a, it.By)
	id, _ := m.ShownID(CallKey{it.By.Session, a.CallID})
	a.Call = escaped(id)
	m.emit(&Event{Kind: AgentOpen, Item: it, Agent: a, Alone: alone})
}

// agentEnd handles the end of a sub-agent.
func (m *Machine) agentEnd(it *Item) {
	a := m.named(it)
	if a == nil {
		return
	}
	if !a.Running {
		m.startAgent(it, a, true) // the snapshot has an entry for the end alone
	}
	m.closeStep(a, it)
	m.stopRunning(a)
	m.emit(&Event{Kind: AgentClose, Item: it, Agent: a, Value: it.Get("result")})
	a.CallID, a.Call, a.Type = "", nil, nil
}

// Adopt makes a sub-agent one that runs, and that another agent has started. A printer calls it for one whose start is hidden or missing.
func (m *Machine) Adopt(a, parent *Agent) {
	a.Running, a.Parent = true, parent
	m.runs[a.startedBy()]++
}

// stopRunning notes the end of a sub-agent that runs, or the removal of its start.
func (m *Machine) stopRunning(a *Agent) {
	a.Running = false
	delete(m.works, a)
	by := a.startedBy()
	if m.runs[by]--; m.runs[by] == 0 {
		delete(m.runs, by)
	}
}

// startedBy returns the key of the call that started a sub-agent.
func (a *Agent) startedBy() CallKey { return CallKey{a.Parent.Session, a.CallID} }

// escaped returns a text as the content of a JSON string.
func escaped(text string) []byte { return rawjson.AppendEscaped(make([]byte, 0, len(text)), text) }

// Kept returns what a printer keeps of an agent or a call, and whether that is new.
func Kept[T any](kept *any) (of *T, isNew bool) {
	of, ok := (*kept).(*T)
	if !ok {
		of = new(T)
		*kept = of
	}
	return of, !ok
}

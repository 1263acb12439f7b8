package turn

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// CallKey names a call: ids are the producer's, and one agent's are not another's.
type CallKey struct{ Agent, ID string }

// ShownID returns the id of a call in the messages, with a number behind it, 1 for none.
func (k CallKey) ShownID(suffix int) string {
	id := dialect.CallID(k.Agent, k.ID)
	if suffix > 1 {
		id += "_" + strconv.Itoa(suffix)
	}
	return id
}

// Call is a tool call without an outcome.
type Call struct {
	Key   CallKey
	By    *Agent
	ID    string // in the messages: a client would take a second call with the same id for the first one, so it may have a number behind it
	Shown []byte // ID as the content of a JSON string
	Name  []byte // of the tool, as the content of a JSON string

	Client    bool // the client runs it
	Delegated bool // a sub-agent runs it
	Streaming bool // its arguments stream
	Sent      bool // its arguments are complete
	Approved  bool // a user approved it

	// SuspendedAt is the record of its agent by which a user must give it data, 0 for none. A printer sets it.
	SuspendedAt chunk.Ordinal

	// ApprovalID is the id of the approval that waits for a decision, as the content of a JSON string; nil for none.
	ApprovalID []byte

	// Kept is what the printer keeps of it. A removal of records may revert its outcome: it has Mark then, and Kept if it
	// waited, and this was in the present step of the session's agent or the one before.
	Kept any
	Mark [2]uint64

	waited bool   // a response ended before its outcome, or asked the client or a user about it
	denied bool   // its outcome is the denial of a user
	suffix int    // number behind the id, 1 for none
	place  int    // in calls.open
	hash   uint64 // of its arguments

	// The records of these changes. A truncated record may remove them.
	begunAt, sentAt, approvalAt, endedAt chunk.Ordinal
	delegatedAt                          chunk.Ordinal // 0 if the name of the tool says that a sub-agent runs it
}

// Delegate notes that a sub-agent runs the call, because of a record of its agent or of the sub-agent.
func (c *Call) Delegate(it *Item) {
	if c.Delegated {
		return
	}
	if c.Delegated = true; it.By == c.By {
		c.delegatedAt = it.Rec.Ordinal
	}
}

// Local returns Shown without the session of a sub-agent.
func (c *Call) Local() []byte {
	if c.By.Own() {
		return c.Shown
	}
	return escaped(strings.TrimPrefix(c.ID, dialect.CallID(c.Key.Agent, "")))
}

// Reopened reports whether the call had an outcome, which was removed.
func (c *Call) Reopened() bool { return c.endedAt > 0 }

// BeginsWith reports whether the call began with a record.
func (c *Call) BeginsWith(it *Item) bool { return c.By == it.By && c.begunAt == it.Rec.Ordinal }

// calls are the calls of a turn.
type calls struct {
	open     []*Call           // those without an outcome, as they came, see list; nil for one that was dropped
	dropped  int               // number of those
	shown    map[string]*Call  // those without an outcome, by Call.ID
	finished finishedCalls     // those with an outcome
	kept     [2]map[string]any // Call.Kept of those that waited and have an outcome, by Call.ID: of the present step, and of the one before
	reused   map[CallKey]int   // number behind the id of the latest call of a key that was used again
}

// hashSeed is the seed of the hashes of arguments and ids.
var hashSeed = maphash.MakeSeed()

// add adds a call without an outcome.
func (s *calls) add(c *Call) {
	c.ID = c.Key.ShownID(c.suffix)
	c.Shown = escaped(c.ID)
	if s.shown == nil {
		s.shown = make(map[string]*Call)
	}
	s.shown[c.ID] = c
	c.By.OpenCalls++
	c.place = len(s.open)
	s.open = append(s.open, c)
	if c.suffix > 1 {
		if s.reused == nil {
			s.reused = make(map[CallKey]int)
		}
		s.reused[c.Key] = max(s.reused[c.Key], c.suffix)
	}
}

// drop removes a call from those without an outcome.
func (s *calls) drop(c *Call) {
	delete(s.shown, c.ID)
	c.By.OpenCalls--
	s.open[c.place] = nil
	if s.dropped++; 2*s.dropped > len(s.open) {
		s.list()
	}
}

// list returns the calls without an outcome, as they came.
func (s *calls) list() []*Call {
	if s.dropped > 0 {
		s.open, s.dropped = slices.DeleteFunc(s.open, func(c *Call) bool { return c == nil }), 0
		for i, c := range s.open {
			c.place = i
		}
	}
	return s.open
}

// latest returns the number behind the id of the latest call with a key.
func (s *calls) latest(key CallKey) int { return max(1, s.reused[key]) }

// freeSuffix returns the number behind the id of a new call.
func (s *calls) freeSuffix(key CallKey) int {
	for n := s.latest(key); ; n++ {
		if !s.isShown(key.ShownID(n)) {
			return n
		}
	}
}

// isShown reports whether a call is shown under an id.
func (s *calls) isShown(id string) bool {
	_, ended := s.finished.find(id)
	return ended || s.shown[id] != nil
}

// ended returns the call with a key and a number behind its id if it has its outcome. Another call may have its id by chance: a_2 is also the second call with the
// id a.
func (s *calls) ended(key CallKey, suffix int) (c Call, ok bool) {
	c, ok = s.finished.find(key.ShownID(suffix))
	return c, ok && c.Key == key
}

// find returns the call with a key and a number behind its id if it has no outcome, nil for none.
func (s *calls) find(key CallKey, suffix int) *Call {
	if c := s.shown[key.ShownID(suffix)]; c != nil && c.Key == key {
		return c
	}
	return nil
}

// OpenCall returns the call with a key that has no outcome, nil for none.
func (m *Machine) OpenCall(key CallKey) *Call { return m.calls.find(key, m.calls.latest(key)) }

// HasCall reports whether the messages have a call under an id.
func (m *Machine) HasCall(id string) bool { return m.calls.isShown(id) }

// ShownID returns the id in the messages of the latest call with a key, and whether the turn has one.
func (m *Machine) ShownID(key CallKey) (id string, ok bool) {
	n := m.calls.latest(key)
	return key.ShownID(n), m.calls.has(key, n)
}

// has reports whether a call with a key and a number behind its id is shown.
func (s *calls) has(key CallKey, suffix int) bool {
	_, ended := s.ended(key, suffix)
	return ended || s.find(key, suffix) != nil
}

// tool handles a record about a call. It reports false for another record.
func (m *Machine) tool(it *Item) bool {
	switch it.Rec.Type {
	case chunk.TypeToolArgStreamStart, chunk.TypeToolStart, chunk.TypeToolApprovalRequest, chunk.TypeToolEnd, chunk.TypeToolInputError, chunk.TypeToolOutputError,
		chunk.TypeToolApprovalResponse:
		if rawjson.Text(it.Get("toolName")).Is(FinishTool) {
			return true
		}
	case chunk.TypeToolArgStreamDelta, chunk.TypeToolArgStreamEnd:
	default:
		return false
	}
	switch it.Rec.Type {
	case chunk.TypeToolArgStreamStart:
		c := m.call(it)
		c.Streaming, c.Sent, c.ApprovalID = true, false, nil
		m.emit(&Event{Kind: InputOpen, Item: it, Call: c})
	case chunk.TypeToolArgStreamDelta:
		if c, piece := it.OpenCall(), it.Content("delta"); c != nil && c.Streaming && len(piece) > 0 {
			m.emit(&Event{Kind: InputDelta, Item: it, Call: c, Text: piece})
		}
	case chunk.TypeToolArgStreamEnd:
		if c := it.OpenCall(); c != nil && c.Streaming {
			m.emit(&Event{Kind: InputClose, Item: it, Call: c})
		}
	case chunk.TypeToolStart:
		c := m.call(it)
		m.emit(&Event{Kind: Started, Item: it, Call: c})
		m.input(it, c, it.OrNull("arguments"), false)
	case chunk.TypeToolApprovalRequest:
		m.ask(it)
	case chunk.TypeToolApprovalResponse:
		m.decision(it)
	default:
		m.outcomeOf(it)
	}
	return true
}

// Withdraw takes the questions of an agent back, in a dialect in which they end with the agent.
func (m *Machine) Withdraw(a *Agent) {
	if a.OpenCalls == 0 {
		return
	}
	for _, c := range m.calls.list() {
		if c.By == a {
			c.ApprovalID, c.SuspendedAt = nil, 0
		}
	}
}

// call returns the call of a record, a new one if there is none with its id that has no outcome.
func (m *Machine) call(it *Item) *Call {
	m.closeBlock(it.By, it)
	key := it.callKey()
	if c := m.OpenCall(key); c != nil {
		return c
	}
	name := it.Text("toolName")
	c := &Call{
		Key: key, By: it.By, Name: bytes.Clone(it.Content("toolName")), Delegated: isDelegated(name),
		suffix: m.calls.freeSuffix(key), begunAt: it.Rec.Ordinal,
	}
	c.Client = m.runsInClient(it, name)
	it.By.openStep(it)
	m.calls.add(c)
	return c
}

// runsInClient reports whether the client runs a call.
func (m *Machine) runsInClient(it *Item, name string) bool {
	if isDelegated(name) {
		return false
	}
	if v := it.Get("providerExecuted"); v != nil {
		return string(v) == "false"
	}
	return m.cfg.IsClient != nil && m.cfg.IsClient(name)
}

// isDelegated reports whether a sub-agent runs the calls of a tool.
func isDelegated(tool string) bool { return strings.HasPrefix(tool, SubAgentTool) }

// hashOf returns the hash of arguments, in 55 bits: finishedCalls stores 7 in a byte. Those that are missing are an empty object.
func hashOf(arguments chunk.Value) uint64 {
	if arguments.IsNull() {
		arguments = emptyObject
	}
	return maphash.Bytes(hashSeed, arguments) >> 9
}

var emptyObject = chunk.Value(`{}`)

// input handles the complete arguments of a call. There is an event only if the client does not have them.
func (m *Machine) input(it *Item, c *Call, arguments chunk.Value, asked bool) {
	hash := hashOf(arguments)
	again := c.Sent
	if again && (c.hash == hash || m.rules.OneInput && (!asked || c.Client)) {
		return
	}
	if !again || !m.rules.OneInput {
		c.sentAt = it.Rec.Ordinal
	}
	m.emit(&Event{Kind: Input, Item: it, Call: c, Value: arguments, Again: again})
	c.Sent, c.Streaming, c.hash, c.waited = true, false, hash, c.waited || c.Client
}

// ask handles a question to a user whether a call may run. One that a rule answers is no question.
func (m *Machine) ask(it *Item) {
	c := m.call(it)
	m.input(it, c, it.OrNull("input"), true)
	if it.Is("isAutomatic") {
		return
	}
	c.ApprovalID, c.approvalAt, c.waited = bytes.Clone(it.Content("approvalId")), it.Rec.Ordinal, true
	m.emit(&Event{Kind: Ask, Item: it, Call: c, Answered: m.ahead.answers(it)})
}

// decision handles the decision of a user. A denial is the outcome of the call.
func (m *Machine) decision(it *Item) {
	c := it.OpenCall()
	if c == nil {
		m.late(it)
		return
	}
	m.emit(&Event{Kind: Decision, Item: it, Call: c})
	c.ApprovalID = nil
	if it.Is("approved") {
		c.Approved, c.approvalAt = true, it.Rec.Ordinal
		return
	}
	m.unasked(it, c, null)
	m.finish(it, c, &Event{Denied: true})
}

// unasked handles an outcome that comes before the arguments are complete.
func (m *Machine) unasked(it *Item, c *Call, arguments chunk.Value) {
	if c.Sent {
		return
	}
	c.sentAt = it.Rec.Ordinal
	m.emit(&Event{Kind: Input, Item: it, Call: c, Value: arguments, Unasked: true})
	c.Sent, c.Streaming, c.hash = true, false, hashOf(arguments)
}

// outcomeOf handles the outcome of a call. It has no effect if it is too late, or of a call of an earlier turn. A call that runs on the server and whose start is
// missing begins with it.
func (m *Machine) outcomeOf(it *Item) {
	c, bad := it.OpenCall(), it.Rec.Type == chunk.TypeToolInputError
	if c == nil {
		ours := it.Rec.Type != chunk.TypeToolEnd || it.Is("providerExecuted")
		if it.HasCall() || !ours {
			m.late(it)
			return
		}
		c = m.call(it)
	}
	arguments := it.OrNull("partialInput")
	m.unasked(it, c, arguments)
	if bad {
		m.closeBlock(it.By, it)
		m.input(it, c, arguments, false) // the snapshot has these, also of a call that had others
	}
	e := &Event{}
	if e.Failure = it.Get("error"); e.Failure == nil {
		e.Value = it.OrNull("result")
	} else if it.Rec.Type == chunk.TypeToolEnd {
		e.Code = it.Get("errorCode")
	}
	m.finish(it, c, e)
}

// late handles an outcome or a decision that has no effect.
func (m *Machine) late(it *Item) {
	key := it.callKey()
	id, _ := m.ShownID(key)
	c, ended := m.calls.ended(key, m.calls.latest(key))
	m.emit(&Event{Kind: Late, Item: it, Call: &Call{Key: key, By: it.By, ID: id, Shown: escaped(id)}, Denied: ended && c.denied})
}

// finish ends a call.
func (m *Machine) finish(it *Item, c *Call, e *Event) {
	e.Kind, e.Item, e.Call = Outcome, it, c
	c.denied = e.Denied
	m.emit(e)
	m.calls.drop(c)
	c.endedAt = it.Rec.Ordinal
	m.calls.finished.add(c)
	m.calls.keep(c)
}

// keep stores what the printer keeps of a call of the session's agent that has its outcome, if it waited.
func (s *calls) keep(c *Call) {
	if !c.By.Own() {
		return
	}
	for _, kept := range s.kept {
		delete(kept, c.ID) // of a removed call with its id
	}
	if c.waited {
		if s.kept[0] == nil {
			s.kept[0] = make(map[string]any)
		}
		s.kept[0][c.ID] = c.Kept
	}
}

// remove reverts the changes of removed records to the calls of the session's agent. It returns the open calls whose start was removed.
func (s *calls) remove(taken func(chunk.Ordinal) bool, own *Agent) (gone []*Call) {
	for _, c := range slices.Clone(s.list()) {
		switch {
		case !c.By.Own():
		case taken(c.begunAt):
			s.drop(c)
			gone = append(gone, c)
		default:
			c.Streaming = false
			c.Sent = c.Sent && !taken(c.sentAt)
			if taken(c.approvalAt) {
				c.ApprovalID, c.Approved = nil, false
			}
		}
	}
	for _, c := range s.finished.remove(taken, own) {
		if c.Kept, c.waited = s.kept[0][c.ID]; !c.waited {
			c.Kept, c.waited = s.kept[1][c.ID]
		}
		s.add(c)
	}
	s.removeWaits(own, taken)
	s.findLatest()
	return gone
}

// removeWaits reverts what removed records of an agent say about data for which its calls wait, and about sub-agents that run them.
func (s *calls) removeWaits(a *Agent, taken func(chunk.Ordinal) bool) {
	for _, c := range s.list() {
		if c.By == a && taken(c.SuspendedAt) {
			c.SuspendedAt = 0
		}
		if c.By == a && taken(c.delegatedAt) {
			c.Delegated, c.delegatedAt = false, 0
		}
	}
}

// findLatest finds the latest call of each key. Numbers are free again if their calls are removed.
func (s *calls) findLatest() {
	for key, n := range s.reused {
		for n > 1 && !s.has(key, n) {
			n--
		}
		if s.reused[key] = n; n == 1 {
			delete(s.reused, key)
		}
	}
}

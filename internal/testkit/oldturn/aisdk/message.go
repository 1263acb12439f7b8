package aisdk

import (
	"cmp"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/structured"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/dialect"
)

// MessageWriter writes one assistant message. It is not safe for concurrent use.
type MessageWriter struct {
	out

	id   string
	opt  Options
	meta Meta

	begun   bool // the first record was handled: meta.Session is that of the message
	turn    bool // a record of that session was handled
	started bool // start was written
	ended   bool // the last frames of the response were written
	over    bool // another turn began: no later record belongs to the message

	// idle: the answer waits, or has ended, and writes nothing until it is resumed.
	// expected: a chunk ended it, and the control record that ends the stream for the same reason is still to come.
	idle, expected bool
	concluded      bool // the record at hand ended the response
	outcome        outcome
	reason         string // finish reason of the last step that gave one

	members chunk.Members // of the record at hand

	own    agentState
	agents map[string]*agentState // sub-agents, by session
	order  []*agentState          // the same, as they came

	head   []byte    // of a frame that continues the open text
	headAt chunk.Seq // id of that

	steps     steps
	calls     map[callKey]*call // the latest of each id, without finished ones
	openCalls []*call           // all calls without finished ones
	shown     map[string]bool   // ids under which these are shown
	finished  finishedCalls     // calls that have an outcome, see finish
	completed *call             // the call to which the record at hand gave its outcome, nil for none
	reused    map[callKey]reuse // keys of several calls, or whose id another call has in the message
	keepCalls bool              // for tests: calls with an outcome stay among the open ones
	callCount int               // of all calls that ever began
	children  map[string]chunk.Ordinal
	streams   *structured.State // of structured data, nil for none
	streamAt  chunk.Ordinal     // latest record of it

	replay *Replay // nil outside one
}

// outcome is the state of the latest run.
type outcome int

const (
	running outcome = iota
	paused
	interrupted
	finished
	failed
)

// New returns a writer of the message with this id, before the first record of its turn.
func New(messageID string, opt Options) *MessageWriter {
	return &MessageWriter{
		id: messageID, opt: opt, meta: Meta{MessageID: messageID},
		calls: make(map[callKey]*call), shown: make(map[string]bool), steps: steps{number: 1},
	}
}

// Append appends the frames of rec, the next record of the session or of its tree. Some records have no frame. The last frame of rec has its cursor as
// id; start and [DONE] have none.
//
// A malformed record has no frame, as in the snapshot.
func (m *MessageWriter) Append(dst []byte, rec chunk.Record) []byte {
	if dst, ok := m.more(dst, &rec); ok {
		return dst
	}
	m.begin(dst, rec.Cursor())
	m.record(&rec)
	return m.end()
}

// Advance is Append for a client that has the frames of rec already.
func (m *MessageWriter) Advance(rec chunk.Record) {
	m.started = true
	m.scratch = m.Append(m.scratch[:0], rec)
}

// Continue begins the response to a continuation POST: start with the same id, and then only new frames. Call Advance for the records that the client has
// before.
func (m *MessageWriter) Continue() { m.started, m.ended = false, false }

// Resume is Continue and Start, and begins what is open again: texts, and inputs that stream. The client may be another one than before, and one that has the
// message of the snapshot accepts no piece without a start. It shows the rest of a text as another part.
func (m *MessageWriter) Resume(dst []byte) []byte {
	m.Continue()
	m.begin(dst, chunk.Cursor{})
	m.start()
	for _, sp := range append([]*agentState{&m.own}, m.order...) {
		if sp.block != dialect.NoBlock {
			m.open(kindsOf(sp.block).start)
			m.blockID(sp)
			m.shut()
		}
	}
	for _, c := range m.openCalls {
		if c.streaming {
			m.inputStart(c)
		}
	}
	return m.end()
}

// Done reports whether the response is over: its last frames, including [DONE], were appended. Another response may continue the message.
func (m *MessageWriter) Done() bool { return m.ended }

// Start appends the start frame unless it was written. A server uses it to respond before the first record arrives.
func (m *MessageWriter) Start(dst []byte) []byte {
	m.begin(dst, chunk.Cursor{})
	m.start()
	return m.end()
}

// Finish appends the frames that end the response, unless it is over. It is for a continuation without new records, and for a log that has ended.
func (m *MessageWriter) Finish(dst []byte) []byte {
	m.begin(dst, chunk.Cursor{})
	if !m.ended {
		m.start()
		m.conclude(m.stateReason())
	}
	return m.end()
}

func (m *MessageWriter) stateReason() string {
	switch m.outcome {
	case paused:
		return reasonToolCalls
	case interrupted:
		return m.interruptedReason()
	case failed:
		return reasonError
	}
	return cmp.Or(m.reason, reasonStop)
}

func (m *MessageWriter) interruptedReason() string { return m.opt.reason(reasonInterrupted) }

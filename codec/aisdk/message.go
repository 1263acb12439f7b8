package aisdk

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/structured"
)

// Message writes one assistant message. It is not safe for concurrent use.
type Message struct {
	out

	id   string
	opt  Options
	meta Meta

	begun   bool // the first record was seen: meta.Session is that of the message
	turn    bool // a record of that session was
	started bool // start went out
	ended   bool // the last frames of the response went out
	over    bool // another turn began: nothing belongs to the message any more

	// idle: the answer waits, or has ended, and says nothing until it goes on.
	// expected: it was ended by a chunk, and the record that ends the stream, which
	// says the same, is still to come.
	idle, expected bool
	concluded      bool // the record at hand ended the response
	outcome        outcome
	reason         string // finish reason of the last step that gave one

	members chunk.Members // of the record at hand

	own    speaker
	agents map[string]*speaker // sub-agents, by session
	order  []*speaker          // the same, as they came

	head   []byte    // of a frame that goes on with the open text
	headAt chunk.Seq // id of that

	steps     steps
	calls     map[callKey]*call // the latest of each id
	everyCall []*call           // in the order they came
	shown     map[string]bool   // ids under which calls are shown
	children  map[string]chunk.Ordinal
	streams   *structured.State // of structured data, nil for none
	streamAt  chunk.Ordinal     // latest record of it
	unknown   map[chunk.Type]bool

	replay *replay
}

// outcome is how the latest run stands.
type outcome int

const (
	running outcome = iota
	paused
	interrupted
	finished
	failed
)

// New makes the message with an id, before the first record of its turn.
func New(messageID string, opt Options) *Message {
	return &Message{
		id: messageID, opt: opt, meta: Meta{MessageID: messageID},
		calls: make(map[callKey]*call), shown: make(map[string]bool),
	}
}

// Append appends the frames of rec, the next record of the session, or of its
// tree. Nothing is appended when there is nothing to say. The last frame that
// rec made carries its sequence as id; start and [DONE] carry none.
//
// A record that cannot be read says nothing, as in the snapshot.
func (m *Message) Append(dst []byte, rec chunk.Record) []byte {
	if dst, ok := m.more(dst, &rec); ok {
		return dst
	}
	m.begin(dst, rec.Seq)
	m.record(&rec)
	return m.end()
}

// Prime is Append for a reader who has the frames of rec already.
func (m *Message) Prime(rec chunk.Record) {
	m.started = true
	m.scratch = m.Append(m.scratch[:0], rec)
}

// Continue makes what follows the answer to a continuation POST: start comes
// again, with the same id, and then only what is new. What the client has of the
// message was primed.
func (m *Message) Continue() { m.started, m.ended = false, false }

// Done reports whether the response is over: its last frames, [DONE] among
// them, were appended. The message may go on in another response.
func (m *Message) Done() bool { return m.ended }

// Start appends the start frame unless it went out: for a server that answers
// before the first record is there.
func (m *Message) Start(dst []byte) []byte {
	m.begin(dst, 0)
	m.start()
	return m.end()
}

// Finish appends what closes the response now, unless it is over: for a
// continuation to which nothing is to be added, and for a log that has ended.
func (m *Message) Finish(dst []byte) []byte {
	m.begin(dst, 0)
	if !m.ended {
		m.start()
		m.conclude(m.stateReason())
	}
	return m.end()
}

func (m *Message) stateReason() string {
	switch m.outcome {
	case paused:
		return reasonToolCalls
	case interrupted:
		return m.interruptedReason()
	case failed:
		return reasonError
	}
	if m.reason != "" {
		return m.reason
	}
	return reasonStop
}

func (m *Message) interruptedReason() string { return m.opt.reason(reasonInterrupted) }

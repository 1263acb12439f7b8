package aisdk

import (
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Content says what a chat gets of the content of sub-agents. Their beginning
// and end, custom events, approvals and the calls that the client must run are
// told in any case: a person must answer those.
type Content int

// The contents. Drop is the default: the message that is stored holds none of
// it, so that what was shown would vanish with the next reload.
const (
	Drop   Content = iota
	Inline         // as parts of the message, under ids of their own
	Data           // as transient data-subagent-chunk {subSessionId, chunk}
)

// Options of a Message. The zero Options speak to every client of the major
// versions 6 and 7.
type Options struct {
	// Major 7 also uses what only that version knows: tool-approval-response,
	// reset-step, the finish reason interrupted. Anything else is portable.
	Major int

	SubAgents Content

	// NoSteps leaves out start-step and finish-step. Clients that post again by
	// themselves when a tool is answered then do so without end.
	NoSteps bool

	// ClientTool reports whether the browser runs a tool; nil: it runs none. A
	// member "providerExecuted" of the call's own record comes before it.
	ClientTool func(name string) bool

	// StartMetadata and FinishMetadata give the messageMetadata of the first and
	// the last chunk, a JSON object; nil for none. Static is one of them.
	StartMetadata, FinishMetadata func(Meta) chunk.Value

	// ErrorText is what a person reads of an error that ends the message; nil
	// shows the text of the record.
	ErrorText func(Failure) string
}

// Static is metadata that is always the same.
func Static(v chunk.Value) func(Meta) chunk.Value { return func(Meta) chunk.Value { return v } }

// Failure is an error that ends a message.
type Failure struct {
	Text string // of the record
	Code string // "" for none
}

// Meta is what a Message knows when it computes metadata. At the start it may
// be no more than the id: Start is called before the run has begun.
type Meta struct {
	MessageID string
	Session   chunk.Session
	AgentType string
	RunID     string
	Began     time.Time // when the log stored the first record
	At        time.Time // when it stored the latest
	Steps     int       // steps that ended

	InputTokens, OutputTokens, CachedTokens, CacheWriteTokens int64 // of those steps

	FinishReason string // at the end
}

// Message writes one assistant message. It is not safe for concurrent use.
type Message struct {
	id  string
	opt Options

	session chunk.Session
	begun   bool // the first record was seen

	started bool // start went out
	done    bool // the response is over
	over    bool // the message is over: another turn began

	own speaker

	out
}

// New makes the message with an id, before the first record of its turn.
func New(messageID string, opt Options) *Message {
	return &Message{id: messageID, opt: opt}
}

// Append appends the frames of rec, the next record of the session or of its
// tree. Nothing is appended when there is nothing to say. The last frame that
// the record made carries its sequence as id; start and [DONE] carry none.
func (m *Message) Append(dst []byte, rec chunk.Record) []byte {
	m.begin(dst)
	m.record(rec)
	return m.end(rec.Seq)
}

// Prime is Append for a reader who has the frames of rec already.
func (m *Message) Prime(rec chunk.Record) {
	m.scratch = m.Append(m.scratch[:0], rec)
	m.started = true
}

// Continue makes what follows the answer to a continuation: start comes again,
// with the same id, and the response is not over any more. All there was before
// the continuation must have been primed.
func (m *Message) Continue() { m.started, m.done = false, false }

// Done reports whether the response is over: its last frames, [DONE] among
// them, were appended. The message may still go on in another response.
func (m *Message) Done() bool { return m.done }

// Start appends the start frame, if it has not been written: for a server that
// answers before the first record is there.
func (m *Message) Start(dst []byte) []byte {
	m.begin(dst)
	m.start()
	return m.end(0)
}

func (m *Message) record(rec chunk.Record) {
	if !m.begun {
		m.begun, m.session = true, rec.Session
	}
	m.start()
	if rec.Type == chunk.TypeTextDelta {
		var o object
		if o.read(rec.Data) {
			if piece, ok := o.text("delta"); ok && len(piece) > 0 {
				m.text(&m.own, rec.Seq, piece)
			}
		}
	}
	if rec.Type.Terminal() {
		m.close(&m.own)
		m.done = true
		m.finish("stop")
	}
}

package kortyx

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/dialect"
)

// Options configures a Writer.
type Options struct {
	// State is the custom state of the session before the turn, to which the patches of the turn apply: that of its snapshot, {} if that has none. nil means that
	// it is not known. Then patches are carried, unless the turn is the first of the session.
	State chunk.Value
}

// Writer writes one turn of a session. It implements dialect.Writer.
type Writer struct {
	frames dialect.Frames

	session chunk.Session // of the turn
	begun   bool          // the first record was handled: session is set
	turn    bool          // a record of that session was handled
	turns   dialect.Turns
	started bool // the session chunk of the response was written
	ended   bool // the end of the response was written
	over    bool // another turn began
	outcome outcome

	members chunk.Members // of the record at hand
	own     agent
	agents  map[string]*agent // sub-agents, by session
	runID   []byte            // of the latest run, as the content of a JSON string

	block   block
	head    []byte // of a frame that continues the open text
	headAt  chunk.Seq
	scratch []byte

	calls      map[callKey]call         // without an outcome
	denied     map[string]chunk.Ordinal // calls whose denial was written as their outcome
	children   map[string]chunk.Ordinal // running sub-agents
	checkpoint []byte                   // id of the last checkpoint that was not written, nil for none

	checkpoints int64   // of the turn so far
	saved       []saved // the latest maxSaved checkpoints of the turn
	state       customState
	data        sentData
	dropped     int64
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

// agent is the position of an agent.
type agent struct {
	epoch   chunk.Epoch
	ordinal chunk.Ordinal
	step    int64 // highest step it reached
	pieces  dialect.DeltaReader
}

// callKey identifies a call; agent is "" for the session of the turn.
type callKey struct{ agent, id string }

type call struct {
	at        chunk.Ordinal // of its first record
	asked     bool          // a user must approve it
	delegated bool          // a sub-agent executes it
}

// saved is a checkpoint.
type saved struct {
	id string
	at chunk.Seq
}

const maxSaved = 256

// NewWriter returns a writer for the turn whose first record is passed to it first.
func NewWriter(opt Options) *Writer {
	return &Writer{
		frames: dialect.Frames{IDAfter: true}, state: customState{doc: opt.State},
	}
}

// Append appends the frames of rec, see dialect.Writer.
func (w *Writer) Append(dst []byte, rec chunk.Record) []byte {
	if dst, ok := w.more(dst, &rec); ok {
		return dst
	}
	w.frames.Begin(dst, rec.Cursor())
	w.record(&rec)
	return w.frames.End()
}

// Hide is Append for a record that is hidden from the client, see dialect.Writer.
func (w *Writer) Hide(dst []byte, rec chunk.Record) []byte {
	if w.begun && rec.Session != w.session {
		return dst // nothing of a sub-agent continues a text
	}
	w.frames.Begin(dst, rec.Cursor())
	it := item{rec: rec}
	if !rec.Type.Control() && w.read(&it) && !w.ended {
		w.delegation(&it)
		if w.endsBlock(&it, true) {
			w.closeBlock()
		}
	}
	return w.frames.End()
}

// Resume begins another response of the turn, see dialect.Writer. Besides the session it has the custom state and the structured data that is not final: a client
// that comes from another dialect does not have them, and those that have them do not change.
func (w *Writer) Resume(dst []byte) []byte {
	w.frames.Begin(dst, chunk.Cursor{})
	w.started, w.ended = false, false
	if w.begun {
		w.start()
		w.restate()
	}
	return w.frames.End()
}

// Done reports whether the response is over, see dialect.Writer.
func (w *Writer) Done() bool { return w.ended }

// Dropped returns the number of pieces of structured data and of changes of the custom state that were not written, because Kortyx's clients stop at them.
func (w *Writer) Dropped() int64 { return w.dropped }

// item is a record with its parsed members.
type item struct {
	*chunk.Members // nil for a piece of a block

	rec   chunk.Record
	agent *agent
	child bool // of a sub-agent
	known bool // the chunk schema has the type
	step  int64
	kind  dialect.Block // of which it is a piece, dialect.NoBlock for none
	piece []byte        // content of a JSON string
}

// content returns the content of a string member, still escaped, nil if it is missing.
func (it *item) content(name string) []byte { return rawjson.Text(it.Get(name)).Content() }

// is reports whether a member is true.
func (it *item) is(name string) bool { return string(it.Get(name)) == "true" }

// json returns the chunk.
func (it *item) json() []byte {
	if it.Members == nil {
		return it.rec.Data
	}
	return it.JSON()
}

func (it *item) key() callKey {
	key := callKey{id: it.Text("toolCallId")}
	if it.child {
		key.agent = it.rec.Session.ID
	}
	return key
}

// read finds the agent of a record and parses the record. It reports false for a record that changes nothing: it follows the turn, was handled before, is of a
// fenced writer, or is malformed.
func (w *Writer) read(it *item) bool {
	rec := &it.rec
	if w.over {
		return false
	}
	if !w.begun {
		w.begun, w.session = true, rec.Session
		if w.state.doc == nil {
			w.state.doc, w.state.lost = chunk.Value(`{}`), rec.Ordinal > 1
		}
	}
	it.agent, it.child = &w.own, rec.Session != w.session
	if it.child {
		if it.agent = w.agents[rec.Session.ID]; it.agent == nil {
			it.agent = &agent{}
			if w.agents == nil {
				w.agents = make(map[string]*agent)
			}
			w.agents[rec.Session.ID] = it.agent
		}
	}
	if rec.Epoch < it.agent.epoch || rec.Ordinal > 0 && rec.Ordinal <= it.agent.ordinal {
		return false
	}
	it.agent.epoch, it.agent.ordinal = rec.Epoch, rec.Ordinal
	if it.kind, it.step, it.piece = it.agent.pieces.Read(rec); it.kind != dialect.NoBlock {
		it.known = true
		return true
	}
	if w.members.Read(rec.Data) != nil {
		return false
	}
	it.Members = &w.members
	it.step, _ = dialect.Digits(it.Get("step"))
	var kind chunk.Type
	kind, it.known = it.Type()
	return kind == rec.Type
}

// record writes the frames of a record.
func (w *Writer) record(rec *chunk.Record) {
	it := item{rec: *rec}
	if !w.read(&it) {
		return
	}
	if !it.child {
		if opens, _ := w.turns.Opens(&it.rec); opens && w.turn {
			w.otherTurn()
			return
		}
		w.turn = true
	}
	resumed := w.isResumedBy(&it)
	if w.ended {
		if !resumed {
			return
		}
		w.ended, w.started = false, false
	}
	w.start()
	switch {
	case it.rec.Type.Control():
		w.control(&it)
	case it.child:
		w.childChunk(&it)
	default:
		w.delegation(&it)
		if w.endsBlock(&it, false) {
			w.closeBlock()
		}
		w.chunk(&it)
	}
}

// start begins the response.
func (w *Writer) start() {
	if w.started {
		return
	}
	w.started = true
	w.frames.Open("session")
	w.frames.String("sessionId", w.session.ID)
	w.frames.Shut()
}

// end ends the response.
func (w *Writer) end() {
	w.closeBlock()
	if w.checkpoint != nil && w.outcome != failed {
		w.frames.Open("checkpoint")
		w.frames.Content("id", w.checkpoint)
		w.frames.String("sessionId", w.session.ID)
		w.frames.Name("turnIndex")
		w.frames.Dst = appendInt(w.frames.Dst, w.checkpoints-1)
		w.frames.Shut()
		w.checkpoint = nil
	}
	w.frames.Open("done")
	w.frames.Shut()
	w.frames.Identify() // a client reads nothing after [DONE]
	w.frames.Mark("[DONE]")
	w.ended = true
}

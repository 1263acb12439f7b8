package mastra

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/dialect"
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
	cfg     WriterConfig
	frames  dialect.Frames
	scratch []byte // frames that are discarded or framed differently

	session chunk.Session
	own     speaker
	agents  map[string]*speaker // sub-agents, by session
	rec     chunk.Record        // at hand
	item    item                // the same
	members chunk.Members       // the same
	names   map[string]string   // of tools

	begun    bool // the first record was handled: session is set
	turns    dialect.Turns
	opened   bool // turns has a record
	started  bool // start was written
	closed   bool // the response has ended; content is skipped until the answer is resumed
	ending   bool // the record at hand ended it
	done     bool // closed, and no response was begun since
	over     bool // another turn began: no later record belongs to this one
	expected bool // a chunk ended the answer, and the control record for the same reason is still to come
	state    runState
	response int // number of the response

	head   []byte // of a frame that continues the open text
	headAt int    // number of its block
}

// runState is the state of the latest run.
type runState int

const (
	running runState = iota
	waiting
	stopped
	completed
	broke
)

// NewWriter returns a Writer of a turn, before its first record.
func NewWriter(cfg WriterConfig) *Writer {
	return &Writer{cfg: cfg, frames: dialect.Frames{IDAfter: true}, response: 1}
}

// Append appends the frames of rec, the next record of the session or of its tree. Some records have no frame. The cursor of rec follows its last chunk as an
// event of its own. A malformed record has no frame.
func (w *Writer) Append(dst []byte, rec chunk.Record) []byte {
	if dst, ok := w.more(dst, &rec); ok {
		return dst
	}
	return w.frame(dst, rec, false)
}

// Hide is Append for a record whose content the client must not get. It writes at most the end of the text that the record ends.
func (w *Writer) Hide(dst []byte, rec chunk.Record) []byte { return w.frame(dst, rec, true) }

// Resume begins another response, for a client that has the records so far, with start, and begins an open text again: the client may be another one than before,
// and the AI SDK fails at a piece of a text without its start. Arguments that stream are not begun again: @mastra/client-js would keep those of the first start.
func (w *Writer) Resume(dst []byte) []byte {
	w.done, w.started = false, true
	if w.own.workflow || w.own.network {
		return dst // its responses have no start
	}
	return w.events(dst, func() {
		w.start(&w.own)
		if w.own.block != dialect.NoBlock {
			w.openBlock(&w.own, "-start")
			w.shut(&w.own)
		}
	})
}

// Done reports whether the response is over: its last frames were appended. Another response may continue the turn.
func (w *Writer) Done() bool { return w.done }

// endResponse ends the response with the record at hand.
func (w *Writer) endResponse() { w.closed, w.ending, w.done = true, true, true }

// frame appends the frames of a record.
func (w *Writer) frame(dst []byte, rec chunk.Record, hidden bool) []byte {
	w.rec = rec
	write := func() { w.record(&w.rec) }
	if hidden {
		write = func() { w.hide(&w.rec) }
	}
	dst = w.events(dst, write)
	w.rec, w.item = chunk.Record{}, item{} // they may hold memory of the caller
	return dst
}

// events appends the frames that write writes.
func (w *Writer) events(dst []byte, write func()) []byte {
	if w.cfg.Framing == Separated {
		w.scratch = w.eventsOf(w.scratch[:0], write)
		return separate(dst, w.scratch)
	}
	return w.eventsOf(dst, write)
}

func (w *Writer) eventsOf(dst []byte, write func()) []byte {
	f, at := &w.frames, w.rec.Cursor()
	f.Begin(dst, at)
	write()
	if w.ending {
		w.ending = false
		if len(f.Dst) == len(dst) && at.Seq > 0 {
			// Without a cursor the client would continue before this record, and get the end again.
			f.Dst = append(at.Append(append(f.Dst, "id: "...)), "\n\n"...)
		}
		f.Identify() // clients stop reading at [DONE]
		f.Mark("[DONE]")
	}
	return f.End()
}

// separate appends the chunks of events with a separator after each.
func separate(dst, events []byte) []byte {
	const data, mark = "data: ", '\x1e'
	for len(events) > 0 {
		n := lineEnd(events)
		if line := events[:n]; len(line) > len(data) && line[len(data)] == '{' && string(line[:len(data)]) == data {
			dst = append(append(dst, line[len(data):]...), mark)
		}
		events = events[min(n+2, len(events)):]
	}
	return dst
}

// lineEnd returns the length of the first line.
func lineEnd(text []byte) int {
	for i, c := range text {
		if c == '\n' {
			return i
		}
	}
	return len(text)
}

// speaker is an agent whose records are written: that of the session, or a sub-agent.
type speaker struct {
	session string
	parent  *speaker // nil for that of the session, and for a sub-agent that was not announced
	callID  string   // of the call of the parent that started it
	kind    string   // name of its definition

	// run is the id of its run, as the content of a JSON string. That of a sub-agent is its session: clients put the chunks of one run together, and its runs are
	// one delegation.
	run []byte

	epoch   chunk.Epoch
	ordinal chunk.Ordinal
	step    int64 // highest step it reached

	pieces  dialect.DeltaReader
	block   dialect.Block // that is open
	blocks  int           // number of blocks so far
	blockAt []chunk.Ordinal
	thought []byte // text of the open block of reasoning, escaped as in the records

	hidden dialect.HiddenCalls

	stepping bool         // step-start was written, step-finish was not
	pending  *pendingStep // whose step-start is still to be written
	steps    []stepTotal  // that ended

	calls     map[string]*toolCall // by id, those of earlier steps without an outcome
	completed []string             // ids of those with one
	done      map[string]doneCall  // those of earlier steps
	openCalls int                  // that have no outcome and are shown
	children  int                  // sub-agents that have not ended

	ended     bool   // a sub-agent whose finish was written
	workflow  bool   // it wrote the chunks of a workflow
	network   bool   // it wrote the chunks of a network, which have its steps, calls and end too
	executing string // session of what the network runs …
	runs      string // … and the event of its chunks
	event     string // of a sub-agent that a network runs: the start of the types of its chunks
	workStep  string // step of the workflow whose result was written last
	suspended bool   // a step of the workflow waits for a user
	output    []byte // of a workflow
	outputAt  chunk.Ordinal
	failure   string // text of the last error
	failureAt chunk.Ordinal
	tripped   bool // a guard stopped it
}

// isOwn reports whether sp is the agent of the session.
func (w *Writer) isOwn(sp *speaker) bool { return sp == &w.own }

// shown reports whether chunks of sp can be written: a sub-agent must have a parent.
func (w *Writer) shown(sp *speaker) bool { return w.isOwn(sp) || sp.parent != nil }

// item is a record with its parsed members.
type item struct {
	*chunk.Members // empty for a piece of a block

	rec   *chunk.Record
	sp    *speaker
	step  int64
	kind  dialect.Block // of which it is a piece, dialect.NoBlock for none
	piece []byte        // content of a JSON string
}

// noMembers has the members of a piece.
var noMembers chunk.Members

// content returns the content of a string member, still escaped.
func (it *item) content(name string) []byte {
	v := it.Get(name)
	if len(v) < 2 || v[0] != '"' {
		return nil
	}
	return v[1 : len(v)-1]
}

// text returns a string member in WTF-8, nil if it is missing. It may be a part of the record.
func (it *item) text(name string) []byte {
	v := it.content(name)
	if v == nil {
		return nil
	}
	return rawjson.Unescaped(v)
}

// is reports whether a member is true.
func (it *item) is(name string) bool { return string(it.Get(name)) == "true" }

// record writes rec. After the end of a response it only looks for the record that resumes the answer.
func (w *Writer) record(rec *chunk.Record) {
	sp := w.speaker(rec)
	if sp == nil {
		return
	}
	it := &w.item
	*it = item{rec: rec, sp: sp}
	if !w.read(it) {
		return
	}
	if w.isOwn(sp) && w.opens(rec) {
		w.nextTurn()
		return
	}
	w.resume(it)
	switch {
	case rec.Type.Control():
		w.control(it)
	case !w.closed && w.shown(sp):
		w.write(it)
	}
}

// speaker returns the agent of rec, nil if rec changes nothing: it follows the turn, was handled before, or is of a fenced writer.
func (w *Writer) speaker(rec *chunk.Record) *speaker {
	if w.over {
		return nil
	}
	if !w.begun {
		w.begun, w.session, w.own.session = true, rec.Session, rec.Session.ID
	}
	sp := &w.own
	if rec.Session != w.session {
		sp = w.subAgent(rec.Session.ID)
	}
	if rec.Epoch < sp.epoch || rec.Ordinal > 0 && rec.Ordinal <= sp.ordinal {
		return nil
	}
	sp.epoch, sp.ordinal = rec.Epoch, rec.Ordinal
	return sp
}

// read parses the record. It reports false for a record that is malformed.
func (w *Writer) read(it *item) bool {
	if it.kind, it.step, it.piece = it.sp.pieces.Read(it.rec); it.kind != dialect.NoBlock {
		it.Members = &noMembers
		return true
	}
	it.Members = &w.members
	if it.Read(it.rec.Data) != nil {
		return false
	}
	it.step, _ = dialect.Digits(it.Get("step"))
	typ, _ := it.Type()
	return typ == it.rec.Type
}

// write writes the chunks of a record that is not a control record.
func (w *Writer) write(it *item) {
	if _, known := it.Type(); !known && it.kind == dialect.NoBlock {
		return // of a type that this build does not know
	}
	w.stepOf(it)
	if it.kind != dialect.NoBlock {
		w.text(it, it.kind, it.piece)
		return
	}
	switch it.rec.Type {
	case chunk.TypeTextDelta:
		w.text(it, dialect.TextBlock, it.content("delta"))
	case chunk.TypeThinking:
		w.think(it)
	case chunk.TypeStepStart:
		w.stepStart(it)
	case chunk.TypeStepEnd:
		w.stepEnd(it)
	case chunk.TypeToolArgStreamStart, chunk.TypeToolArgStreamDelta, chunk.TypeToolArgStreamEnd, chunk.TypeToolStart, chunk.TypeToolEnd,
		chunk.TypeToolInputError, chunk.TypeToolOutputError, chunk.TypeToolApprovalRequest, chunk.TypeToolApprovalResponse:
		w.tool(it)
	case chunk.TypeSubagentStart:
		w.subagentStart(it)
	case chunk.TypeSubagentEnd:
		w.subagentEnd(it)
	case chunk.TypeFile:
		w.file(it)
	case chunk.TypeSourceURL:
		w.source(it, "url")
	case chunk.TypeSourceDocument:
		w.source(it, "document")
	case chunk.TypeCustom:
		w.custom(it)
	case chunk.TypeOutput:
		w.output(it.sp, it.Get("output"))
	case chunk.TypeError:
		w.error(it)
	case chunk.TypeRunInterrupted:
		w.interrupted(it)
	default:
		w.notice(it)
	}
}

// more appends the frames of a record that only continues the open text, as most records do. It reports false for other records. The frames are those that
// Append would write without it.
func (w *Writer) more(dst []byte, rec *chunk.Record) ([]byte, bool) {
	sp := &w.own
	if sp.block == dialect.NoBlock || rec.Ordinal != sp.ordinal+1 || rec.Epoch != sp.epoch || rec.Session != w.session || w.closed || w.cfg.Framing != Events {
		return dst, false
	}
	kind, step, piece := sp.pieces.Read(rec)
	if kind != sp.block || step > sp.step || len(piece) == 0 {
		return dst, false
	}
	if w.headAt != sp.blocks {
		w.frames.Begin(w.head[:0], chunk.Cursor{})
		w.delta(sp, nil)
		w.head, w.headAt = w.frames.End(), sp.blocks
		w.head = w.head[:len(w.head)-len(deltaEnd)]
	}
	sp.ordinal = rec.Ordinal
	if kind == dialect.ReasoningBlock {
		sp.thought = append(sp.thought, piece...)
	}
	dst = append(dst, w.head...)
	dst = append(dst, piece...)
	dst = append(dst, deltaEnd...)
	at := rec.Cursor()
	if at.Seq == 0 {
		return dst, true
	}
	dst = append(dst, "id: "...)
	dst = at.Append(dst)
	return append(dst, "\n\n"...), true
}

// hide handles a hidden record.
func (w *Writer) hide(rec *chunk.Record) {
	if rec.Session != w.session && w.agents[rec.Session.ID] == nil {
		return // nothing of this sub-agent is shown
	}
	sp := w.speaker(rec)
	if sp == nil || rec.Type.Control() {
		return
	}
	if w.isOwn(sp) {
		w.opens(rec)
	}
	it := &w.item
	*it = item{rec: rec, sp: sp}
	if w.closed || !w.read(it) {
		return
	}
	if it.step > sp.step {
		w.close(sp)
		sp.step = it.step
	}
	if ends, _ := sp.hidden.Hide(rec, it.Members, it.kind, it.piece); ends {
		w.close(sp)
	}
}

package agui

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/dialect"
)

// agentState is the state of an agent whose records are written: the session's own, or a sub-agent.
type agentState struct {
	agent   string // session of a sub-agent, "" for the session's own
	tag     []byte // subagentRunId, as the content of a JSON string
	epoch   chunk.Epoch
	ordinal chunk.Ordinal
	step    int64 // highest step it reached

	stepName []byte // of the open STEP_STARTED, nil for none; the content of a JSON string

	// The step of the answer that is written, as the snapshot has it: one message there, several here.
	first   chunk.Seq // of the record that opened it, 0 if the next part opens one
	count   int       // of messages in it
	carrier int       // number of the message that calls are attached to, noCarrier if the next call begins one

	// At most one block of text is open.
	block   dialect.Block
	blockOf messageRef
	pieces  dialect.DeltaReader
	thought []byte // text of the open block of reasoning, escaped as in the records

	paused bool // waits for users

	hidden dialect.HiddenCalls

	child child // of a sub-agent
}

const noCarrier = -1

func (a *agentState) own() bool { return a.agent == "" }

// closeStep ends the step of the answer: the next part is in another one.
func (a *agentState) closeStep() { a.first = 0 }

// openStep opens the step of the answer unless it is open. Every record that adds a part to the snapshot calls it.
func (a *agentState) openStep(rec *chunk.Record) {
	if a.first == 0 {
		a.first, a.count, a.carrier = rec.Seq, 0, noCarrier
	}
}

// newMessage returns a new message of the step.
func (a *agentState) newMessage(rec *chunk.Record) messageRef {
	a.openStep(rec)
	ref := messageRef{a.first, a.count}
	a.count++
	a.carrier = noCarrier
	return ref
}

// carrierOf returns the message that a new call is attached to: the text before it in the step, or the message of the calls before it, or a new one.
func (a *agentState) carrierOf(rec *chunk.Record) messageRef {
	a.openStep(rec)
	if a.carrier == noCarrier {
		ref := a.newMessage(rec)
		a.carrier = ref.n
	}
	return messageRef{a.first, a.carrier}
}

// release frees the buffers of an agent without an open block: most sub-agents write nothing more after their end, and a turn may have thousands of them.
func (a *agentState) release() { a.pieces, a.thought = dialect.DeltaReader{}, nil }

// item is a record with its parsed members.
type item struct {
	*chunk.Members // empty for a piece of a block

	rec   *chunk.Record
	by    *agentState
	step  int64
	kind  dialect.Block // of which it is a piece, dialect.NoBlock for none
	piece []byte        // content of a JSON string
}

var noMembers chunk.Members // of a piece

// orNull returns a member of any type, null if it is missing.
func (it *item) orNull(name string) chunk.Value {
	if v := it.Get(name); v != nil {
		return v
	}
	return null
}

// content returns the content of a string member, still escaped.
func (it *item) content(name string) []byte {
	v := it.Get(name)
	if len(v) < 2 || v[0] != '"' {
		return nil
	}
	return v[1 : len(v)-1]
}

// is reports whether a member is true.
func (it *item) is(name string) bool { return string(it.Get(name)) == "true" }

// record writes rec. After the end of a response it writes nothing until the turn is resumed.
func (w *Writer) record(rec *chunk.Record) {
	by := w.agentState(rec)
	if by == nil || !by.own() && w.isDropped(rec) {
		return
	}
	it := item{rec: rec, by: by}
	if !w.read(&it) {
		return
	}
	defer func() { w.turn = w.turn || by.own() }()
	if w.isResumedBy(&it) {
		w.ended = false
		w.cutInputs()
	}
	if rec.Type.Control() {
		w.control(&it)
		return
	}
	if _, known := it.Type(); !known && it.kind == dialect.NoBlock {
		return
	}
	w.advance(&it)
	if w.ended || !w.isShown(&it) {
		return
	}
	w.start()
	w.writeChunk(&it)
}

// agentState returns the state of the agent of rec, nil if rec changes nothing: it follows the turn, was handled before, or is of a fenced writer.
func (w *Writer) agentState(rec *chunk.Record) *agentState {
	if w.over {
		return nil
	}
	if !w.begun {
		w.begun, w.session, w.thread = true, rec.Session, escaped(rec.Session.ID)
	}
	a := &w.own
	if rec.Session != w.session {
		a = w.subAgent(rec.Session.ID)
	}
	if rec.Epoch < a.epoch || rec.Ordinal > 0 && rec.Ordinal <= a.ordinal {
		return nil
	}
	a.epoch, a.ordinal = rec.Epoch, rec.Ordinal
	return a
}

// read parses the record. It reports false for a record that is malformed.
func (w *Writer) read(it *item) bool {
	if it.kind, it.step, it.piece = it.by.pieces.Read(it.rec); it.kind != dialect.NoBlock {
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

// advance handles the first chunk of a step.
func (w *Writer) advance(it *item) {
	if it.step > it.by.step {
		w.close(it.by)
		it.by.closeStep()
		it.by.step = it.step
		if it.by.own() {
			w.keepStreams()
		}
	}
}

// writeChunk writes the events of a record that is not a control record.
func (w *Writer) writeChunk(it *item) {
	if it.kind != dialect.NoBlock {
		w.write(it, it.kind, it.piece)
		return
	}
	switch it.rec.Type {
	case chunk.TypeTextDelta:
		w.write(it, dialect.TextBlock, it.content("delta"))
	case chunk.TypeThinking:
		w.think(it)
	case chunk.TypeStepStart:
		w.stepStart(it)
	case chunk.TypeStepEnd:
		w.stepEnd(it)
	case chunk.TypeFile:
		w.activity(it, ActivityFile, "url", "mediaType", "filename")
	case chunk.TypeSourceURL:
		w.activity(it, ActivitySource, "sourceId", "url", "title")
	case chunk.TypeSourceDocument:
		w.activity(it, ActivitySource, "sourceId", "mediaType", "title", "filename")
	case chunk.TypeStatePatch:
		w.statePatch(it)
	case chunk.TypeCustom:
		w.custom(it)
	case chunk.TypeSubagentStart:
		w.subagentStart(it)
	case chunk.TypeSubagentEnd:
		w.subagentEnd(it)
	default:
		if !w.writeTool(it) {
			w.lifecycle(it)
		}
	}
}

// hide handles a record that is hidden from the client: it ends the text that the record ends, and follows the steps of the answer, so that messages after it
// have the ids that they have in the snapshot.
func (w *Writer) hide(rec *chunk.Record) {
	if rec.Session != w.session && w.begun && w.agents[rec.Session.ID] == nil {
		return // nothing of this sub-agent is shown
	}
	by := w.agentState(rec)
	if by == nil || rec.Type.Control() || !by.own() && w.isDropped(rec) {
		return
	}
	it := item{rec: rec, by: by}
	if !w.read(&it) {
		return
	}
	if _, known := it.Type(); !known && it.kind == dialect.NoBlock {
		return
	}
	w.advance(&it)
	if w.ended {
		return
	}
	endsText, beginsCall := by.hidden.Hide(rec, it.Members, it.kind, it.piece)
	if endsText || rec.Type == chunk.TypeRunInterrupted {
		w.close(by)
	}
	switch {
	case rec.Type == chunk.TypeStepStart || rec.Type == chunk.TypeStepEnd:
		by.closeStep()
	case beginsCall || w.hidesPart(&it, endsText):
		by.openStep(rec)
	}
}

// hidesPart reports whether a hidden record adds a part that is not a call to the snapshot.
func (w *Writer) hidesPart(it *item, endsText bool) bool {
	switch it.rec.Type {
	case chunk.TypeTextDelta, chunk.TypeThinking:
		return endsText
	case chunk.TypeFile, chunk.TypeSourceURL, chunk.TypeSourceDocument:
		return true
	case chunk.TypeSubagentStart:
		return true
	case chunk.TypeCustom:
		return !it.by.own() || w.structuredPart(it) != noPart
	}
	return false
}

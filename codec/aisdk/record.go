package aisdk

import (
	"strconv"

	"github.com/tailrace/tailrace/chunk"
)

// speaker is an agent whose records are told: the message's own, or a sub-agent.
type speaker struct {
	agent   string // session of a sub-agent, "" for the message's own
	epoch   chunk.Epoch
	ordinal chunk.Ordinal
	step    int64 // highest step it reached

	// At most one block of text is open.
	block   block
	blockAt chunk.Seq // of its first delta
	pieces  pieces
	thought []byte // what the open block of reasoning says, as escaped as it came
}

func (sp *speaker) own() bool { return sp.agent == "" }

// item is a record with what was found in it.
type item struct {
	rec   chunk.Record
	sp    *speaker
	step  int64       // -1: it has none
	kind  block       // that it goes on with, noBlock for none
	piece []byte      // of that
	line  []byte      // the JSON, without line breaks
	obj   *object     // its members, if it is no piece
	c     chunk.Chunk // not of deltas, which are read without it
}

// record says what rec says. While the answer waits, or has ended, nothing is
// told, but for the end of a response that is open.
func (m *Message) record(rec *chunk.Record) {
	sp := m.speaker(rec)
	if sp == nil {
		return
	}
	if !m.idle {
		m.start()
	}
	it := item{rec: *rec, sp: sp, line: rec.Data, obj: &m.obj}
	if !m.read(&it) {
		return
	}
	if it.c.Body != nil && m.goesOn(&it) {
		m.idle, m.ended = false, false
		m.cutInputs()
	}
	if m.idle {
		m.aside(&it)
	} else {
		m.start()
		m.say(&it)
	}
	m.turn = m.turn || sp.own()
}

// aside takes a record that is not told.
func (m *Message) aside(it *item) {
	if !it.rec.Type.Control() {
		return
	}
	m.release()
	open, before := !m.ended, len(m.dst)
	m.concluded = false
	m.say(it)
	if !m.concluded || !open {
		m.dst, m.last = m.dst[:before], noFrame
	}
}

// speaker is who wrote rec, nil when rec changes nothing: it comes after the
// message, is filtered out, was seen, or is of a writer that was overtaken.
func (m *Message) speaker(rec *chunk.Record) *speaker {
	if m.over || m.filtered(rec) {
		return nil
	}
	m.belong(rec)
	sp := &m.own
	if rec.Session != m.meta.Session {
		sp = m.subAgent(rec.Session.ID)
	}
	if rec.Epoch < sp.epoch || rec.Ordinal > 0 && rec.Ordinal <= sp.ordinal {
		return nil
	}
	if sp.own() && rec.Ordinal != sp.ordinal+1 {
		m.steps.unclear = true
	}
	sp.epoch, sp.ordinal = rec.Epoch, rec.Ordinal
	m.meta.At = rec.Stored
	return sp
}

// belong makes the message one of the session of its first record.
func (m *Message) belong(rec *chunk.Record) {
	if !m.begun {
		m.begun, m.meta.Session, m.meta.Began = true, rec.Session, rec.Stored
	}
}

func (m *Message) filtered(rec *chunk.Record) bool {
	return m.opt.Filter != nil && !rec.Type.Control() && !m.opt.Filter(*rec)
}

// read finds what is in the record: of a delta its text alone, of others all. It
// reports false for a record that cannot be read.
func (m *Message) read(it *item) bool {
	it.obj.n = 0
	if it.kind, it.step, it.piece = it.sp.pieces.read(&it.rec); it.kind != noBlock {
		return true
	}
	switch it.rec.Type {
	case chunk.TypeTextDelta, chunk.TypeToolArgStreamDelta, chunk.TypeThinking:
		if it.obj.read(it.rec.Data) && it.obj.isDelta() {
			it.readStep()
			return true
		}
	}
	c, err := it.rec.Decode()
	if err != nil || c.Type() != it.rec.Type {
		return false
	}
	it.c, it.step = c, c.Step
	if it.obj.read(it.rec.Data) {
		return true
	}
	if m.canonical, err = c.AppendJSON(m.canonical[:0]); err != nil {
		return false
	}
	it.line = m.canonical
	it.obj.read(it.line) // members that have no room are none of the catalogue's
	return true
}

func (it *item) readStep() {
	n, err := strconv.ParseInt(string(it.obj.get("step")), 10, 64)
	if err != nil {
		n = -1
	}
	it.step = n
}

// say tells what is in a record.
func (m *Message) say(it *item) {
	if it.rec.Type.Control() {
		m.control(it)
		return
	}
	if _, opaque := it.c.Body.(chunk.Opaque); opaque {
		m.notKnown(it.rec.Type)
		return
	}
	if it.step > it.sp.step {
		m.close(it.sp)
		it.sp.step = it.step
	}
	if !it.sp.own() && !m.told(it) {
		return
	}
	if it.kind != noBlock {
		m.write(it, it.kind, it.piece)
		return
	}
	switch it.rec.Type {
	case chunk.TypeTextDelta:
		piece, _ := it.obj.text("delta")
		m.write(it, textBlock, piece)
	case chunk.TypeThinking:
		m.think(it)
	case chunk.TypeToolArgStreamDelta:
		m.toolArgsDelta(it)
	default:
		m.sayMore(it)
	}
}

func (m *Message) sayMore(it *item) {
	switch b := it.c.Body.(type) {
	case chunk.ToolArgStreamStart:
		m.toolArgsStart(it, b)
	case chunk.ToolStart:
		m.toolStart(it, b)
	case chunk.ToolEnd:
		m.toolEnd(it, b)
	case chunk.ToolInputError:
		m.toolInputError(it, b)
	case chunk.ToolOutputError:
		m.toolOutputError(it, b)
	case chunk.ToolApprovalRequest:
		m.approvalRequest(it, b)
	case chunk.ToolApprovalResponse:
		m.approvalResponse(it, b)
	case chunk.StepStart:
		m.stepStart(it)
	case chunk.StepEnd:
		m.stepEnd(it, b)
	case chunk.File:
		m.part(it, "file", "url", "mediaType")
	case chunk.SourceURL:
		m.part(it, "source-url", "sourceId", "url", "title")
	case chunk.SourceDocument:
		m.part(it, "source-document", "sourceId", "mediaType", "title", "filename")
	default:
		m.sayData(it)
	}
}

// notKnown tells of the first record of a type that has no place here.
func (m *Message) notKnown(t chunk.Type) {
	if m.opt.Unknown == nil || m.unknown[t] {
		return
	}
	if m.unknown == nil {
		m.unknown = make(map[chunk.Type]bool)
	}
	m.unknown[t] = true
	m.opt.Unknown(t)
}

// part tells a part that is complete as it is: members of the record under a
// chunk type.
func (m *Message) part(it *item, kind string, names ...string) {
	m.close(it.sp)
	m.speak(it)
	m.open(kind)
	m.members(it, names)
	m.shut()
}

// members writes those of the named members that the record has.
func (m *Message) members(it *item, names []string) {
	for _, name := range names {
		if v := it.obj.get(name); v != nil {
			m.guarded(name, v)
		}
	}
}

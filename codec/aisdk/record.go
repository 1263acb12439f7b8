package aisdk

import (
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
	*chunk.Members // none of a piece of a block

	rec   chunk.Record
	sp    *speaker
	step  int64
	kind  block  // of which it is a piece, noBlock for none
	piece []byte // content of a JSON string
}

// noMembers are those of a piece.
var noMembers chunk.Members

// orNull is a member that may be anything; one that is absent is null.
func (it *item) orNull(name string) chunk.Value {
	if v := it.Get(name); v != nil {
		return v
	}
	return null
}

// content is that of a member that is a string, still escaped.
func (it *item) content(name string) []byte {
	v := it.Get(name)
	return v[1 : len(v)-1]
}

// is reports whether a member is true.
func (it *item) is(name string) bool { return string(it.Get(name)) == "true" }

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
	it := item{rec: *rec, sp: sp}
	if !m.read(&it) {
		return
	}
	if m.goesOn(&it) {
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

// read finds what is in the record. It reports false for a record that cannot be
// read.
func (m *Message) read(it *item) bool {
	if it.kind, it.step, it.piece = it.sp.pieces.read(&it.rec); it.kind != noBlock {
		it.Members = &noMembers
		return true
	}
	it.Members = &m.members
	if it.Read(it.rec.Data) != nil {
		return false
	}
	it.step, _ = digits(it.Get("step"))
	typ, _ := it.Type()
	return typ == it.rec.Type
}

// say tells what is in a record.
func (m *Message) say(it *item) {
	if it.rec.Type.Control() {
		m.control(it)
		return
	}
	if _, known := it.Type(); !known && it.kind == noBlock {
		m.notKnown(it.rec.Type)
		return
	}
	if it.step > it.sp.step {
		m.close(it.sp)
		it.sp.step = it.step
	}
	switch {
	case !it.sp.own() && !m.told(it):
	case it.kind != noBlock:
		m.write(it, it.kind, it.piece)
	default:
		m.sayMore(it)
	}
}

func (m *Message) sayMore(it *item) {
	switch it.rec.Type {
	case chunk.TypeTextDelta:
		m.write(it, textBlock, it.content("delta"))
	case chunk.TypeThinking:
		m.think(it)
	case chunk.TypeToolArgStreamStart:
		m.toolArgsStart(it)
	case chunk.TypeToolArgStreamDelta:
		m.toolArgsDelta(it)
	case chunk.TypeToolStart:
		m.toolStart(it)
	case chunk.TypeToolEnd:
		m.toolEnd(it)
	case chunk.TypeToolInputError:
		m.toolInputError(it)
	case chunk.TypeToolOutputError:
		m.toolOutputError(it)
	case chunk.TypeToolApprovalRequest:
		m.approvalRequest(it)
	case chunk.TypeToolApprovalResponse:
		m.approvalResponse(it)
	case chunk.TypeStepStart:
		m.stepStart(it)
	case chunk.TypeStepEnd:
		m.stepEnd(it)
	case chunk.TypeFile:
		m.part(it, "file", "url", "mediaType")
	case chunk.TypeSourceURL:
		m.part(it, "source-url", "sourceId", "url", "title")
	case chunk.TypeSourceDocument:
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
	m.pass(it, names...)
	m.shut()
}

// pass writes those of the named members that the record has.
func (m *Message) pass(it *item, names ...string) {
	for _, name := range names {
		m.some(name, it.Get(name))
	}
}

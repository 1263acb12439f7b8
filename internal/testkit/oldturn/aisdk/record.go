package aisdk

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/dialect"
)

// agentState is the state of an agent whose records are written: the message's own, or a sub-agent.
type agentState struct {
	agent   string // session of a sub-agent, "" for the message's own
	epoch   chunk.Epoch
	ordinal chunk.Ordinal
	step    int64 // highest step it reached

	// At most one block of text is open.
	block   dialect.Block
	blockAt chunk.Seq // of its first delta
	pieces  dialect.DeltaReader
	thought []byte // text of the open block of reasoning, escaped as in the records

	hidden dialect.HiddenCalls
}

func (sp *agentState) own() bool { return sp.agent == "" }

// release frees the buffers of an agent without an open block: most sub-agents write nothing more after their end, and a turn may have thousands of them.
func (sp *agentState) release() { sp.pieces, sp.thought, sp.hidden = dialect.DeltaReader{}, nil, nil }

// item is a record with its parsed members.
type item struct {
	*chunk.Members // empty for a piece of a block

	rec   chunk.Record
	sp    *agentState
	step  int64
	kind  dialect.Block // of which it is a piece, dialect.NoBlock for none
	piece []byte        // content of a JSON string
}

// noMembers has the members of a piece.
var noMembers chunk.Members

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
	return v[1 : len(v)-1]
}

// is reports whether a member is true.
func (it *item) is(name string) bool { return string(it.Get(name)) == "true" }

// partMembers returns the members of the part that the chunk schema does not have.
func (it *item) partMembers() chunk.Part {
	if it.kind != dialect.NoBlock {
		return chunk.Part{} // of a piece, which has no other members
	}
	return chunk.PartOf([]chunk.Member{{Name: chunk.PartMember, Value: it.Get(chunk.PartMember)}})
}

// beginsPart reports whether a piece of text is a part, or belongs to one, even if it is empty.
func (it *item) beginsPart() bool {
	ui := it.partMembers()
	return ui.Begins || ui.ProviderMetadata != nil
}

// record writes rec. While the answer waits, or has ended, it writes only the end of an open response.
func (m *MessageWriter) record(rec *chunk.Record) {
	sp := m.agentState(rec)
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
	if m.isResumedBy(&it) {
		m.idle, m.ended = false, false
		m.cutInputs()
	}
	if m.idle {
		m.skipRecord(&it)
	} else {
		m.start()
		m.writeRecord(&it)
	}
	if c := m.completed; c != nil {
		m.completed = nil
		m.finish(c)
	}
	m.turn = m.turn || sp.own()
}

// skipRecord handles a record while the answer waits or has ended.
func (m *MessageWriter) skipRecord(it *item) {
	if !it.rec.Type.Control() {
		return
	}
	m.release()
	open, before := !m.ended, len(m.json.Dst)
	m.concluded = false
	m.writeRecord(it)
	if !m.concluded || !open {
		m.json.Dst, m.last = m.json.Dst[:before], noFrame
	}
}

// agentState returns the state of the agent of rec, nil if rec changes nothing: it follows the message, was handled before, or is of a
// fenced writer.
func (m *MessageWriter) agentState(rec *chunk.Record) *agentState {
	if m.over {
		return nil
	}
	m.bindSession(rec)
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
	m.meta.LastAt = rec.StoredAt
	return sp
}

// bindSession sets the session of the message to that of its first record.
func (m *MessageWriter) bindSession(rec *chunk.Record) {
	if !m.begun {
		m.begun, m.meta.Session, m.meta.StartedAt = true, rec.Session, rec.StoredAt
	}
}

// read parses the record. It reports false for a record that is malformed.
func (m *MessageWriter) read(it *item) bool {
	if it.kind, it.step, it.piece = it.sp.pieces.Read(&it.rec); it.kind != dialect.NoBlock {
		it.Members = &noMembers
		return true
	}
	it.Members = &m.members
	if it.Read(it.rec.Data) != nil {
		return false
	}
	it.step, _ = dialect.Digits(it.Get("step"))
	typ, _ := it.Type()
	return typ == it.rec.Type
}

// writeRecord writes the frames of a record.
func (m *MessageWriter) writeRecord(it *item) {
	if it.rec.Type.Control() {
		m.control(it)
		return
	}
	if _, known := it.Type(); !known && it.kind == dialect.NoBlock {
		return
	}
	if it.step > it.sp.step {
		m.close(it.sp)
		it.sp.step = it.step
	}
	switch {
	case !it.sp.own() && !m.isShown(it):
	case it.kind != dialect.NoBlock:
		m.write(it, it.kind, it.piece)
	default:
		m.writeChunk(it)
	}
}

func (m *MessageWriter) writeChunk(it *item) {
	switch it.rec.Type {
	case chunk.TypeTextDelta:
		m.write(it, dialect.TextBlock, it.content("delta"))
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
		m.writeData(it)
	}
}

// part writes a complete part: members of the record under a chunk type.
func (m *MessageWriter) part(it *item, kind string, names ...string) {
	m.close(it.sp)
	m.beginPart(it)
	m.open(kind)
	m.pass(it, names...)
	m.optional("providerMetadata", it.partMembers().ProviderMetadata)
	m.shut()
}

// pass writes the named members that the record has.
func (m *MessageWriter) pass(it *item, names ...string) {
	for _, name := range names {
		m.optional(name, it.Get(name))
	}
}

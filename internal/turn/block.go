package turn

import (
	"github.com/tailrace/tailrace/chunk"
)

// Block is the open text of an agent, of which there is at most one.
type Block struct {
	Kind BlockKind // NoBlock for none
	At   chunk.Seq // of its first piece
}

// text handles a piece of text, the content of a JSON string. An empty piece opens no text, see Rules.EmptyParts.
func (m *Machine) text(it *Item, kind BlockKind, piece []byte) {
	if len(piece) == 0 && !m.hasPart(it) {
		return
	}
	a := it.By
	if m.beginsPart(it) {
		m.closeBlock(a, it)
	}
	if a.Block.Kind != kind {
		m.closeBlock(a, it)
		a.Block = Block{Kind: kind, At: it.Rec.Seq}
		a.texts.thought = a.texts.thought[:0]
		a.openStep(it)
		m.blocks++
		m.emit(&Event{Kind: BlockOpen, Item: it})
	}
	if kind == ReasoningBlock {
		a.texts.thought = append(a.texts.thought, piece...)
	}
	if a.Own() {
		m.pieceAt = it.Rec.Ordinal
	}
	m.emit(&Event{Kind: BlockDelta, Item: it, Text: piece})
}

// hasPart reports whether a piece of a text counts although it is empty.
func (m *Machine) hasPart(it *Item) bool {
	if !m.rules.EmptyParts || it.IsPiece() || it.Rec.Type != chunk.TypeTextDelta && it.Rec.Type != chunk.TypeThinking {
		return false
	}
	part := it.Part()
	return part.Begins || part.ProviderMetadata != nil
}

// beginsPart reports whether a piece of a text ends the text before it.
func (m *Machine) beginsPart(it *Item) bool { return m.rules.EmptyParts && it.Part().Begins }

// think handles reasoning. A complete record closes the text; if pieces were streamed before, it may have the whole text, the rest, or no text.
func (m *Machine) think(it *Item) {
	piece := it.Content("content")
	if !it.Is("isComplete") {
		m.text(it, ReasoningBlock, piece)
		return
	}
	if it.By.Block.Kind == ReasoningBlock && !m.beginsPart(it) {
		piece = rest(it.By.texts.thought, piece)
	}
	m.text(it, ReasoningBlock, piece)
	if it.By.Block.Kind == ReasoningBlock {
		m.closeBlock(it.By, it)
	}
}

// ForgetHead makes the Machine ask for the DeltaHead of the open text again, because the printer writes other frames now.
func (m *Machine) ForgetHead() { m.more.of = 0 }

// CloseText ends the open text of the agent of a record, for a printer that writes something which ends it.
func (m *Machine) CloseText(it *Item) {
	e := m.event // the printer has it
	m.closeBlock(it.By, it)
	m.event = e
}

// closeBlock ends the open text of an agent. it may be nil.
func (m *Machine) closeBlock(a *Agent, it *Item) {
	if a.Block.Kind == NoBlock {
		return
	}
	m.emit(&Event{Kind: BlockClose, Item: it, Agent: a})
	a.Block.Kind = NoBlock
}

// continued is the frame of a piece of the open text of the session's agent, without the piece.
type continued struct {
	of         int // number of the text, 0 for none
	head, tail []byte
}

// write appends the frames of a record. Most records only continue the open text of the session's agent: for them it writes the frame that the printer would write,
// without asking it.
func (m *Machine) write(dst []byte, rec *chunk.Record) []byte {
	a := &m.own
	if a.Block.Kind == NoBlock || !m.open || m.ahead != nil || rec.Seq == 0 || rec.Ordinal != a.ordinal+1 || rec.Epoch != a.epoch || rec.Session != m.session {
		return m.handle(dst, rec)
	}
	kind, step, piece := a.texts.pieces.Read(rec)
	if kind != a.Block.Kind || step > a.Step || len(piece) == 0 || m.more.of != m.blocks && !m.prepare() {
		return m.handle(dst, rec)
	}
	a.ordinal, m.pieceAt = rec.Ordinal, rec.Ordinal
	if kind == ReasoningBlock {
		a.texts.thought = append(a.texts.thought, piece...)
	}
	switch {
	case len(m.more.tail) == 0: // nothing is written of this text
		return dst
	case m.out.IDAfter:
		dst = append(append(append(dst, m.more.head...), piece...), m.more.tail...)
		return append(rec.Cursor().Append(dst), "\n\n"...)
	}
	dst = append(rec.Cursor().Append(append(dst, "id: "...)), m.more.head...)
	return append(append(dst, piece...), m.more.tail...)
}

// handle appends the frames of a record that the printer writes.
func (m *Machine) handle(dst []byte, rec *chunk.Record) []byte {
	m.begin(dst, rec)
	m.record()
	return m.end()
}

// prepare prepares the frame of a piece. It reports false for a printer that has none.
func (m *Machine) prepare() bool {
	if m.deltas == nil {
		return false
	}
	head := m.more.head[:0]
	if !m.out.IDAfter {
		head = append(head, '\n') // after the id
	}
	m.out.Begin(head, chunk.Cursor{})
	m.more.tail = append(m.more.tail[:0], m.deltas.DeltaHead(&m.out, &m.own)...)
	if m.out.IDAfter && len(m.more.tail) > 0 {
		m.more.tail = append(m.more.tail, "id: "...)
	}
	m.more.head, m.more.of = m.out.End(), m.blocks
	return true
}

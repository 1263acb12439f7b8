package agui

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/dialect"
)

const contentEnd = "\"}\n\n"

func contentEvent(kind dialect.Block) string {
	if kind == dialect.TextBlock {
		return "TEXT_MESSAGE_CONTENT"
	}
	return "REASONING_MESSAGE_CONTENT"
}

// write writes a piece of text, the content of a JSON string. An empty piece opens no message.
func (w *Writer) write(it *item, kind dialect.Block, piece []byte) {
	if len(piece) == 0 {
		return
	}
	a := it.by
	if a.block != kind {
		w.close(a)
		a.block, a.blockOf, a.thought = kind, a.newMessage(it.rec), a.thought[:0]
		if kind == dialect.TextBlock {
			a.carrier = a.blockOf.n
		}
		w.reopen(a)
	}
	if kind == dialect.ReasoningBlock {
		a.thought = append(a.thought, piece...)
	}
	w.out.Open(contentEvent(kind))
	w.messageID("messageId", a.blockOf)
	w.out.Content("delta", piece)
	w.tag(a)
	w.out.Shut()
}

// more appends the event of a record that only continues the open message, as most records do. It reports false for other records. The event is the same
// that Append would write without it.
func (w *Writer) more(dst []byte, rec *chunk.Record) ([]byte, bool) {
	a := &w.own
	if a.block == dialect.NoBlock || !w.open || rec.Ordinal != a.ordinal+1 || rec.Epoch != a.epoch || rec.Session != w.session {
		return dst, false
	}
	kind, step, piece := a.pieces.Read(rec)
	if kind != a.block || step > a.step || len(piece) == 0 {
		return dst, false
	}
	if w.headOf != a.blockOf || len(w.head) == 0 {
		w.out.Begin(append(w.head[:0], '\n'), chunk.Cursor{})
		w.out.Open(contentEvent(kind))
		w.messageID("messageId", a.blockOf)
		w.out.Name("delta")
		w.head, w.headOf = append(w.out.End(), '"'), a.blockOf
	}
	a.ordinal = rec.Ordinal
	if kind == dialect.ReasoningBlock {
		a.thought = append(a.thought, piece...)
	}
	if rec.Seq > 0 {
		dst = append(dst, "id: "...)
		dst = rec.Cursor().Append(dst)
		dst = append(dst, w.head...)
	} else {
		dst = append(dst, w.head[1:]...)
	}
	dst = append(dst, piece...)
	return append(dst, contentEnd...), true
}

// think writes reasoning. A complete record closes the message; if pieces were streamed before, it may have the whole text, the rest, or no text.
func (w *Writer) think(it *item) {
	piece := it.content("content")
	if !it.is("isComplete") {
		w.write(it, dialect.ReasoningBlock, piece)
		return
	}
	if it.by.block == dialect.ReasoningBlock {
		piece = dialect.Rest(it.by.thought, piece)
	}
	w.write(it, dialect.ReasoningBlock, piece)
	if it.by.block == dialect.ReasoningBlock {
		w.close(it.by)
	}
}

// reopen writes the start of the open message of an agent.
func (w *Writer) reopen(a *agentState) {
	switch a.block {
	case dialect.TextBlock:
		w.out.Open("TEXT_MESSAGE_START")
		w.messageID("messageId", a.blockOf)
		w.out.Raw("role", []byte(`"assistant"`))
		w.tag(a)
		w.out.Shut()
	case dialect.ReasoningBlock:
		w.blockEvent("REASONING_START", a)
		w.out.Open("REASONING_MESSAGE_START")
		w.messageID("messageId", a.blockOf)
		w.out.Raw("role", []byte(`"reasoning"`))
		w.tag(a)
		w.out.Shut()
	case dialect.NoBlock:
	}
}

// close ends the open message of an agent.
func (w *Writer) close(a *agentState) {
	switch a.block {
	case dialect.TextBlock:
		w.blockEvent("TEXT_MESSAGE_END", a)
	case dialect.ReasoningBlock:
		w.blockEvent("REASONING_MESSAGE_END", a)
		w.blockEvent("REASONING_END", a)
	case dialect.NoBlock:
	}
	a.block = dialect.NoBlock
}

// blockEvent writes an event that has only the id of the open message.
func (w *Writer) blockEvent(kind string, a *agentState) {
	w.out.Open(kind)
	w.messageID("messageId", a.blockOf)
	w.tag(a)
	w.out.Shut()
}

package kortyx

import (
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/dialect"
)

// block is the open text of the agent. Reasoning is a block that is not written: it ends a text.
type block struct {
	kind dialect.Block
	at   chunk.Seq // of its first delta
	node []byte    // agentType, as the content of a JSON string
}

// more appends the frames of a record that only continues the open block, as most records do. It reports false for other records. The frames are the same that
// Append would write without it.
func (w *Writer) more(dst []byte, rec *chunk.Record) ([]byte, bool) {
	if w.block.kind == dialect.NoBlock || rec.Ordinal != w.own.ordinal+1 || rec.Epoch != w.own.epoch || rec.Session != w.session {
		return dst, false
	}
	kind, step, piece := w.own.pieces.Read(rec)
	if kind != w.block.kind || step > w.own.step || len(piece) == 0 {
		return dst, false
	}
	if kind == dialect.ReasoningBlock {
		w.own.ordinal = rec.Ordinal
		return dst, true
	}
	if w.headAt != w.block.at {
		w.frames.Begin(w.head[:0], chunk.Cursor{})
		w.openText("text-delta")
		w.frames.Dst = append(w.frames.Dst, `,"delta":"`...)
		w.head, w.headAt = w.frames.End(), w.block.at
	}
	w.own.ordinal = rec.Ordinal
	dst = append(dst, w.head...)
	dst = append(dst, piece...)
	dst = append(dst, "\"}\n\nid: "...)
	dst = rec.Cursor().Append(dst)
	return append(dst, "\n\n"...), true
}

// openText opens a chunk of the open text. Its ids depend on the log only, so all processes use the same ids.
func (w *Writer) openText(kind string) {
	w.frames.Open(kind)
	w.labels(w.block.node)
	w.frames.Dst = append(w.frames.Dst, `,"segmentId":"block-`...)
	w.frames.Dst = strconv.AppendUint(w.frames.Dst, uint64(w.block.at), 10)
	w.frames.Dst = append(w.frames.Dst, '"')
}

// labels writes the workflow node and the operation of a chunk: the type of the agent, and its run.
func (w *Writer) labels(node []byte) {
	if len(node) > 0 {
		w.frames.Content("node", node)
	}
	if len(w.runID) > 0 {
		w.frames.Content("opId", w.runID)
	}
}

// write writes a piece of text or reasoning, the content of a JSON string. An empty piece opens no block.
func (w *Writer) write(it *item, kind dialect.Block, piece []byte) {
	if len(piece) == 0 {
		return
	}
	if w.block.kind != kind {
		w.closeBlock()
		w.block = block{kind: kind, at: it.rec.Seq, node: append(w.block.node[:0], w.node(it)...)}
		if kind == dialect.TextBlock {
			w.openText("text-start")
			w.frames.Shut()
		}
	}
	if kind == dialect.TextBlock {
		w.openText("text-delta")
		w.frames.Content("delta", piece)
		w.frames.Shut()
	}
}

// node returns the type of the agent of a record, as the content of a JSON string.
func (w *Writer) node(it *item) []byte {
	if it.Members != nil {
		return it.content("agentType")
	}
	return rawjson.Text(rawjson.Get(it.rec.Data, "agentType")).Content()
}

// think handles reasoning. A complete record closes the block.
func (w *Writer) think(it *item, complete bool, piece []byte) {
	w.write(it, dialect.ReasoningBlock, piece)
	if complete && w.block.kind == dialect.ReasoningBlock {
		w.closeBlock()
	}
}

// closeBlock ends the open block.
func (w *Writer) closeBlock() {
	if w.block.kind == dialect.TextBlock {
		w.openText("text-end")
		w.frames.Shut()
	}
	w.block.kind = dialect.NoBlock
}

// endsBlock reports whether a record ends the open text, before its own chunks or in place of them, as in the snapshot.
func (w *Writer) endsBlock(it *item, hidden bool) bool {
	if it.step > w.own.step {
		w.own.step = it.step
		return true
	}
	if !hidden && (it.rec.Type == chunk.TypeTextDelta || it.rec.Type == chunk.TypeThinking) {
		return false // write closes a block of the other kind
	}
	return dialect.EndsText(&it.rec, it.Members, it.kind, it.piece)
}

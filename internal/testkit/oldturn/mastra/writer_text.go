package mastra

import (
	"strconv"

	"github.com/tailrace/tailrace/internal/testkit/oldturn/dialect"
)

// deltaEnd ends a text-delta or reasoning-delta of the agent of the session.
const deltaEnd = "\"}}\n\n"

// blockName returns the first word of the types of the chunks of a block.
func blockName(b dialect.Block) string {
	if b == dialect.TextBlock {
		return "text"
	}
	return "reasoning"
}

// text writes a piece of text, the content of a JSON string. An empty piece opens no block.
func (w *Writer) text(it *item, kind dialect.Block, piece []byte) {
	if len(piece) == 0 {
		return
	}
	sp := it.sp
	if sp.block != kind {
		w.close(sp)
		sp.block, sp.thought = kind, sp.thought[:0]
		sp.blocks++
		sp.blockAt = append(sp.blockAt, it.rec.Ordinal)
		w.openBlock(sp, "-start")
		w.shut(sp)
	}
	if kind == dialect.ReasoningBlock {
		sp.thought = append(sp.thought, piece...)
	}
	w.delta(sp, piece)
}

func (w *Writer) delta(sp *speaker, piece []byte) {
	w.openBlock(sp, "-delta")
	w.frames.Content("text", piece)
	w.shut(sp)
}

// think writes reasoning. A complete record closes the block; if pieces were streamed before, it may have the whole text, the rest, or no text.
func (w *Writer) think(it *item) {
	piece := it.content("content")
	if !it.is("isComplete") {
		w.text(it, dialect.ReasoningBlock, piece)
		return
	}
	if it.sp.block == dialect.ReasoningBlock {
		piece = dialect.Rest(it.sp.thought, piece)
	}
	w.text(it, dialect.ReasoningBlock, piece)
	if it.sp.block == dialect.ReasoningBlock {
		w.close(it.sp)
	}
}

// close ends the open block of an agent.
func (w *Writer) close(sp *speaker) {
	if sp.block == dialect.NoBlock {
		return
	}
	if !sp.routes() {
		w.openBlock(sp, "-end")
		w.shut(sp)
	}
	sp.block = dialect.NoBlock
}

// openBlock begins a chunk of the open block. Its id is its number among the blocks of the agent in the turn.
func (w *Writer) openBlock(sp *speaker, what string) {
	if sp.routes() {
		w.open(sp, "routing-agent-text"+what)
		if what == "-start" {
			w.frames.Content("runId", sp.run)
		}
		return
	}
	w.open(sp, blockName(sp.block)+what)
	w.frames.Dst = append(w.frames.Dst, `"id":"block-`...)
	w.frames.Dst = strconv.AppendInt(w.frames.Dst, int64(sp.blocks), 10)
	w.frames.Dst = append(w.frames.Dst, '"')
}

// routes reports whether the open block is a text of a network, which has chunks of its own for it, without an end.
func (sp *speaker) routes() bool { return sp.network && sp.block == dialect.TextBlock }

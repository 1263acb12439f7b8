package aisdk

import (
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/dialect"
)

// kinds are the chunks of a block.
type kinds struct{ start, delta, end string }

func kindsOf(b dialect.Block) kinds {
	if b == dialect.TextBlock {
		return kinds{"text-start", "text-delta", "text-end"}
	}
	return kinds{"reasoning-start", "reasoning-delta", "reasoning-end"}
}

// write writes a piece of text, the content of a JSON string. An empty piece opens no block, unless the record has members of the part.
func (m *MessageWriter) write(it *item, kind dialect.Block, piece []byte) {
	if len(piece) == 0 && !it.beginsPart() {
		return
	}
	ui := it.partMembers()
	sp := it.sp
	if ui.Begins {
		m.close(sp)
	}
	key := deltaKey{sp, sp.blockAt}
	if sp.block != kind {
		m.close(sp)
		m.beginPart(it)
		sp.block, sp.blockAt, sp.thought = kind, it.rec.Seq, sp.thought[:0]
		m.open(kindsOf(kind).start)
		m.blockID(sp)
		m.shut()
		key.at = sp.blockAt
	}
	m.markVisible(it)
	if kind == dialect.ReasoningBlock {
		sp.thought = append(sp.thought, piece...)
	}
	if ui.ProviderMetadata == nil && m.grow(key, piece) {
		return
	}
	m.open(kindsOf(kind).delta)
	m.blockID(sp)
	if ui.ProviderMetadata != nil {
		m.sanitized("providerMetadata", ui.ProviderMetadata)
	}
	m.delta("delta", piece, key)
}

// more appends the frame of a record that only continues the open block, as most records do. It reports false for other records. The frame is the same
// that Append would write without it.
func (m *MessageWriter) more(dst []byte, rec *chunk.Record) ([]byte, bool) {
	sp := &m.own
	if sp.block == dialect.NoBlock || rec.Ordinal != sp.ordinal+1 || rec.Epoch != sp.epoch || rec.Session != m.meta.Session || !m.started || m.merge {
		return dst, false
	}
	kind, step, piece := sp.pieces.Read(rec)
	if kind != sp.block || step > sp.step || len(piece) == 0 {
		return dst, false
	}
	if m.headAt != sp.blockAt {
		m.begin(m.head[:0], chunk.Cursor{})
		m.json.Dst = append(m.json.Dst, '\n')
		m.open(kindsOf(kind).delta)
		m.blockID(sp)
		m.json.Dst = append(m.json.Dst, `,"delta":"`...)
		m.head, m.headAt = m.end(), sp.blockAt
	}
	sp.ordinal, m.steps.producedAt, m.meta.LastAt = rec.Ordinal, rec.Ordinal, rec.StoredAt
	if kind == dialect.ReasoningBlock {
		sp.thought = append(sp.thought, piece...)
	}
	dst = append(dst, "id: "...)
	dst = rec.Cursor().Append(dst)
	dst = append(dst, m.head...)
	dst = append(dst, piece...)
	return append(dst, deltaEnd...), true
}

// think writes reasoning. A complete record closes the block; if pieces were streamed before, it may have the whole text, the rest, or no text.
func (m *MessageWriter) think(it *item) {
	piece := it.content("content")
	if !it.is("isComplete") {
		m.write(it, dialect.ReasoningBlock, piece)
		return
	}
	if it.sp.block == dialect.ReasoningBlock && !it.partMembers().Begins {
		piece = dialect.Rest(it.sp.thought, piece)
	}
	m.write(it, dialect.ReasoningBlock, piece)
	if it.sp.block == dialect.ReasoningBlock {
		m.close(it.sp)
	}
}

// close ends the open block of an agent.
func (m *MessageWriter) close(sp *agentState) {
	if sp.block == dialect.NoBlock {
		return
	}
	m.open(kindsOf(sp.block).end)
	m.blockID(sp)
	m.shut()
	sp.block = dialect.NoBlock
}

// closeAll ends every open block. finish-step makes clients of version 6 discard the open blocks of all agents.
func (m *MessageWriter) closeAll() {
	m.close(&m.own)
	for _, sp := range m.order {
		m.close(sp)
	}
}

// blockID writes the id of the open block. It depends on the log only, so all edges use the same id.
func (m *MessageWriter) blockID(sp *agentState) {
	m.json.Dst = append(m.json.Dst, `,"id":"`...)
	m.json.Dst = append(m.json.Dst, byte(sp.block))
	m.json.Dst = strconv.AppendUint(m.json.Dst, uint64(sp.blockAt), 10)
	if !sp.own() {
		m.json.Dst = append(m.json.Dst, '-')
		m.json.Dst = append(m.json.Dst, sp.agent...) // an id has no character that JSON or SSE escapes, see subjects.CheckID
	}
	m.json.Dst = append(m.json.Dst, '"')
}

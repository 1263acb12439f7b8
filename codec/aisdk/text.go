package aisdk

import (
	"bytes"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
)

// block is the kind of an open block, and the letter that its id begins with.
type block byte

const (
	noBlock        block = 0
	textBlock      block = 't'
	reasoningBlock block = 'r'
)

// kinds are the chunks of a block.
type kinds struct{ start, delta, end string }

func (b block) kinds() kinds {
	if b == textBlock {
		return kinds{"text-start", "text-delta", "text-end"}
	}
	return kinds{"reasoning-start", "reasoning-delta", "reasoning-end"}
}

// write tells a piece of text, the content of a JSON string. An empty piece opens
// nothing.
func (m *Message) write(it *item, kind block, piece []byte) {
	if len(piece) == 0 {
		return
	}
	sp := it.sp
	key := deltaKey{sp, sp.blockAt}
	if sp.block != kind {
		m.close(sp)
		m.speak(it)
		sp.block, sp.blockAt, sp.thought = kind, it.rec.Seq, sp.thought[:0]
		m.open(kind.kinds().start)
		m.blockID(sp)
		m.shut()
		key.at = sp.blockAt
	}
	m.produced(it)
	if kind == reasoningBlock {
		sp.thought = append(sp.thought, piece...)
	}
	if m.grow(key, piece) {
		return
	}
	m.open(kind.kinds().delta)
	m.blockID(sp)
	m.delta("delta", piece, key)
}

// more appends the frame of a record that goes on with the open block and does
// nothing else. Most records are such; all others take the long way, and this one
// gives what that gives.
func (m *Message) more(dst []byte, rec *chunk.Record) ([]byte, bool) {
	sp := &m.own
	if sp.block == noBlock || rec.Ordinal != sp.ordinal+1 || rec.Epoch != sp.epoch || rec.Session != m.meta.Session ||
		!m.started || m.merge || m.opt.Filter != nil {
		return dst, false
	}
	kind, step, piece := sp.pieces.read(rec)
	if kind != sp.block || step > sp.step || len(piece) == 0 {
		return dst, false
	}
	if m.headAt != sp.blockAt {
		m.begin(m.head[:0], 0)
		m.dst = append(m.dst, '\n')
		m.open(kind.kinds().delta)
		m.blockID(sp)
		m.dst = append(m.dst, `,"delta":"`...)
		m.head, m.headAt = m.end(), sp.blockAt
	}
	sp.ordinal, m.steps.producedAt, m.meta.At = rec.Ordinal, rec.Ordinal, rec.Stored
	if kind == reasoningBlock {
		sp.thought = append(sp.thought, piece...)
	}
	dst = append(dst, "id: "...)
	dst = strconv.AppendUint(dst, uint64(rec.Seq), 10)
	dst = append(dst, m.head...)
	dst = append(dst, piece...)
	return append(dst, deltaEnd...), true
}

// think tells reasoning. A complete record closes the block; when pieces of it
// were streamed before, it may repeat the whole, carry the rest, or nothing.
func (m *Message) think(it *item) {
	piece := it.content("content")
	if !it.is("isComplete") {
		m.write(it, reasoningBlock, piece)
		return
	}
	if it.sp.block == reasoningBlock {
		piece = rest(it.sp.thought, piece)
	}
	m.write(it, reasoningBlock, piece)
	if it.sp.block == reasoningBlock {
		m.close(it.sp)
	}
}

// rest is what whole says beyond told, or all of it when it says something else.
// Both are contents of JSON strings.
func rest(told, whole []byte) []byte {
	a, errA := unescape(nil, told)
	b, errB := unescape(nil, whole)
	if errA != nil || errB != nil || !bytes.HasPrefix(b, a) {
		return whole
	}
	return appendEscaped(nil, string(b[len(a):]))
}

// close ends the open block of an agent.
func (m *Message) close(sp *speaker) {
	if sp.block == noBlock {
		return
	}
	m.open(sp.block.kinds().end)
	m.blockID(sp)
	m.shut()
	sp.block = noBlock
}

// closeAll ends every open block. finish-step makes clients of version 6 forget
// the blocks that are open, whoever writes them.
func (m *Message) closeAll() {
	m.close(&m.own)
	for _, sp := range m.order {
		m.close(sp)
	}
}

// blockID writes the id of the open block: a pure function of the log, so that
// every edge, at any time, calls it the same.
func (m *Message) blockID(sp *speaker) {
	m.dst = append(m.dst, `,"id":"`...)
	m.dst = append(m.dst, byte(sp.block))
	m.dst = strconv.AppendUint(m.dst, uint64(sp.blockAt), 10)
	if !sp.own() {
		m.dst = append(m.dst, '-')
		m.dst = append(m.dst, sp.agent...) // a token: letters, digits, - and _
	}
	m.dst = append(m.dst, '"')
}

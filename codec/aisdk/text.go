package aisdk

import (
	"strconv"

	"github.com/tailrace/tailrace/chunk"
)

// speaker is an agent that writes text: at most one block of it is open.
type speaker struct {
	agent string // "" for the agent of the message
	block byte   // 't' text, 'r' reasoning, 0 none
	id    chunk.Seq
}

func (m *Message) text(sp *speaker, seq chunk.Seq, piece []byte) {
	if sp.block != 't' {
		m.close(sp)
		sp.block, sp.id = 't', seq
		m.open("text-start")
		m.blockID(sp)
		m.shut()
	}
	m.open("text-delta")
	m.blockID(sp)
	m.dst = append(m.dst, `,"delta":"`...)
	m.dst = append(m.dst, piece...)
	m.dst = append(m.dst, '"')
	m.shut()
}

func (m *Message) close(sp *speaker) {
	if sp.block == 0 {
		return
	}
	m.open("text-end")
	m.blockID(sp)
	m.shut()
	sp.block = 0
}

func (m *Message) blockID(sp *speaker) {
	m.dst = append(m.dst, `,"id":"`...)
	m.dst = append(m.dst, sp.block)
	m.dst = strconv.AppendUint(m.dst, uint64(sp.id), 10)
	m.dst = append(m.dst, '"')
}

package aisdk

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/dialect"
)

// Hide is Append for a record whose content the client must not get. It writes at most the end of the text that the record ends: otherwise a text before the
// record and one after it would be one part, and the snapshot has two. Hide accepts no control records of the message's own session: they determine the course of
// the message.
func (m *MessageWriter) Hide(dst []byte, rec chunk.Record) []byte {
	m.begin(dst, rec.Cursor())
	m.hide(&rec)
	return m.end()
}

// Hide is Append for a record whose content the client must not get, see MessageWriter.Hide. The record must not be passed to Scan.
func (r *Replay) Hide(dst []byte, rec chunk.Record) []byte {
	m := r.m
	m.replay, m.merge = r, true
	if r.isRemoved(&rec) {
		if rec.Session == m.meta.Session {
			m.own.ordinal = max(m.own.ordinal, rec.Ordinal)
		}
		return dst
	}
	m.begin(dst, rec.Cursor())
	m.hide(&rec)
	return m.end()
}

func (m *MessageWriter) hide(rec *chunk.Record) {
	if rec.Session != m.meta.Session && m.agents[rec.Session.ID] == nil {
		return // nothing of this sub-agent is shown
	}
	sp := m.agentState(rec)
	if sp == nil || rec.Type.Control() {
		return
	}
	it := item{rec: *rec, sp: sp}
	if m.idle || !m.read(&it) {
		return
	}
	if _, known := it.Type(); !known && it.kind == dialect.NoBlock {
		return
	}
	if it.step > sp.step {
		m.close(sp)
		sp.step = it.step
	}
	switch {
	case sp.own() && (rec.Type == chunk.TypeStepStart || rec.Type == chunk.TypeStepEnd):
		m.closeAll()
	case it.hide():
		m.close(sp)
	}
}

// hide follows a hidden record, and reports whether it ends the open text of its agent.
func (it *item) hide() bool {
	switch it.rec.Type {
	case chunk.TypeTextDelta, chunk.TypeThinking:
		if it.beginsPart() {
			return true
		}
	case chunk.TypeSuspensionMarker, chunk.TypeRunInterrupted, chunk.TypeRunResumed, chunk.TypeCheckpointCreated, chunk.TypeStepCommitted, chunk.TypeStepDiscarded:
		return !it.sp.own()
	}
	ends, _ := it.sp.hidden.Hide(&it.rec, it.Members, it.kind, it.piece)
	return ends
}

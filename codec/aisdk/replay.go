package aisdk

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// replay is the result of scanning all records of a replay.
type replay struct {
	at, resumedAt int // indexes of the current record and of the last that resumed a stopped answer

	fresh    bool               // no record of the message was written before
	answered map[chunk.Seq]bool // approval requests that are answered
}

// within reports whether the answer was resumed after the current record.
func (r *replay) within() bool { return r != nil && r.at < r.resumedAt }

// answers reports whether a later record answers a request.
func (r *replay) answers(it *item) bool { return r != nil && r.answered[it.rec.Seq] }

// Replay appends the frames of stored records. They build the same message as Append of each record, with fewer frames: consecutive deltas of one part are
// merged, and removed records, notices about the state of the run, answered requests for approval (a client of version 6 would ask again) and the ends of
// earlier responses are left out.
//
// recs are the next records of the message. Continue with Append after them.
func (m *MessageWriter) Replay(dst []byte, recs []chunk.Record) []byte {
	fresh := !m.turn
	if len(recs) > 0 {
		m.bindSession(&recs[0])
	}
	gone := removedOrdinals(recs)
	m.replay, m.merge = m.scanAhead(recs, gone), true
	m.replay.fresh = fresh
	for i, rec := range recs {
		m.replay.at = i
		switch {
		case !gone(i):
			dst = m.Append(dst, rec)
		case rec.Session == m.meta.Session:
			m.own.ordinal = max(m.own.ordinal, rec.Ordinal)
		}
	}
	m.begin(dst, chunk.Cursor{})
	m.release()
	m.replay, m.merge = nil, false
	return m.end()
}

// removedOrdinals reports for each record whether a later truncation record removes it.
func removedOrdinals(recs []chunk.Record) func(i int) bool {
	type truncation struct {
		session chunk.Session
		at      chunk.Ordinal
		removed []chunk.OrdinalRange
	}
	var truncations []truncation
	for _, rec := range recs {
		if rec.Type != chunk.TypeTruncated {
			continue
		}
		if c, err := rec.Decode(); err == nil {
			if b, ok := chunk.As[chunk.Truncated](c); ok {
				truncations = append(truncations, truncation{rec.Session, rec.Ordinal, b.Removed})
			}
		}
	}
	return func(i int) bool {
		rec := recs[i]
		return slices.ContainsFunc(truncations, func(m truncation) bool {
			return m.session == rec.Session && rec.Ordinal < m.at && slices.ContainsFunc(m.removed, func(r chunk.OrdinalRange) bool {
				return r.First <= int64(rec.Ordinal) && int64(rec.Ordinal) <= r.Last
			})
		})
	}
}

// scanAhead scans the records of a replay before they are written.
func (m *MessageWriter) scanAhead(recs []chunk.Record, gone func(int) bool) *replay {
	r := &replay{answered: make(map[chunk.Seq]bool)}
	ahead := replayScan{
		session: m.meta.Session, epoch: m.own.epoch, turn: m.turn, run: m.meta.RunID, stopped: m.outcome,
		approvals: make(map[callKey]chunk.Seq),
	}
	for i, rec := range recs {
		if gone(i) || m.filtered(&rec) {
			continue
		}
		body := ahead.read(rec)
		if seq, ok := ahead.answers(rec, body); ok && m.opt.Major < 7 {
			r.answered[seq] = true
		}
		resumes, over := ahead.isResume(rec, body)
		if over {
			break
		}
		if resumes {
			r.resumedAt = i
		}
	}
	return r
}

// replayScan is the state of a scan of the records of a replay.
type replayScan struct {
	session   chunk.Session
	epoch     chunk.Epoch
	turn      bool // a record of the session was seen
	run       string
	stopped   outcome
	approvals map[callKey]chunk.Seq
}

// read returns the body of a record that the scan needs, nil for others.
func (l *replayScan) read(rec chunk.Record) chunk.Body {
	if rec.Session == l.session && rec.Epoch < l.epoch {
		return nil
	}
	switch rec.Type {
	case chunk.TypeRunStarted, chunk.TypeStreamPaused, chunk.TypeStreamActive, chunk.TypeRunInterrupted, chunk.TypeRunResumed,
		chunk.TypeError, chunk.TypeStreamEnd, chunk.TypeStreamFailed,
		chunk.TypeToolApprovalRequest, chunk.TypeToolApprovalResponse, chunk.TypeToolEnd, chunk.TypeToolOutputError, chunk.TypeToolInputError:
		if c, err := rec.Decode(); err == nil {
			return c.Body
		}
	}
	return nil
}

// answers returns the request for approval that a record answers.
func (l *replayScan) answers(rec chunk.Record, body chunk.Body) (chunk.Seq, bool) {
	var call string
	switch b := body.(type) {
	case chunk.ToolApprovalRequest:
		l.approvals[callKey{rec.Session.ID, b.ToolCallID}] = rec.Seq
		return 0, false
	case chunk.ToolApprovalResponse:
		call = b.ToolCallID
	case chunk.ToolEnd:
		call = b.ToolCallID
	case chunk.ToolOutputError:
		call = b.ToolCallID
	case chunk.ToolInputError:
		call = b.ToolCallID
	}
	seq, asked := l.approvals[callKey{rec.Session.ID, call}]
	return seq, asked
}

// isResume reports whether a record resumes a stopped answer, and whether it begins another turn.
func (l *replayScan) isResume(rec chunk.Record, body chunk.Body) (resumes, over bool) {
	if rec.Session != l.session {
		_, started := body.(chunk.RunStarted)
		return started && l.stopped == paused, false
	}
	if rec.Epoch < l.epoch {
		return false, false
	}
	turn := l.turn
	l.epoch, l.turn = rec.Epoch, true
	if b, ok := body.(chunk.RunStarted); ok {
		if turn && l.run != b.RunID && (b.Mode == modeExecute || len(b.Input) > 0) {
			return false, true
		}
		l.run, l.stopped = b.RunID, running
		return true, false
	}
	return l.advance(body), false
}

// advance updates the state of the answer and reports whether it is resumed.
func (l *replayScan) advance(body chunk.Body) (resumes bool) {
	switch b := body.(type) {
	case chunk.StreamActive:
		resumes = l.stopped == paused
	case chunk.RunResumed:
		resumes = l.stopped == interrupted
	case chunk.StreamPaused:
		l.stop(paused, running)
	case chunk.RunInterrupted:
		l.stop(interrupted, running)
	case chunk.Error:
		if !b.Recoverable {
			l.stop(failed, running)
		}
	case chunk.StreamEnd:
		l.stop(finished, running, paused)
	case chunk.StreamFailed:
		l.stop(failed, running, paused, interrupted)
	}
	if resumes {
		l.stopped = running
	}
	return resumes
}

func (l *replayScan) stop(now outcome, from ...outcome) {
	if slices.Contains(from, l.stopped) {
		l.stopped = now
	}
}

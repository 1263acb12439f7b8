package aisdk

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// replay is what a look at all records of a replay found out.
type replay struct {
	at, goesOn int // place of the record at hand, and of the last at which a stopped answer went on

	fresh    bool               // nothing of the message was told before
	answered map[chunk.Seq]bool // approval requests that nobody needs to answer any more
}

// within reports whether the answer went on after the record at hand.
func (r *replay) within() bool { return r != nil && r.at < r.goesOn }

// answers reports whether a request is answered further on.
func (r *replay) answers(it *item) bool { return r != nil && r.answered[it.rec.Seq] }

// Replay appends the frames of records that were written before, to the same
// message as Append makes of them one after the other, in fewer frames: deltas of
// one part that follow each other are one, what was taken back is left out, and
// so are notices of what was going on, requests for approval that are answered
// (a client of version 6 would ask again) and the ends of earlier responses.
//
// recs are the next records of the message. Append goes on behind them.
func (m *Message) Replay(dst []byte, recs []chunk.Record) []byte {
	fresh := !m.turn
	if len(recs) > 0 {
		m.belong(&recs[0])
	}
	gone := takenBack(recs)
	m.replay, m.merge = m.survey(recs, gone), true
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
	m.begin(dst, 0)
	m.release()
	m.replay, m.merge = nil, false
	return m.end()
}

// takenBack finds the records that marks further on take back.
func takenBack(recs []chunk.Record) func(i int) bool {
	type mark struct {
		session chunk.Session
		at      chunk.Ordinal
		removed []chunk.OrdinalRange
	}
	var marks []mark
	for _, rec := range recs {
		if rec.Type != chunk.TypeTruncated {
			continue
		}
		if c, err := rec.Decode(); err == nil {
			if b, ok := chunk.As[chunk.Truncated](c); ok {
				marks = append(marks, mark{rec.Session, rec.Ordinal, b.Removed})
			}
		}
	}
	return func(i int) bool {
		rec := recs[i]
		return slices.ContainsFunc(marks, func(m mark) bool {
			return m.session == rec.Session && rec.Ordinal < m.at && slices.ContainsFunc(m.removed, func(r chunk.OrdinalRange) bool {
				return r.First <= int64(rec.Ordinal) && int64(rec.Ordinal) <= r.Last
			})
		})
	}
}

// survey looks ahead.
func (m *Message) survey(recs []chunk.Record, gone func(int) bool) *replay {
	r := &replay{answered: make(map[chunk.Seq]bool)}
	ahead := lookout{
		session: m.meta.Session, epoch: m.own.epoch, turn: m.turn, run: m.meta.RunID, stopped: m.outcome,
		asked: make(map[callKey]chunk.Seq),
	}
	for i, rec := range recs {
		if gone(i) || m.filtered(&rec) {
			continue
		}
		body := ahead.read(rec)
		if seq, ok := ahead.answers(rec, body); ok && m.opt.Major < 7 {
			r.answered[seq] = true
		}
		goesOn, over := ahead.sees(rec, body)
		if over {
			break
		}
		if goesOn {
			r.goesOn = i
		}
	}
	return r
}

// lookout goes over the records of a replay before they are told.
type lookout struct {
	session chunk.Session
	epoch   chunk.Epoch
	turn    bool // a record of the session was seen
	run     string
	stopped outcome
	asked   map[callKey]chunk.Seq
}

// read is what a record says, if it matters, or else nil.
func (l *lookout) read(rec chunk.Record) chunk.Body {
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

// answers is the request for approval that a record answers.
func (l *lookout) answers(rec chunk.Record, body chunk.Body) (chunk.Seq, bool) {
	var call string
	switch b := body.(type) {
	case chunk.ToolApprovalRequest:
		l.asked[callKey{rec.Session.ID, b.ToolCallID}] = rec.Seq
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
	seq, asked := l.asked[callKey{rec.Session.ID, call}]
	return seq, asked
}

// sees reports whether a stopped answer goes on with a record, and whether
// another turn begins with it.
func (l *lookout) sees(rec chunk.Record, body chunk.Body) (goesOn, over bool) {
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
	return l.moves(body), false
}

// moves follows how the answer stands, and reports whether it goes on.
func (l *lookout) moves(body chunk.Body) (goesOn bool) {
	switch b := body.(type) {
	case chunk.StreamActive:
		goesOn = l.stopped == paused
	case chunk.RunResumed:
		goesOn = l.stopped == interrupted
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
	if goesOn {
		l.stopped = running
	}
	return goesOn
}

func (l *lookout) stop(now outcome, from ...outcome) {
	if slices.Contains(from, l.stopped) {
		l.stopped = now
	}
}

package turn

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// Replay is the history of a turn. It writes frames that build the same messages as Append of each record, and fewer: consecutive pieces of one text are merged, and
// removed records and the ends of earlier responses are left out. A printer may leave out more, see Machine.Replays and Event.Answered. It keeps no bytes of a record.
type Replay struct {
	m       *Machine
	removed map[chunk.Session][]chunk.OrdinalRange // in order and apart if sorted
	sorted  bool
	started map[string]start            // sub-agents whose start is not removed, by session
	starts  map[chunk.Session][]startAt // the same by the session that started them, in the order of ordinals
	latest  chunk.Seq                   // of the records that removed others, 0 for none
	whole   bool                        // it has all records of the turn: no client has one
	ahead   *replayScan

	scanned, at, resumedAt int // indexes of the record that is scanned next, of the current one, and of the last that resumed a stopped turn

	answered map[chunk.Seq]bool // approval requests that are answered
}

// start is the start of a sub-agent.
type start struct {
	by    chunk.Session
	after chunk.Seq // the latest record before it that removed others, 0 for none
}

// startAt is where a session started another one.
type startAt struct {
	at chunk.Ordinal
	of string
}

// BeginReplay begins the replay of the next records of the turn.
func (m *Machine) BeginReplay() *Replay {
	return &Replay{
		m: m, at: -1, whole: !m.turn, removed: make(map[chunk.Session][]chunk.OrdinalRange), started: make(map[string]start),
		starts: make(map[chunk.Session][]startAt), answered: make(map[chunk.Seq]bool),
	}
}

// FindRemoved reads the next record of the history, and finds which ones it removes. It gets all of them before Write.
func (r *Replay) FindRemoved(rec chunk.Record) {
	r.m.bind(&rec)
	switch rec.Type {
	case chunk.TypeSubagentStart:
		b, ok := chunk.BodyOf[chunk.SubagentStart](rec)
		if _, known := r.started[b.SubSessionID]; ok && !known {
			r.started[b.SubSessionID] = start{rec.Session, r.latest}
			starts := r.starts[rec.Session]
			r.starts[rec.Session] = slices.Insert(starts, startsBefore(starts, rec.Ordinal+1), startAt{rec.Ordinal, b.SubSessionID})
		}
	case chunk.TypeTruncated:
		if b, ok := chunk.BodyOf[chunk.Truncated](rec); ok {
			r.latest = rec.Seq
			for _, named := range b.Removed {
				r.remove(rec.Session, chunk.OrdinalRange{First: named.First, Last: min(named.Last, int64(rec.Ordinal)-1)})
			}
		}
	}
}

// remove notes that records of a session were removed.
func (r *Replay) remove(s chunk.Session, ordinals chunk.OrdinalRange) {
	if ordinals.First > ordinals.Last {
		return
	}
	r.removed[s], r.sorted = append(r.removed[s], ordinals), false
	starts := r.starts[s]
	first, end := startsBefore(starts, chunk.Ordinal(max(0, ordinals.First))), startsBefore(starts, chunk.Ordinal(ordinals.Last+1))
	for _, removed := range starts[first:end] {
		delete(r.started, removed.of)
	}
	r.starts[s] = slices.Delete(starts, first, end)
}

// startsBefore returns the number of starts before an ordinal.
func startsBefore(starts []startAt, at chunk.Ordinal) int {
	n, _ := slices.BinarySearchFunc(starts, at, func(s startAt, at chunk.Ordinal) int { return cmp.Compare(s.at, at) })
	return n
}

// sortRemoved sorts what was removed, and joins what overlaps: a client can write very many cleanups, and each record is looked up.
func (r *Replay) sortRemoved() {
	r.sorted = true
	for session, ranges := range r.removed {
		slices.SortFunc(ranges, func(a, b chunk.OrdinalRange) int { return cmp.Compare(a.First, b.First) })
		joined := ranges[:1]
		for _, next := range ranges[1:] {
			if last := &joined[len(joined)-1]; next.First <= last.Last {
				last.Last = max(last.Last, next.Last)
			} else {
				joined = append(joined, next)
			}
		}
		r.removed[session] = joined
	}
}

// IsRemoved reports whether a later truncated record removes rec, or the start of its sub-agent: a page does not have the output of that, and a client that followed
// the stream and has some of it reloads the message. The log may not have the start any more.
func (r *Replay) IsRemoved(rec *chunk.Record) bool {
	if !r.sorted {
		r.sortRemoved()
	}
	ranges := r.removed[rec.Session]
	i, _ := slices.BinarySearchFunc(ranges, int64(rec.Ordinal), func(o chunk.OrdinalRange, at int64) int { return cmp.Compare(o.Last, at) })
	return i < len(ranges) && ranges[i].First <= int64(rec.Ordinal) || r.whole && rec.Seq < r.removedUntil(rec.Session)
}

// removedUntil returns the last truncated record at which the turn did not have the start of a session, or of one that started it; 0 for none.
func (r *Replay) removedUntil(s chunk.Session) (until chunk.Seq) {
	for range len(r.started) + 1 {
		if s == r.m.session {
			return until
		}
		start, ok := r.started[s.ID]
		if !ok {
			break
		}
		s, until = start.by, max(until, start.after)
	}
	return r.latest
}

// Write appends the frames of the history, which is ranged over twice, so that its records need not be in memory. A record that comes with false is hidden from the
// client, see Machine.Hide. The frames that can be sent, because the next record does not extend the last one of them, are passed to flush, which returns the buffer
// for the next ones; nil keeps them. Continue with Append after Write.
func (r *Replay) Write(dst []byte, history iter.Seq2[chunk.Record, bool], flush func(dst []byte) []byte) []byte {
	m := r.m
	r.ahead = &replayScan{course: m.course, epoch: m.own.epoch, approvals: make(map[CallKey]chunk.Seq)}
	for rec, shown := range history {
		if shown {
			r.scan(&rec)
		}
	}
	m.ahead, m.out.Merge = r, true
	for rec, shown := range history {
		if shown {
			r.at++
		}
		switch {
		case !r.IsRemoved(&rec) && shown:
			dst = m.Append(dst, rec)
		case !r.IsRemoved(&rec):
			dst = m.Hide(dst, rec)
		case rec.Session == m.session:
			m.own.ordinal = max(m.own.ordinal, rec.Ordinal)
		}
		if flush != nil && m.out.Complete() {
			dst = flush(dst)
		}
	}
	m.out.Begin(dst, chunk.Cursor{})
	m.out.Release()
	m.ahead, m.out.Merge = nil, false
	return m.out.End()
}

// scan finds the answered requests and the last record that resumes the turn.
func (r *Replay) scan(rec *chunk.Record) {
	m, i := r.m, r.scanned
	r.scanned++
	l, own := r.ahead, rec.Session == m.session
	if l.over || r.IsRemoved(rec) || own && rec.Epoch < l.epoch {
		return
	}
	if own {
		l.epoch = rec.Epoch
	}
	if it := l.read(rec); it != nil {
		r.findAnswer(it)
		l.over = own && l.opensTurn(it)
		if !l.over && (own && l.resumes(it) || !own && l.resumesParent(it)) {
			r.resumedAt = i
		}
		if own && !l.stop(it) && rec.Type == chunk.TypeRunStarted {
			l.run = bytes.Clone(it.Content("runId"))
		}
	}
	l.turn = l.turn || own
}

// read parses a record that the scan needs, and returns nil for others.
func (l *replayScan) read(rec *chunk.Record) *Item {
	switch rec.Type {
	case chunk.TypeRunStarted, chunk.TypeStreamPaused, chunk.TypeStreamActive, chunk.TypeRunInterrupted, chunk.TypeRunResumed,
		chunk.TypeError, chunk.TypeStreamEnd, chunk.TypeStreamFailed,
		chunk.TypeToolApprovalRequest, chunk.TypeToolApprovalResponse, chunk.TypeToolEnd, chunk.TypeToolOutputError, chunk.TypeToolInputError:
		if l.members.Read(rec.Data) == nil {
			return &Item{Rec: rec, Members: &l.members}
		}
	}
	return nil
}

// findAnswer finds the request for approval that a record answers. Requests that a rule answers are not shown.
func (r *Replay) findAnswer(it *Item) {
	key, requests := CallKey{it.Rec.Session.ID, it.Text("toolCallId")}, r.ahead.approvals
	switch it.Rec.Type {
	case chunk.TypeToolApprovalRequest:
		delete(requests, key)
		if !it.Is("isAutomatic") {
			requests[key] = it.Rec.Seq
		}
	case chunk.TypeToolApprovalResponse, chunk.TypeToolEnd, chunk.TypeToolOutputError, chunk.TypeToolInputError:
		if seq, asked := requests[key]; asked {
			r.answered[seq] = true
			delete(requests, key)
		}
	}
}

// isResumed reports whether the turn is resumed after the current record.
func (r *Replay) isResumed() bool { return r != nil && r.at < r.resumedAt }

// answers reports whether a later record answers a question.
func (r *Replay) answers(it *Item) bool { return r != nil && r.answered[it.Rec.Seq] }

// isWhole reports whether the client has no record of the turn that is not of the history.
func (r *Replay) isWhole() bool { return r != nil && r.whole }

// replayScan is the state of a scan of the records of a replay.
type replayScan struct {
	course

	epoch     chunk.Epoch
	approvals map[CallKey]chunk.Seq
	over      bool // another turn began: no later record belongs to this one
	members   chunk.Members
}

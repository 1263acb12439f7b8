package chat

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// history has the records of the turn up to the state, run_started first. A short one is in memory; the records of a long one are read again each time, so that
// the memory of a response does not depend on the length of the turn.
type history struct {
	kept []chunk.Record // nil for a long one
	size int            // bytes of kept
	long bool

	pause  *chunk.Record // the last pause, which is not part of the history; nil for none
	end    *chunk.Record // the record after all others, nil for none
	lost   bool          // see lostStep
	replay replay        // got all records in its first pass
}

const (
	historyBytes   = 1 << 20 // of a history that is kept
	recordOverhead = 256     // bytes of a record in memory besides its Data
	flushBytes     = 64 << 10
)

// readHistory reads the history for the first time.
func (st *stream) readHistory(ctx context.Context) error {
	st.history.replay = st.message.beginReplay()
	if rec, ok := openingOf(&st.state); ok {
		st.addHistory(rec)
	}
	if st.state.MaxSeq == st.state.TurnStart.Seq {
		return nil
	}
	ahead, err := readThrough(ctx, st.tail, st.state.MaxSeq, func(rec chunk.Record) error {
		st.addHistory(rec)
		return nil
	})
	for _, newer := range ahead {
		newer.Data = bytes.Clone(newer.Data)
		st.ahead = append(st.ahead, newer)
	}
	return err
}

// readThrough passes the next records to do, up to that with the last sequence, and returns those that were read with it, which are valid until the next read.
func readThrough(ctx context.Context, tail recordStream, last chunk.Seq, do func(chunk.Record) error) (ahead []chunk.Record, err error) {
	for {
		records, err := tail.Next(ctx, nil)
		if err != nil {
			return nil, err
		}
		for i, rec := range records {
			if err := do(rec); err != nil {
				return nil, err
			}
			if rec.Seq >= last {
				return records[i+1:], nil
			}
		}
	}
}

// addHistory adds the next record to the history.
func (st *stream) addHistory(rec chunk.Record) {
	h := &st.history
	if !h.long {
		// The record is kept for longer than its bytes are valid in the tail.
		rec.Data = bytes.Clone(rec.Data)
		h.kept = append(h.kept, rec)
		h.size += len(rec.Data) + recordOverhead
		if h.size > st.service.historyBytes {
			h.kept, h.long = nil, true
		}
	}
	if st.isEarlierCall(rec) {
		return
	}
	st.last = rec.Cursor()
	h.lost = h.lost || st.lostStep(rec)
	h.replay.FindRemoved(rec)
	if rec.Session != st.state.Session {
		return
	}
	switch rec.Type {
	case chunk.TypeStreamPaused:
		rec.Data = bytes.Clone(rec.Data)
		h.pause = &rec
	case chunk.TypeRunStarted, chunk.TypeStreamActive: // the run continues after the pause
		h.pause = nil
	}
}

// each passes the records of the history that belong to the message to do. Their Data is valid during the call.
func (st *stream) each(ctx context.Context, do func(chunk.Record) error) error {
	h, state := &st.history, &st.state
	st.earlier = earlierCalls(state)
	own := func(rec chunk.Record) error {
		if st.isEarlierCall(rec) || h.pause != nil && rec.Type == chunk.TypeStreamPaused && rec.Seq == h.pause.Seq {
			return nil
		}
		return do(rec)
	}
	for _, rec := range h.kept {
		if err := own(rec); err != nil {
			return err
		}
	}
	if h.long {
		if err := st.reread(ctx, own); err != nil {
			return err
		}
	}
	if h.end != nil {
		return do(*h.end)
	}
	return nil
}

// reread reads a long history from the log.
func (st *stream) reread(ctx context.Context, do func(chunk.Record) error) error {
	if rec, ok := openingOf(&st.state); ok {
		if err := do(rec); err != nil {
			return err
		}
	}
	tail, err := st.service.follow(ctx, st.state.Session, st.state.TurnStart, st.state.MaxSeq)
	if err != nil {
		return err
	}
	defer tail.Close()
	_, err = readThrough(ctx, tail, st.state.MaxSeq, do)
	return err
}

// openingOf returns the run_started of the turn with the members that the frames need. The cursor of the log is after that record, and reading it would mean
// reading all records before it.
func openingOf(state *conversation.State) (chunk.Record, bool) {
	if state.TurnStart.Seq == 0 || state.TurnRun.ID == "" {
		return chunk.Record{}, false
	}
	c := chunk.Chunk{
		AgentID: state.Session.ID, AgentType: state.AgentType, Timestamp: state.TurnRun.StartedAt,
		Body: chunk.RunStarted{RunID: state.TurnRun.ID, Epoch: int64(state.TurnRun.Epoch), Mode: state.TurnRun.Mode, Parent: state.TurnRun.Parent},
	}
	data, err := c.AppendJSON(nil)
	if err != nil {
		return chunk.Record{}, false // a run that another producer began: its metadata is missing
	}
	return chunk.Record{
		Seq: state.TurnStart.Seq, Session: state.Session, Epoch: state.TurnRun.Epoch, Ordinal: state.TurnStart.Ordinal,
		Type: chunk.TypeRunStarted, StoredAt: time.UnixMilli(state.TurnRun.StartedAt), Data: data,
	}, true
}

// decide determines what the client gets of the history.
func (st *stream) decide(ctx context.Context) (*httpkit.Problem, error) {
	h := &st.history
	if h.pause != nil && !st.state.InFlight() {
		// Later records of sub-agents, such as their questions, precede the end of the response.
		h.end = new(st.atTheEnd(*h.pause))
	} else {
		st.deferredPause = h.pause
	}
	switch {
	case st.plan.Show == conversation.ShowTail && st.service.cfg.Dialect.Major >= 7 && h.lost:
		st.plan.Show = conversation.ShowWhole
	case st.plan.Show == conversation.ShowNew:
		from, ok, err := st.resumePoint(ctx)
		if err != nil {
			return nil, err
		}
		if !ok {
			return running, nil
		}
		st.resumeFrom = from
	}
	return nil, nil //nolint:nilnil // the response can begin
}

// writeHistory writes the frames of the history: all of it, or the part that the client does not have.
func (st *stream) writeHistory(ctx context.Context) error {
	if st.history.long { // the passes before the first frame take a moment
		if err := st.flush(); err != nil {
			return err
		}
	}
	var err error
	switch st.plan.Show {
	case conversation.ShowTail:
		err = st.writeTail(ctx)
	case conversation.ShowNew:
		err = st.writeNew(ctx)
	default:
		st.buffer = st.message.Start(st.buffer)
		err = st.writeReplay(ctx, 0)
	}
	if err == nil && !st.state.InFlight() {
		st.buffer = st.message.Finish(st.buffer)
	}
	return err
}

// writeTail is for a client that has a cursor: it gets the records after it.
func (st *stream) writeTail(ctx context.Context) error {
	return st.each(ctx, func(rec chunk.Record) error {
		if rec.Seq <= st.plan.After {
			st.message.advance(rec)
			return nil
		}
		st.buffer = st.message.append(st.buffer, rec)
		return st.flushFull()
	})
}

// writeReplay writes the records from an index on.
func (st *stream) writeReplay(ctx context.Context, from int) error {
	r := st.history.replay
	pass := func(do func(chunk.Record) error) error {
		i := 0
		return st.each(ctx, func(rec chunk.Record) error {
			if i++; i <= from {
				return nil
			}
			return do(rec)
		})
	}
	err := pass(func(rec chunk.Record) error {
		r.scan(rec)
		return nil
	})
	if err != nil {
		return err
	}
	err = pass(func(rec chunk.Record) error {
		if st.buffer = r.append(st.buffer, rec); !r.Complete() {
			return nil
		}
		return st.flushFull()
	})
	st.buffer = r.End(st.buffer)
	return err
}

// flushFull sends the frames when there are many.
func (st *stream) flushFull() error {
	if len(st.buffer) < flushBytes {
		return nil
	}
	return st.flush()
}

// lostStep reports whether rec removed records that the client may have, after its cursor. The log no longer has them, so the edge cannot compute which parts the
// client must remove. Version 7 replaces its message by the one after a start; version 6 would show both, and gets data-truncated.
func (st *stream) lostStep(rec chunk.Record) bool {
	if rec.Type != chunk.TypeTruncated || rec.Session != st.state.Session || rec.Seq <= st.plan.After {
		return false
	}
	c, err := rec.Decode()
	if err != nil {
		return false
	}
	b, ok := chunk.As[chunk.Truncated](c)
	return ok && b.FromSequence <= int64(st.plan.After)
}

// atTheEnd returns a pause with the position of the last record.
func (st *stream) atTheEnd(pause chunk.Record) chunk.Record {
	if st.last.Seq > pause.Seq {
		pause.Seq, pause.StoredAt = st.last.Seq, time.UnixMilli(int64(st.last.Anchor))
	}
	return pause
}

// writeNew is for a client that continues its own message: it gets the records since the pause at which its response ended.
func (st *stream) writeNew(ctx context.Context) error {
	i := 0
	err := st.each(ctx, func(rec chunk.Record) error {
		if i++; i <= st.resumeFrom {
			st.message.advance(rec)
		}
		return nil
	})
	if err != nil {
		return err
	}
	st.message.Continue()
	st.buffer = st.message.Start(st.buffer)
	st.buffer = appendRejections(st.buffer, st.plan.Rejected)
	return st.writeReplay(ctx, st.resumeFrom)
}

// resumePoint returns the index in the history at which the client's message ends. Its number of steps and the outcomes that it does not have identify the pause
// at which its response ended: another tab may have answered, and the run may have paused again since. ok is false if the message ends in the middle of the output
// of a run: then the client must reconnect, because frames cannot continue a part that the client has closed. While the last pause lasts, the questions of
// sub-agents end responses, and the run of a sub-agent that got its answer begins the next one.
func (st *stream) resumePoint(ctx context.Context) (from int, ok bool, err error) {
	pause := st.history.pause
	probe := message{aisdk.New(st.plan.MessageID, st.service.cfg.Dialect), st.message.view}
	var frames []byte
	n, steps, found, atFound := 0, 0, -1, 0
	missed := false // an outcome that the client does not have was found: its response ended before
	err = st.each(ctx, func(rec chunk.Record) error {
		if pause != nil && rec.Type == chunk.TypeRunStarted && rec.Seq > pause.Seq {
			again := *pause
			again.Ordinal = 0 // it may be appended several times
			frames = probe.append(frames[:0], again)
			steps += bytes.Count(frames, startStep)
		}
		// After a response has ended, the next run resumes the answer: the message's own, or that of the sub-agent that the user has answered.
		if rec.Type == chunk.TypeRunStarted && probe.Done() && !missed && !st.isTakeover(rec) {
			if found < 0 || steps <= st.plan.Steps || st.plan.Steps == 0 {
				found, atFound = n, steps
			}
		}
		missed = missed || found >= 0 && st.isMissedOutcome(rec)
		frames = probe.append(frames[:0], rec)
		steps += bytes.Count(frames, startStep)
		n++
		return nil
	})
	if err != nil {
		return 0, false, err
	}
	if missed {
		return found, st.plan.Steps == 0 || st.plan.Steps <= atFound, nil
	}
	flight := st.state.InFlight()
	switch {
	case !flight && (st.plan.Steps == 0 || st.plan.Steps >= steps):
		return n, true, nil // it has everything
	case st.awaited.id != "" && (st.plan.Steps == 0 || st.plan.Steps >= steps):
		return n, true, nil // the next run has not begun
	case st.deferredPause != nil && st.plan.Steps >= steps:
		return n, true, nil
	case found < 0:
		return 0, false, nil
	}
	return found, st.plan.Steps == 0 || st.plan.Steps <= atFound, nil
}

// isMissedOutcome reports whether a record is the outcome of a call that has none in the client's message.
func (st *stream) isMissedOutcome(rec chunk.Record) bool {
	switch rec.Type {
	case chunk.TypeToolEnd, chunk.TypeToolOutputError, chunk.TypeToolInputError:
	case chunk.TypeToolApprovalResponse: // the outcome of a call that was denied
		c, err := rec.Decode()
		if b, ok := chunk.As[chunk.ToolApprovalResponse](c); err != nil || !ok || b.Approved {
			return false
		}
	default:
		return false
	}
	id := callOf(rec)
	if rec.Session != st.state.Session {
		id = dialect.CallID(rec.Session.ID, id)
	}
	return slices.Contains(st.plan.Decided, id)
}

var startStep = []byte(`{"type":"start-step"`)

func (st *stream) isTakeover(rec chunk.Record) bool {
	c, err := rec.Decode()
	if err != nil {
		return false
	}
	b, ok := chunk.As[chunk.RunStarted](c)
	return ok && b.Mode == "takeover"
}

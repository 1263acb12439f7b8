package chat

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// history returns the records of the turn up to the state, run_started first.
func (st *stream) history(ctx context.Context) ([]chunk.Record, error) {
	v := &st.view
	var history []chunk.Record
	if rec, ok := openingOf(v); ok {
		history = append(history, rec)
	}
	if v.MaxSeq == v.TurnStart.Seq {
		return history, nil
	}
	for {
		records, err := st.tail.Next(ctx, nil)
		if err != nil {
			return nil, err
		}
		for i, rec := range records {
			// The record is kept for longer than its bytes are valid in the tail.
			rec.Data = bytes.Clone(rec.Data)
			history = append(history, rec)
			if rec.Seq >= v.MaxSeq {
				for _, newer := range records[i+1:] {
					newer.Data = bytes.Clone(newer.Data)
					st.ahead = append(st.ahead, newer)
				}
				return history, nil
			}
		}
	}
}

// openingOf returns the run_started of the turn with the members that the frames need. The cursor of the log is after that record, and reading it would mean
// reading all records before it.
func openingOf(v *conversation.State) (chunk.Record, bool) {
	if v.TurnStart.Seq == 0 || v.TurnRun.ID == "" {
		return chunk.Record{}, false
	}
	c := chunk.Chunk{
		AgentID: v.Session.ID, AgentType: v.AgentType, Timestamp: v.TurnRun.StartedAt,
		Body: chunk.RunStarted{RunID: v.TurnRun.ID, Epoch: int64(v.TurnRun.Epoch), Mode: v.TurnRun.Mode, Parent: v.TurnRun.Parent},
	}
	data, err := c.AppendJSON(nil)
	if err != nil {
		return chunk.Record{}, false // a run that another producer began: its metadata is missing
	}
	return chunk.Record{
		Seq: v.TurnStart.Seq, Session: v.Session, Epoch: v.TurnRun.Epoch, Ordinal: v.TurnStart.Ordinal,
		Type: chunk.TypeRunStarted, StoredAt: time.UnixMilli(v.TurnRun.StartedAt), Data: data,
	}, true
}

// replay converts the history to frames: all of it, or the part that the client does not have. They are sent when the response has begun.
func (st *stream) replay(history []chunk.Record) *httpkit.Problem {
	history = slices.DeleteFunc(history, func(rec chunk.Record) bool { return st.isEarlierCall(rec) })
	if n := len(history); n > 0 {
		st.last = history[n-1].Cursor()
	}
	history = st.deferPause(history)
	pause := st.deferredPause
	if st.deferredPause != nil && !st.view.InFlight() {
		// Later records of sub-agents, such as their questions, precede the end of the response.
		history = append(history, st.atTheEnd(*st.deferredPause))
		st.deferredPause = nil
	}
	if st.plan.Show == conversation.ShowTail && st.service.cfg.Dialect.Major >= 7 && st.lostStep(history) {
		st.plan.Show = conversation.ShowWhole
	}
	switch st.plan.Show {
	case conversation.ShowTail:
		for _, rec := range history {
			if rec.Seq <= st.plan.After {
				st.message.Advance(rec)
				continue
			}
			st.buffer = st.message.Append(st.buffer, rec)
		}
	case conversation.ShowNew:
		if p := st.replayNew(history, pause); p != nil {
			return p
		}
	default:
		st.buffer = st.message.Start(st.buffer)
		st.buffer = st.message.Replay(st.buffer, history)
	}
	if !st.view.InFlight() {
		st.buffer = st.message.Finish(st.buffer)
	}
	return nil
}

// lostStep reports whether records that the client may have were removed after its cursor. The log no longer has them, so the edge cannot compute which parts the
// client must remove. Version 7 replaces its message by the one after a start; version 6 would show both, and gets data-truncated.
func (st *stream) lostStep(history []chunk.Record) bool {
	return slices.ContainsFunc(history, func(rec chunk.Record) bool {
		if rec.Type != chunk.TypeTruncated || rec.Session != st.view.Session || rec.Seq <= st.plan.After {
			return false
		}
		c, err := rec.Decode()
		if err != nil {
			return false
		}
		b, ok := chunk.As[chunk.Truncated](c)
		return ok && b.FromSequence <= int64(st.plan.After)
	})
}

// atTheEnd returns a pause with the position of the last record.
func (st *stream) atTheEnd(pause chunk.Record) chunk.Record {
	if st.last.Seq > pause.Seq {
		pause.Seq, pause.StoredAt = st.last.Seq, time.UnixMilli(int64(st.last.Anchor))
	}
	return pause
}

// deferPause removes the last pause from the history, unless the run continues after it.
func (st *stream) deferPause(history []chunk.Record) []chunk.Record {
	for i, rec := range slices.Backward(history) {
		if rec.Session != st.view.Session {
			continue
		}
		switch rec.Type {
		case chunk.TypeStreamPaused:
			st.deferredPause = &rec
			return slices.Delete(history, i, i+1)
		case chunk.TypeRunStarted, chunk.TypeStreamActive:
			return history
		}
	}
	return history
}

// replayNew is for a client that continues its own message: it gets the records since the pause at which its response ended. Its number of steps and the
// outcomes that it does not have identify that pause: another tab may have answered, and the run may have paused again since.
func (st *stream) replayNew(history []chunk.Record, pause *chunk.Record) *httpkit.Problem {
	from, ok := st.resumePoint(history, pause)
	if !ok {
		return running
	}
	for _, rec := range history[:from] {
		st.message.Advance(rec)
	}
	st.message.Continue()
	st.buffer = st.message.Start(st.buffer)
	st.buffer = appendRejections(st.buffer, st.plan.Rejected)
	st.buffer = st.message.Replay(st.buffer, history[from:])
	return nil
}

// resumePoint returns the index in the history at which the client's message ends; false if that is in the middle of the output of a run: then the client
// must reconnect, because frames cannot continue a part that the client has closed. pause is the one that was removed from the history, nil if there is none: while
// it lasts, the questions of sub-agents end responses, and the run of a sub-agent that got its answer begins the next one.
func (st *stream) resumePoint(history []chunk.Record, pause *chunk.Record) (int, bool) {
	probe := aisdk.New(st.plan.MessageID, st.service.cfg.Dialect)
	var frames []byte
	steps, found, atFound := 0, -1, 0
	missed := false // an outcome that the client does not have was found: its response ended before
	for i, rec := range history {
		if pause != nil && rec.Type == chunk.TypeRunStarted && rec.Seq > pause.Seq {
			again := *pause
			again.Ordinal = 0 // it may be appended several times
			frames = probe.Append(frames[:0], again)
			steps += bytes.Count(frames, startStep)
		}
		// After a response has ended, the next run resumes the answer: the message's own, or that of the sub-agent that the user has answered.
		if rec.Type == chunk.TypeRunStarted && probe.Done() && !missed && !st.isTakeover(rec) {
			if found < 0 || steps <= st.plan.Steps || st.plan.Steps == 0 {
				found, atFound = i, steps
			}
		}
		missed = missed || found >= 0 && st.isMissedOutcome(rec)
		frames = probe.Append(frames[:0], rec)
		steps += bytes.Count(frames, startStep)
	}
	if missed {
		return found, st.plan.Steps == 0 || st.plan.Steps <= atFound
	}
	flight := st.view.InFlight()
	switch {
	case !flight && (st.plan.Steps == 0 || st.plan.Steps >= steps):
		return len(history), true // it has everything
	case st.awaited != "" && (st.plan.Steps == 0 || st.plan.Steps >= steps):
		return len(history), true // the next run has not begun
	case st.deferredPause != nil && st.plan.Steps >= steps:
		return len(history), true
	case found < 0:
		return 0, false
	}
	return found, st.plan.Steps == 0 || st.plan.Steps <= atFound
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
	if rec.Session != st.view.Session {
		id = rec.Session.ID + "/" + id
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

package httpedge

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/hub"
)

// history has the records of the turn up to Turn.Through, run_started first. A short one is in memory; the records of a long one are read again each time, so that
// the memory of a response does not depend on the length of the turn.
type history struct {
	kept []byte // without Turn.Opening, in hub.RecordEncoding; nil for a long one
	long bool

	pause  *chunk.Record // the last pause, which is not part of the history; nil for none
	end    *chunk.Record // the record after all others, nil for none
	lost   bool          // see lostStep
	from   int           // number of records that the client has in its own message
	replay *aisdk.Replay // got all records in its first pass
}

const (
	historyBytes = 1 << 20 // of a history that is kept
	flushBytes   = 64 << 10
)

// ErrUnfinished reports that the message of a client ends in the middle of the output of a run: the client must reconnect, because frames cannot continue a part
// that it has closed.
var ErrUnfinished = errors.New("message of the client ends in the output of a run")

// readHistory reads the history for the first time, and determines what the client gets of it.
func (t *turn) readHistory(ctx context.Context) (err error) {
	h := &t.history
	h.replay = t.out.BeginReplay()
	if t.of.Opening != nil {
		t.addHistory(t.of.Opening)
	}
	if t.of.Through != t.of.Start.Seq {
		newer, err := t.readThrough(ctx, t.records, func(rec *chunk.Record) error {
			if !h.long {
				h.kept = hub.EncodeRecord(h.kept, *rec, chunk.ScopeTree)
			}
			if len(h.kept) > cmp.Or(t.of.HistoryBytes, historyBytes) {
				h.kept, h.long = nil, true
			}
			t.addHistory(rec)
			return nil
		})
		if err != nil {
			return err
		}
		t.ahead = bytes.Clone(newer.Rest())
	}
	if h.pause != nil && t.of.Ended {
		// Later records of sub-agents, such as their questions, precede the end of the response.
		h.end = new(t.atTheEnd(*h.pause))
	} else {
		t.deferred = h.pause
	}
	if t.of.Own {
		h.from, err = t.resumePoint(ctx)
	}
	return err
}

// readThrough passes the next records to do, up to Turn.Through. It returns the reader of those that were read with them.
func (t *turn) readThrough(ctx context.Context, from turnCursor, do func(*chunk.Record) error) (hub.RecordReader, error) {
	for {
		batch, wait, err := from.Poll(ctx)
		if err != nil {
			return hub.RecordReader{}, err
		}
		if wait != nil {
			select {
			case <-wait:
			case <-ctx.Done():
			}
			continue
		}
		records := hub.ReadRecords(batch.Frames, t.of.Session)
		for records.Next() {
			if err := do(&records.Record); err != nil || records.Record.Seq >= t.of.Through {
				return records, err
			}
		}
		if records.Err != nil {
			return records, records.Err
		}
	}
}

// addHistory adds the next record to the history.
func (t *turn) addHistory(rec *chunk.Record) {
	h := &t.history
	t.last = rec.Cursor()
	h.lost = h.lost || t.lostStep(rec)
	h.replay.FindRemoved(*rec)
	if rec.Session != t.of.Session {
		return
	}
	switch rec.Type {
	case chunk.TypeStreamPaused:
		h.pause = cloned(rec)
	case chunk.TypeRunStarted, chunk.TypeStreamActive: // the run continues after the pause
		h.pause = nil
	}
}

// each passes the records of the history that belong to the message to do, with their indexes. Their Data is valid during the call.
func (t *turn) each(ctx context.Context, do func(i int, rec *chunk.Record) error) error {
	h, n := &t.history, 0
	own := func(rec *chunk.Record) error {
		if h.pause != nil && rec.Type == chunk.TypeStreamPaused && rec.Seq == h.pause.Seq {
			return nil
		}
		n++
		return do(n-1, rec)
	}
	if t.of.Opening != nil {
		if err := own(t.of.Opening); err != nil {
			return err
		}
	}
	if t.of.Through != t.of.Start.Seq {
		records := turnCursor(keptRecords(h.kept))
		if h.long {
			var err error
			if records, err = t.of.Follow(ctx, t.of.Start, t.of.Through); err != nil {
				return err
			}
		}
		defer records.Close()
		if _, err := t.readThrough(ctx, records, own); err != nil {
			return err
		}
	}
	if h.end != nil {
		return do(n, h.end)
	}
	return nil
}

// keptRecords is a turnCursor of records in memory.
type keptRecords []byte

func (k keptRecords) Poll(context.Context) (hub.Batch, <-chan struct{}, error) {
	return hub.Batch{Frames: k}, nil, nil
}

func (keptRecords) Close() {}

// writeHistory writes the frames of the history: all of it, or the part that the client does not have.
func (t *turn) writeHistory(ctx context.Context, send func([]byte) error) (err error) {
	flush := func(least int) error {
		if len(t.frames) < least {
			return nil
		}
		err := send(t.frames)
		t.frames = t.frames[:0]
		return err
	}
	if t.history.long { // the passes before the first frame take a moment
		if err := flush(0); err != nil {
			return err
		}
	}
	switch replaces := t.of.AISDK.Major >= 7 && t.history.lost; {
	case t.of.Continues && !replaces:
		err = t.writeTail(ctx, flush)
	case t.of.Own:
		err = t.writeNew(ctx, flush)
	default:
		t.frames = t.out.Start(t.frames)
		err = t.writeReplay(ctx, flush)
	}
	if err == nil && t.of.Ended {
		t.frames = t.out.Finish(t.frames)
	}
	return err
}

// writeTail is for a client that has a cursor: it gets the records after it.
func (t *turn) writeTail(ctx context.Context, flush func(least int) error) error {
	return t.each(ctx, func(_ int, rec *chunk.Record) error {
		if rec.Seq <= t.of.After.Seq {
			t.advance(rec)
			return nil
		}
		t.append(rec)
		return flush(flushBytes)
	})
}

// advance takes a record that the client has.
func (t *turn) advance(rec *chunk.Record) {
	if shown, ok := t.of.View.Record(*rec); ok {
		t.out.Advance(shown)
	} else {
		t.out.Hide(nil, *rec)
	}
}

// writeNew is for a client that continues its own message: it gets the records since the pause at which its response ended.
func (t *turn) writeNew(ctx context.Context, flush func(least int) error) error {
	err := t.each(ctx, func(i int, rec *chunk.Record) error {
		if i < t.history.from {
			t.advance(rec)
		}
		return nil
	})
	if err != nil {
		return err
	}
	t.out.Continue()
	t.frames = t.of.Head(t.out.Start(t.frames))
	return t.writeReplay(ctx, flush)
}

// writeReplay writes the records that the client does not have in its own message.
func (t *turn) writeReplay(ctx context.Context, flush func(least int) error) (err error) {
	records := func(yield func(rec chunk.Record, shown bool) bool) {
		if err != nil {
			return
		}
		err = t.each(ctx, func(i int, rec *chunk.Record) error {
			if i < t.history.from {
				return nil
			}
			if shown, ok := t.of.View.Record(*rec); ok {
				yield(shown, true)
			} else {
				yield(*rec, false)
			}
			return err
		})
	}
	t.frames = t.history.replay.Write(t.frames, records, func(frames []byte) []byte {
		t.frames = frames
		err = flush(flushBytes)
		return t.frames
	})
	return err
}

// lostStep reports whether rec removed records that the client may have, after its cursor. The log no longer has them, so the edge cannot compute which parts the
// client must remove. Version 7 replaces its message by the one after a start; version 6 would show both, and gets data-truncated.
func (t *turn) lostStep(rec *chunk.Record) bool {
	if rec.Type != chunk.TypeTruncated || rec.Session != t.of.Session || rec.Seq <= t.of.After.Seq {
		return false
	}
	b, ok := chunk.BodyOf[chunk.Truncated](*rec)
	return ok && b.FromSequence <= int64(t.of.After.Seq)
}

// resumePoint returns the index in the history at which the client's message ends. Its number of steps and the outcomes that it does not have identify the pause
// at which its response ended: another tab may have answered, and the run may have paused again since. The error is ErrUnfinished if the message ends in the
// middle of the output of a run. While the last pause lasts, the questions of sub-agents end responses, and the run of a sub-agent that got its answer begins
// the next one.
func (t *turn) resumePoint(ctx context.Context) (from int, err error) {
	pause, shows := t.history.pause, t.of.Steps
	probe := aisdk.New(t.of.MessageID, t.of.AISDK)
	var frames []byte
	n, steps, found, atFound := 0, 0, -1, 0
	missed := false // an outcome that the client does not have was found: its response ended before
	add := func(rec *chunk.Record) {
		frames = appendShown(frames[:0], t.of.View, rec, probe)
		steps += bytes.Count(frames, startStep)
	}
	err = t.each(ctx, func(i int, rec *chunk.Record) error {
		if pause != nil && rec.Type == chunk.TypeRunStarted && rec.Seq > pause.Seq {
			again := *pause
			again.Ordinal = 0 // it may be appended several times
			add(&again)
		}
		// After a response has ended, the next run resumes the answer: the message's own, or that of the sub-agent that the user has answered.
		if rec.Type == chunk.TypeRunStarted && probe.Done() && !missed && !isTakeover(rec) {
			if found < 0 || steps <= shows || shows == 0 {
				found, atFound = i, steps
			}
		}
		missed = missed || found >= 0 && t.isMissedOutcome(rec)
		add(rec)
		n++
		return nil
	})
	// It has everything if nothing follows, if the next run has not begun, or if the pause may end without the user.
	hasAll := !missed && (shows >= steps && (t.of.Ended || t.awaited != "" || t.deferred != nil) || shows == 0 && (t.of.Ended || t.awaited != ""))
	switch {
	case err != nil:
		return 0, err
	case hasAll:
		return n, nil
	case found < 0 || shows > atFound:
		return 0, ErrUnfinished
	}
	return found, nil
}

var startStep = []byte(`{"type":"start-step"`)

func isTakeover(rec *chunk.Record) bool {
	b, ok := chunk.BodyOf[chunk.RunStarted](*rec)
	return ok && b.Mode == "takeover"
}

// isMissedOutcome reports whether a record is the outcome of a call that has none in the client's message.
func (t *turn) isMissedOutcome(rec *chunk.Record) bool {
	switch rec.Type {
	case chunk.TypeToolEnd, chunk.TypeToolOutputError, chunk.TypeToolInputError:
	case chunk.TypeToolApprovalResponse: // the outcome of a call that was denied
		if b, ok := chunk.BodyOf[chunk.ToolApprovalResponse](*rec); !ok || b.Approved {
			return false
		}
	default:
		return false
	}
	var m chunk.Members
	if m.Read(rec.Data) != nil {
		return false
	}
	id := m.Text("toolCallId")
	if rec.Session != t.of.Session {
		id = dialect.CallID(rec.Session.ID, id)
	}
	return slices.Contains(t.of.Decided, id)
}

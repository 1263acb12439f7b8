package storetest

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Log is a log in memory: a projector.Log that a test writes to, cleans up and
// lets expire.
type Log struct {
	// Fault, if not nil, is asked before each reading; an error is what the
	// reading yields.
	Fault func(s chunk.Session) error

	mu       sync.Mutex // guards what follows
	seq      chunk.Seq
	sessions map[chunk.Session]*sessionLog
	readings int
}

type sessionLog struct {
	records []chunk.Record // what is there, in order
	last    chunk.Ordinal
	epoch   chunk.Epoch
	marked  []chunk.OrdinalRange // listed by marks
}

// NewLog is an empty log.
func NewLog() *Log { return &Log{sessions: make(map[chunk.Session]*sessionLog)} }

// Append writes one chunk in a step. A run_started begins an epoch.
func (l *Log) Append(tb testing.TB, s chunk.Session, step int64, body chunk.Body) chunk.Record {
	tb.Helper()
	c := chunk.Chunk{AgentID: s.ID, AgentType: "agent", Timestamp: 1, Step: step, Body: body}
	data, err := c.AppendJSON(nil)
	if err != nil {
		tb.Fatalf("%T: %v", body, err)
	}
	return l.AppendRaw(s, body.Type(), data)
}

// AppendRaw writes any bytes as a record of a type.
func (l *Log) AppendRaw(s chunk.Session, typ chunk.Type, data []byte) chunk.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	sl := l.sessions[s]
	if sl == nil {
		sl = &sessionLog{}
		l.sessions[s] = sl
	}
	if typ == chunk.TypeRunStarted || sl.epoch == 0 {
		sl.epoch++
	}
	l.seq++
	sl.last++
	rec := chunk.Record{
		Seq: l.seq, Session: s, Epoch: sl.epoch, Ordinal: sl.last, Type: typ,
		Stored: time.Unix(1_700_000_000, 0).Add(time.Duration(l.seq) * time.Millisecond).UTC(), Data: data,
	}
	sl.records = append(sl.records, rec)
	return rec
}

// Mark writes the mark of a clean-up that takes back the chunks of a higher step
// than the given one, and returns it; without any there is no mark. Sweep
// deletes what it lists.
func (l *Log) Mark(tb testing.TB, s chunk.Session, step int64) (chunk.Record, bool) {
	tb.Helper()
	var removed []chunk.OrdinalRange
	for _, rec := range l.Records(s) {
		c, err := rec.Decode()
		if err == nil && !rec.Type.Control() && c.Step > step && !l.isMarked(s, rec.Ordinal) {
			removed = append(removed, chunk.OrdinalRange{First: int64(rec.Ordinal), Last: int64(rec.Ordinal)})
		}
	}
	if len(removed) == 0 {
		return chunk.Record{}, false
	}
	rec := l.Append(tb, s, step, chunk.Truncated{TruncatedAtStep: step, AtSequence: int64(l.Tip()), FromSequence: 1, Removed: removed})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sessions[s].marked = append(l.sessions[s].marked, removed...)
	return rec, true
}

func (l *Log) isMarked(s chunk.Session, o chunk.Ordinal) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sessions[s].covers(int64(o))
}

func (sl *sessionLog) covers(o int64) bool {
	for _, r := range sl.marked {
		if r.First <= o && o <= r.Last {
			return true
		}
	}
	return false
}

// Sweep deletes what marks have listed.
func (l *Log) Sweep(s chunk.Session) {
	l.keep(s, func(sl *sessionLog, rec chunk.Record) bool { return !sl.covers(int64(rec.Ordinal)) })
}

// Expire lets go of the records up to an ordinal.
func (l *Log) Expire(s chunk.Session, through chunk.Ordinal) {
	l.keep(s, func(_ *sessionLog, rec chunk.Record) bool { return rec.Ordinal > through })
}

// Lose takes one record out of the middle, which nothing explains.
func (l *Log) Lose(s chunk.Session, o chunk.Ordinal) {
	l.keep(s, func(_ *sessionLog, rec chunk.Record) bool { return rec.Ordinal != o })
}

func (l *Log) keep(s chunk.Session, stays func(*sessionLog, chunk.Record) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sl := l.sessions[s]
	var left []chunk.Record
	for _, rec := range sl.records {
		if stays(sl, rec) {
			left = append(left, rec)
		}
	}
	sl.records = left
}

// Records are those of s that are there.
func (l *Log) Records(s chunk.Session) []chunk.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sl := l.sessions[s]; sl != nil {
		return append([]chunk.Record(nil), sl.records...)
	}
	return nil
}

// Tip is the last sequence.
func (l *Log) Tip() chunk.Seq {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq
}

// Last implements projector.Log.
func (l *Log) Last(ctx context.Context, s chunk.Session) (chunk.Record, error) {
	if l.Fault != nil {
		if err := l.Fault(s); err != nil {
			return chunk.Record{}, err
		}
	}
	records := l.Records(s)
	if len(records) == 0 {
		return chunk.Record{}, fmt.Errorf("%s: %w", s, chunk.ErrUnknownSession)
	}
	return records[len(records)-1], ctx.Err()
}

// Readings counts the calls of Replay and ReplayFloor.
func (l *Log) Readings() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.readings
}

// Replay implements projector.Log.
func (l *Log) Replay(ctx context.Context, s chunk.Session, after chunk.Position) iter.Seq2[chunk.Record, error] {
	return l.replay(ctx, s, after, false)
}

// ReplayFloor implements projector.Log.
func (l *Log) ReplayFloor(ctx context.Context, s chunk.Session, after chunk.Position) iter.Seq2[chunk.Record, error] {
	return l.replay(ctx, s, after, true)
}

func (l *Log) replay(ctx context.Context, s chunk.Session, after chunk.Position, floor bool) iter.Seq2[chunk.Record, error] {
	return func(yield func(chunk.Record, error) bool) {
		l.mu.Lock()
		l.readings++
		l.mu.Unlock()
		if l.Fault != nil {
			if err := l.Fault(s); err != nil {
				yield(chunk.Record{}, err)
				return
			}
		}
		records := l.Records(s)
		if len(records) == 0 {
			yield(chunk.Record{}, fmt.Errorf("%s: %w", s, chunk.ErrUnknownSession))
			return
		}
		last := after.Ordinal
		for _, rec := range records {
			if rec.Ordinal <= last {
				continue
			}
			if floor {
				last, floor = rec.Ordinal-1, false
			}
			if err := l.explain(s, last, rec, records[0], after); err != nil {
				yield(chunk.Record{}, err)
				return
			}
			if err := ctx.Err(); err != nil {
				yield(chunk.Record{}, err)
				return
			}
			last = rec.Ordinal
			if !yield(rec, nil) {
				return
			}
		}
	}
}

// explain says why the records between last and rec are missing, if marks do
// not.
func (l *Log) explain(s chunk.Session, last chunk.Ordinal, rec, first chunk.Record, after chunk.Position) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for o := last + 1; o < rec.Ordinal; o++ {
		if l.sessions[s].covers(int64(o)) {
			continue
		}
		reason := chunk.TruncatedGap
		if first.Ordinal == rec.Ordinal {
			reason = chunk.TruncatedExpired
		}
		return &chunk.TruncatedError{Session: s, Reason: reason, After: after.Seq, Floor: first.Seq}
	}
	return nil
}

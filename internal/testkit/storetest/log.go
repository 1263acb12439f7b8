package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Log is a projector.Log in memory. Tests write to it, run cleanups and let records expire.
type Log struct {
	// Fault, if not nil, is called before each replay. The replay yields its error.
	Fault func(s chunk.Session) error

	mu       sync.Mutex // guards the fields below
	seq      chunk.Seq
	lives    int // how often the log was rolled back
	sessions map[chunk.Session]*sessionLog
	replays  int
}

type sessionLog struct {
	records []chunk.Record // the available records, in order
	last    chunk.Ordinal
	epoch   chunk.Epoch
	removed []chunk.OrdinalRange // listed by truncated records
}

// NewLog returns an empty log.
func NewLog() *Log { return &Log{sessions: make(map[chunk.Session]*sessionLog)} }

// Append writes one chunk of a step. A run_started starts an epoch.
func (l *Log) Append(tb testing.TB, s chunk.Session, step int64, body chunk.Body) chunk.Record {
	tb.Helper()
	c := chunk.Chunk{AgentID: s.ID, AgentType: "agent", Timestamp: 1, Step: step, Body: body}
	data, err := c.AppendJSON(nil)
	if err != nil {
		tb.Fatalf("%T: %v", body, err)
	}
	return l.AppendRaw(s, c.Type(), data)
}

// AppendRaw writes data as a record of a type.
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
		StoredAt: time.Unix(1_700_000_000, 0).Add(time.Duration(l.lives)*time.Hour + time.Duration(l.seq)*time.Millisecond).UTC(), Data: data,
	}
	sl.records = append(sl.records, rec)
	return rec
}

// Restart makes the next record of s that of a writer that knows only the records up to an ordinal, and their highest epoch. 0 and 0: none of them.
func (l *Log) Restart(s chunk.Session, known chunk.Ordinal, epoch chunk.Epoch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sl := l.sessions[s]; sl != nil {
		sl.last, sl.epoch, sl.removed = known, epoch, nil
	}
}

// AppendTruncation appends a truncated record that removes the chunks of steps after the given one, and returns it; false if there are none.
// DeleteRemoved deletes the removed records.
func (l *Log) AppendTruncation(tb testing.TB, s chunk.Session, step int64) (chunk.Record, bool) {
	tb.Helper()
	var removed []chunk.OrdinalRange
	for _, rec := range l.Records(s) {
		c, err := rec.Decode()
		if err == nil && !rec.Type.Control() && c.Step > step && !l.isRemoved(s, rec.Ordinal) {
			removed = append(removed, chunk.OrdinalRange{First: int64(rec.Ordinal), Last: int64(rec.Ordinal)})
		}
	}
	if len(removed) == 0 {
		return chunk.Record{}, false
	}
	rec := l.Append(tb, s, step, chunk.Truncated{TruncatedAtStep: step, AtSequence: int64(l.Tip()), FromSequence: 1, Removed: removed})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sessions[s].removed = append(l.sessions[s].removed, removed...)
	return rec, true
}

func (l *Log) isRemoved(s chunk.Session, o chunk.Ordinal) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sessions[s].covers(int64(o))
}

func (sl *sessionLog) covers(o int64) bool {
	for _, r := range sl.removed {
		if r.First <= o && o <= r.Last {
			return true
		}
	}
	return false
}

// DeleteRemoved deletes the records that truncated records have listed.
func (l *Log) DeleteRemoved(s chunk.Session) {
	l.retain(s, func(sl *sessionLog, rec chunk.Record) bool { return !sl.covers(int64(rec.Ordinal)) })
}

// Expire deletes the records up to an ordinal.
func (l *Log) Expire(s chunk.Session, through chunk.Ordinal) {
	l.retain(s, func(_ *sessionLog, rec chunk.Record) bool { return rec.Ordinal > through })
}

// ExpireThrough deletes the records of all sessions up to a sequence.
func (l *Log) ExpireThrough(seq chunk.Seq) {
	for s := range l.sessions {
		l.retain(s, func(_ *sessionLog, rec chunk.Record) bool { return rec.Seq > seq })
	}
}

// RollBack restores the log as it was when its last record was the one at a sequence: it assigns sequences and ordinals again.
func (l *Log) RollBack(through chunk.Seq) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq = through
	l.lives++
	for s, sl := range l.sessions {
		n := 0
		for n < len(sl.records) && sl.records[n].Seq <= through {
			n++
		}
		if sl.records = sl.records[:n:n]; n == 0 {
			delete(l.sessions, s)
			continue
		}
		sl.last, sl.epoch = sl.records[n-1].Ordinal, sl.records[n-1].Epoch
	}
}

// HasRecord implements projector.Log.
func (l *Log) HasRecord(_ context.Context, s chunk.Session, at chunk.Position, anchor chunk.Anchor) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	other := at.Seq > l.seq
	for of, sl := range l.sessions {
		for _, rec := range sl.records {
			if rec.Seq == at.Seq && of == s && anchor == rec.Anchor() {
				return true, nil
			}
			other = other || rec.Seq == at.Seq
		}
	}
	sl := l.sessions[s]
	if anchor == 0 || !other || sl == nil || len(sl.records) == 0 || sl.records[0].Ordinal > at.Ordinal {
		return false, nil
	}
	return false, &chunk.TruncatedError{Session: s, Reason: chunk.TruncatedRecreated, After: at.Seq}
}

// DropRecord deletes one record without a truncated record.
func (l *Log) DropRecord(s chunk.Session, o chunk.Ordinal) {
	l.retain(s, func(_ *sessionLog, rec chunk.Record) bool { return rec.Ordinal != o })
}

func (l *Log) retain(s chunk.Session, stays func(*sessionLog, chunk.Record) bool) {
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

// Records returns the available records of s.
func (l *Log) Records(s chunk.Session) []chunk.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sl := l.sessions[s]; sl != nil {
		return append([]chunk.Record(nil), sl.records...)
	}
	return nil
}

// Tip returns the last sequence.
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

// ReplayCount returns the number of calls of Replay.
func (l *Log) ReplayCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.replays
}

// Replay implements projector.Log. It does not support Tree and Through, which no fold sets.
func (l *Log) Replay(ctx context.Context, of chunk.Range) iter.Seq2[chunk.Record, error] {
	return func(yield func(chunk.Record, error) bool) {
		records, err := l.open(ctx, of)
		if err != nil {
			yield(chunk.Record{}, err)
			return
		}
		last := of.After.Ordinal
		fromOldest := of.FromOldest
		for _, rec := range records {
			if rec.Seq <= of.After.Seq {
				continue
			}
			if fromOldest && (rec.Ordinal > last || rec.Seq == records[0].Seq) {
				last = rec.Ordinal - 1
			}
			fromOldest = false
			if err := cmp.Or(l.explain(of.Session, last, rec, records[0], of.After), ctx.Err()); err != nil {
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

// open returns the records of the session of a range that can be replayed.
func (l *Log) open(ctx context.Context, of chunk.Range) ([]chunk.Record, error) {
	if of.Tree || of.Through > 0 {
		return nil, errors.New("storetest: Tree and Through are not supported")
	}
	l.mu.Lock()
	l.replays++
	l.mu.Unlock()
	if l.Fault != nil {
		if err := l.Fault(of.Session); err != nil {
			return nil, err
		}
	}
	records := l.Records(of.Session)
	if len(records) == 0 {
		return nil, fmt.Errorf("%s: %w", of.Session, chunk.ErrUnknownSession)
	}
	_, err := l.HasRecord(ctx, of.Session, of.After, of.Anchor)
	return records, err
}

// explain returns an error if records between last and rec are missing and no truncated record lists them, or if rec has an ordinal up to last.
func (l *Log) explain(s chunk.Session, last chunk.Ordinal, rec, first chunk.Record, after chunk.Position) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	follows := rec.Ordinal > last
	for o := last + 1; o < rec.Ordinal; o++ {
		follows = follows && l.sessions[s].covers(int64(o))
	}
	if follows {
		return nil
	}
	reason := chunk.TruncatedGap
	if first.Seq == rec.Seq {
		reason = chunk.TruncatedExpired
	}
	return &chunk.TruncatedError{Session: s, Reason: reason, After: after.Seq, FirstSeq: first.Seq}
}

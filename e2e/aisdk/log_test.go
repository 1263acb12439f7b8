//go:build e2e

package aisdk

import (
	"errors"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/projector/fold"
)

var root = chunk.RootSession("acme", "chat1")

// log is the records of one tree.
type log struct {
	tb      testing.TB
	records []chunk.Record // of the whole tree, ordered
	seq     chunk.Seq
	writers map[chunk.Session]*writer
	removed map[chunk.Seq]int // removed records, with the index of their truncation record
}

// writer writes one session of the tree.
type writer struct {
	log     *log
	session chunk.Session
	epoch   chunk.Epoch
	ordinal chunk.Ordinal
	step    int64
	steps   map[chunk.Ordinal]int64
}

func newLog(tb testing.TB) *log {
	tb.Helper()
	return &log{tb: tb, seq: 40, writers: make(map[chunk.Session]*writer), removed: make(map[chunk.Seq]int)}
}

func (l *log) root() *writer { return l.of(root) }

func (l *log) of(s chunk.Session) *writer {
	w, ok := l.writers[s]
	if !ok {
		w = &writer{log: l, session: s, steps: make(map[chunk.Ordinal]int64)}
		l.writers[s] = w
	}
	return w
}

// emit writes chunks with these bodies. A step_start increments the step, a
// run_started the epoch.
func (w *writer) emit(bodies ...chunk.Body) {
	w.log.tb.Helper()
	for _, b := range bodies {
		w.with(b)
	}
}

func (w *writer) with(b chunk.Body, extra ...chunk.Member) {
	w.log.tb.Helper()
	switch run := b.(type) {
	case chunk.RunStarted:
		w.epoch++
		run.Epoch = int64(w.epoch)
		b = run
		if run.Mode == "execute" {
			w.step = 0
		}
	case chunk.StepStart:
		w.step++
	}
	l := w.log
	l.seq += chunk.Seq(1 + len(l.records)%3)
	w.ordinal++
	c := chunk.Chunk{AgentID: w.session.ID, AgentType: "agent", Timestamp: 1, Step: w.step, Body: b, Extra: extra}
	data, err := c.AppendJSON(nil)
	if err != nil {
		l.tb.Fatalf("%T: %v", b, err)
	}
	w.steps[w.ordinal] = w.step
	l.records = append(l.records, chunk.Record{
		Seq: l.seq, Session: w.session, Epoch: w.epoch, Ordinal: w.ordinal, Type: c.Type(), StoredAt: time.UnixMilli(int64(l.seq)), Data: data,
	})
}

// takeover writes the records of a worker that continues for a dead one:
// everything in steps above step is removed.
func (w *writer) takeover(runID string, step int64) {
	w.log.tb.Helper()
	at := w.log.seq
	w.emit(chunk.RunStarted{RunID: runID, Mode: "takeover"})
	mark := chunk.Truncated{TruncatedAtStep: step, AtSequence: int64(at)}
	for _, rec := range w.log.records {
		if rec.Session != w.session || rec.Type.Control() || w.steps[rec.Ordinal] <= step || w.log.removed[rec.Seq] != 0 {
			continue
		}
		w.log.removed[rec.Seq] = len(w.log.records)
		o := int64(rec.Ordinal)
		if n := len(mark.Removed); n > 0 && mark.Removed[n-1].Last == o-1 {
			mark.Removed[n-1].Last = o
		} else {
			mark.Removed = append(mark.Removed, chunk.OrdinalRange{First: o, Last: o})
		}
		if mark.FromSequence == 0 {
			mark.FromSequence = int64(rec.Seq)
		}
	}
	w.step = min(w.step, step)
	if len(mark.Removed) > 0 {
		w.emit(mark)
	}
	w.emit(chunk.StreamResync{CheckpointID: "cp", StepCount: step, Reason: "crash_recovery"})
}

// survivors returns the first n records without those that a truncation record
// among them removed, as a reader of the log gets them.
func (l *log) survivors(first, n int) []chunk.Record {
	var out []chunk.Record
	for _, rec := range l.records[first:n] {
		if mark := l.removed[rec.Seq]; mark == 0 || mark >= n {
			out = append(out, rec)
		}
	}
	return out
}

// snapshot returns the fold of the root's session over the first n records.
func (l *log) snapshot(n int) fold.Snapshot {
	l.tb.Helper()
	folder := fold.New(root)
	for _, rec := range l.survivors(0, n) {
		if rec.Session != root {
			continue
		}
		folder.SkipGap(rec, fold.GapRemoved)
		err := folder.Apply(rec)
		if errors.Is(err, fold.ErrInvalidRecord) {
			err = folder.Skip(rec, err.Error())
		}
		if err != nil {
			l.tb.Fatalf("fold %d: %v", rec.Seq, err)
		}
	}
	return folder.Snapshot()
}

// turn is one assistant message: the records [first, last) and its id.
type turn struct {
	id          string
	first, last int
}

// turns returns the turns of the log according to the fold.
func (l *log) turns() []turn {
	l.tb.Helper()
	var out []turn
	for n := range l.records {
		if rec := l.records[n]; rec.Session != root || rec.Type != chunk.TypeRunStarted {
			continue
		}
		s := l.snapshot(n + 1)
		if s.TurnStart().Seq != l.records[n].Seq {
			continue
		}
		if len(out) > 0 {
			out[len(out)-1].last = n
		}
		out = append(out, turn{id: fold.MessageID(s.TurnMessages()), first: n, last: len(l.records)})
	}
	return out
}

// want returns the assistant message with an id in the snapshot over the first
// n records.
func (l *log) want(n int, id string) []byte {
	l.tb.Helper()
	for _, m := range aisdk.Snapshot(l.snapshot(n), aisdk.SnapshotOptions{Partial: true}).Messages {
		if m.ID == id {
			return m.AppendJSON(nil)
		}
	}
	return []byte(`{"id":"` + id + `","role":"assistant","parts":[]}`)
}

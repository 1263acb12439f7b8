package memlog

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Log is one stream in memory. It is a hub.Log and a hub.Feed of one partition. It is safe for concurrent use.
type Log struct {
	mu      sync.Mutex
	stored  []message // the current messages, by sequence
	last    chunk.Seq // of the newest message, also if it was deleted
	clock   time.Time // when the newest message was stored
	lives   int       // how often the stream was recreated
	writers map[chunk.Session]*writer
	changed chan struct{} // closed at the next change
	version int           // rises with every change
	faults  faults
}

// message is a record, or a malformed message.
type message struct {
	rec       chunk.Record
	malformed bool
}

// writer is the state of the only writer of a session.
type writer struct {
	epoch   chunk.Epoch
	ordinal chunk.Ordinal
}

// New returns an empty log.
func New() *Log {
	return &Log{writers: make(map[chunk.Session]*writer), changed: make(chan struct{})}
}

// Append stores the next record of s. members are the members of the chunk's JSON after the base members, e.g. `"delta":"Hel"`, or "".
func (l *Log) Append(s chunk.Session, typ chunk.Type, members string) chunk.Record {
	return l.AppendAt(s, typ, 1, members)
}

// AppendAt is Append with a step.
func (l *Log) AppendAt(s chunk.Session, typ chunk.Type, step int64, members string) chunk.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.append(s, typ, Body(s, typ, step, members))
}

// Takeover starts a new epoch: the next records of s are those of a new writer.
func (l *Log) Takeover(s chunk.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writer(s).epoch++
}

// Restart makes the next record of s that of a writer that does not know the earlier ones: its epochs and ordinals start again at 1.
func (l *Log) Restart(s chunk.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.writers, s)
}

// AppendFenced stores a record of a fenced writer, with an ordinal that another record has: readers must skip it.
func (l *Log) AppendFenced(s chunk.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.writer(s)
	if w.epoch < 2 {
		panic("memlog: no fenced writer")
	}
	l.store(message{rec: chunk.Record{
		Session: s, Epoch: w.epoch - 1, Ordinal: max(w.ordinal, 1), Type: chunk.TypeTextDelta,
		Data: Body(s, chunk.TypeTextDelta, 1, `"delta":"of a fenced writer"`),
	}})
}

// AppendMalformed stores a malformed message on the subject of s.
func (l *Log) AppendMalformed(s chunk.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store(message{rec: chunk.Record{Session: s}, malformed: true})
}

// AppendTruncation is the first half of a cleanup: it stores the truncated record of s that lists the chunks of a step above step and a sequence above minSeq,
// and returns the sequences for Delete. If there are none it stores nothing.
func (l *Log) AppendTruncation(s chunk.Session, step int64, minSeq chunk.Seq) []chunk.Seq {
	l.mu.Lock()
	defer l.mu.Unlock()
	toRemove, members := PlanCleanup(current(l.stored, func(other chunk.Session) bool { return other == s }), s, step, minSeq)
	if len(toRemove) > 0 {
		l.append(s, chunk.TypeTruncated, Body(s, chunk.TypeTruncated, step, members))
	}
	return toRemove
}

// PlanCleanup returns the sequences that a cleanup of s removes from the stored records, and the members of its truncated record.
func PlanCleanup(there []chunk.Record, s chunk.Session, step int64, minSeq chunk.Seq) (toRemove []chunk.Seq, members string) {
	last, removed := chunk.Seq(0), ""
	for _, rec := range there {
		if rec.Session != s {
			continue
		}
		last = rec.Seq
		if !rec.Type.Control() && rec.Seq > minSeq && stepOf(rec) > step {
			toRemove = append(toRemove, rec.Seq)
			removed += fmt.Sprintf(`,{"first":%d,"last":%d}`, rec.Ordinal, rec.Ordinal) //nolint:perfsprint // a handful of records, once
		}
	}
	if len(toRemove) == 0 {
		return nil, ""
	}
	return toRemove, fmt.Sprintf(`"truncatedAtStep":%d,"minSequence":%d,"fromSequence":%d,"atSequence":%d,"removed":[%s]`,
		step, minSeq, toRemove[0], last, removed[1:])
}

// Delete is the second half of a cleanup; other sequences become an unexplained gap.
func (l *Log) Delete(seqs ...chunk.Seq) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stored = slices.DeleteFunc(l.stored, func(m message) bool { return slices.Contains(seqs, m.rec.Seq) })
	l.wake()
}

// Cleanup is AppendTruncation and Delete.
func (l *Log) Cleanup(s chunk.Session, step int64, minSeq chunk.Seq) {
	l.Delete(l.AppendTruncation(s, step, minSeq)...)
}

// Expire removes everything up to a sequence, inclusive.
func (l *Log) Expire(through chunk.Seq) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stored = slices.DeleteFunc(l.stored, func(m message) bool { return m.rec.Seq <= through })
	l.wake()
}

// Purge removes everything of one session.
func (l *Log) Purge(s chunk.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stored = slices.DeleteFunc(l.stored, func(m message) bool { return m.rec.Session == s })
	l.wake()
}

// Recreate deletes the stream and creates an empty one with the same name. Its sequences start at 1, as do the epochs of writers. Open feeds end.
func (l *Log) Recreate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stored, l.last = nil, 0
	l.lives++
	clear(l.writers)
	l.faults.generation++
	l.wake()
}

// RollBack removes everything after a sequence as a server does that restarts with an older copy of its files: the stream keeps its epoch, and assigns the
// sequences and ordinals again. Open feeds end.
func (l *Log) RollBack(through chunk.Seq) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stored = slices.DeleteFunc(l.stored, func(m message) bool { return m.rec.Seq > through })
	l.last = min(l.last, through)
	for _, w := range l.writers {
		w.ordinal = 0
	}
	for _, m := range l.stored {
		l.writer(m.rec.Session).ordinal = max(l.writer(m.rec.Session).ordinal, m.rec.Ordinal)
	}
	l.faults.generation++
	l.wake()
}

// Tree returns the records of a root and its sub-agents that are in the log.
func (l *Log) Tree(root chunk.Session) []chunk.Record {
	return l.records(func(s chunk.Session) bool { return s.Tree() == root })
}

// Session returns the records of one session that are in the log.
func (l *Log) Session(s chunk.Session) []chunk.Record {
	return l.records(func(other chunk.Session) bool { return s == other })
}

// End returns the last sequence of the stream.
func (l *Log) End() chunk.Seq {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

func (l *Log) records(of func(chunk.Session) bool) []chunk.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return current(l.stored, of)
}

// current returns the records that readers get: without malformed messages and records of fenced writers.
func current(stored []message, of func(chunk.Session) bool) []chunk.Record {
	var recs []chunk.Record
	epochs := make(map[chunk.Session]chunk.Epoch)
	for _, m := range stored {
		if m.malformed || !of(m.rec.Session) || m.rec.Epoch < epochs[m.rec.Session] {
			continue
		}
		epochs[m.rec.Session] = m.rec.Epoch
		recs = append(recs, m.rec)
	}
	return recs
}

func (l *Log) append(s chunk.Session, typ chunk.Type, data []byte) chunk.Record {
	w := l.writer(s)
	w.ordinal++
	return l.store(message{rec: chunk.Record{Session: s, Epoch: w.epoch, Ordinal: w.ordinal, Type: typ, Data: data}})
}

func (l *Log) store(m message) chunk.Record {
	l.last++
	// No two records have the same anchor, also if the clock of the test does not advance.
	l.clock = l.clock.Add(time.Millisecond)
	if now := time.Now(); now.After(l.clock) {
		l.clock = now
	}
	m.rec.Seq, m.rec.StoredAt = l.last, l.clock
	l.stored = append(l.stored, m)
	l.wake()
	return m.rec
}

func (l *Log) writer(s chunk.Session) *writer {
	w := l.writers[s]
	if w == nil {
		w = &writer{epoch: 1}
		l.writers[s] = w
	}
	return w
}

func (l *Log) wake() {
	l.version++
	close(l.changed)
	l.changed = make(chan struct{})
}

// bodyTime is the timestamp of every chunk.
const bodyTime = 1_700_000_000_000

// Body returns the JSON of a chunk of s with base members and more.
func Body(s chunk.Session, typ chunk.Type, step int64, members string) []byte {
	b := []byte(`{"type":"` + string(typ) + `","agentId":"` + s.ID + `","agentType":"tester","timestamp":1700000000000,"step":`)
	b = strconv.AppendInt(b, step, 10)
	if members != "" {
		b = append(append(b, ','), members...)
	}
	return append(b, '}')
}

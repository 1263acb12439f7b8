package producers

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/values"
	"github.com/tailrace/tailrace/internal/wait"
)

// fakeLog is a log in memory that checks the expected sequence, as a server does, and injects the faults of a test.
// TestFakeLogMatchesServer compares it with a server.
type fakeLog struct {
	t *testing.T
	s chunk.Session

	mu        sync.Mutex // guards the fields below
	msgs      []message
	seq       chunk.Seq // of the stream, which has other sessions too
	inFlight  int       // concurrent publishes: more than one is a bug
	calls     int
	batches   bool                                      // publish takes several messages
	abandoned map[uint64]chan func() (chunk.Seq, error) // attempts whose wait was abandoned
	removed   []chunk.Seq

	// fault returns the fault of the nth call of publish, counted from 1; nil lets all pass. It runs without the lock.
	fault func(n int, m outgoing) fault
	// failRemove makes deletes fail; nil lets all pass.
	failRemove func(n int) error
	removes    int
	stored     chan struct{} // gets a token for each stored message, if not nil
	limit      int

	writeError error // of writeFailed

	values     map[values.Key][]byte
	valueError error // of putValue
}

func (l *fakeLog) putValue(_ context.Context, k values.Key, _ string, data []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.values == nil {
		l.values = make(map[values.Key][]byte)
	}
	l.values[k] = data
	return l.valueError
}

// fault is the fault of one attempt, before and after the log stores it.
type fault struct {
	delay  time.Duration // before the expected sequence is checked
	before error         // not stored, and this is the response
	after  error         // stored if the expected sequence matches, and this is the response nevertheless
	late   time.Duration // the attempt returns after at once, and the message is stored later

	noBatch bool // a batch is refused because a message of it is missing
}

func newFakeLog(t *testing.T, s chunk.Session) *fakeLog {
	t.Helper()
	return &fakeLog{t: t, s: s, limit: 1 << 20}
}

// publish makes an attempt, or waits for an abandoned attempt of the same message.
func (l *fakeLog) publish(ctx context.Context, m outgoing, abandoned <-chan struct{}) (chunk.Seq, error) {
	l.mu.Lock()
	results := l.abandoned[m.number]
	delete(l.abandoned, m.number)
	l.mu.Unlock()
	if results == nil {
		results = make(chan func() (chunk.Seq, error), 1)
		go func() {
			seq, err := l.attempt(ctx, m)
			results <- func() (chunk.Seq, error) { return seq, err }
		}()
	}
	select {
	case result := <-results:
		return result()
	case <-abandoned:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.abandoned = map[uint64]chan func() (chunk.Seq, error){m.number: results}
		return 0, jsclient.ErrWaitAbandoned
	}
}

func (l *fakeLog) storesBatches(context.Context) bool { return l.batches }

// attempt makes one attempt with its fault.
func (l *fakeLog) attempt(ctx context.Context, m outgoing) (chunk.Seq, error) {
	l.mu.Lock()
	l.calls++
	n := l.calls
	l.inFlight++
	if l.inFlight > 1 {
		l.t.Error("two publishes at once")
	}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.inFlight--
		l.mu.Unlock()
	}()
	var f fault
	if l.fault != nil {
		f = l.fault(n, m)
	}
	if f.delay > 0 && wait.Sleep(ctx, f.delay) != nil {
		return 0, ctx.Err()
	}
	if f.noBatch && len(m.messages) > 1 {
		f.before = &jetstream.APIError{Code: 400, ErrorCode: codeIncompleteBatch}
	}
	if f.before != nil {
		return 0, f.before
	}
	if f.late > 0 {
		time.AfterFunc(f.late, func() { _, _ = l.store(m) })
		return 0, f.after
	}
	seq, err := l.store(m)
	if f.after != nil {
		return 0, f.after
	}
	return seq, err
}

// store stores a message if the expected sequence matches, as the server does.
func (l *fakeLog) store(m outgoing) (chunk.Seq, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := l.lastSeq(); last != m.after.Seq || headerOf(m.messages[0].Header, headerExpectedSeq) != strconv.FormatUint(uint64(m.after.Seq), 10) {
		return 0, &jetstream.APIError{Code: 400, ErrorCode: codeWrongLast, Description: fmt.Sprintf("wrong last sequence: %d", last)}
	}
	for i, m := range m.messages {
		if i > 0 {
			l.seq -= 2 // the sequences of a batch are consecutive
		}
		l.put(m.Header, m.Data)
		if l.stored != nil {
			l.stored <- struct{}{}
		}
	}
	return l.seq, nil
}

func (l *fakeLog) put(header map[string][]string, data []byte) {
	l.seq += 3 // other sessions write too
	l.msgs = append(l.msgs, message{seq: l.seq, stored: time.Now(), header: header, data: data})
}

// putOther appends a record of another writer.
func (l *fakeLog) putOther(e chunk.Epoch, o chunk.Ordinal, c chunk.Chunk) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.putRecord(e, o, c)
}

func (l *fakeLog) putRecord(e chunk.Epoch, o chunk.Ordinal, c chunk.Chunk) {
	l.t.Helper()
	c.AgentID = l.s.ID
	m, err := codec.Encode(codec.Envelope{Session: l.s, Epoch: e, Ordinal: o}, c)
	if err != nil {
		l.t.Error(err)
		return
	}
	l.put(m.Header, m.Data)
}

// takeOver starts a run of another writer.
func (l *fakeLog) takeOver() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	e, o, _ := chunk.ParseEventID(headerOf(l.msgs[len(l.msgs)-1].header, headerID))
	l.putRecord(e+1, o+1, chunk.Chunk{Body: chunk.RunStarted{RunID: "x", Epoch: int64(e) + 1, Mode: "takeover"}})
}

func (l *fakeLog) lastSeq() chunk.Seq {
	if len(l.msgs) == 0 {
		return 0
	}
	return l.msgs[len(l.msgs)-1].seq
}

func (l *fakeLog) last(context.Context) (message, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.msgs) == 0 {
		return message{}, jsclient.ErrNotFound
	}
	return l.msgs[len(l.msgs)-1], nil
}

func (l *fakeLog) next(_ context.Context, after chunk.Seq) (message, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.msgs {
		if m.seq > after {
			return m, nil
		}
	}
	return message{}, jsclient.ErrNotFound
}

func (l *fakeLog) scan(_ context.Context, r scanRange) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		l.mu.Lock()
		msgs := slices.Clone(l.msgs)
		l.mu.Unlock()
		for _, m := range msgs {
			if m.seq > r.after && m.seq <= r.through && !yield(m, nil) {
				return
			}
		}
	}
}

func (l *fakeLog) remove(_ context.Context, seq chunk.Seq) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.removes++
	if l.failRemove != nil {
		if err := l.failRemove(l.removes); err != nil {
			return err
		}
	}
	i, found := slices.BinarySearchFunc(l.msgs, seq, func(m message, seq chunk.Seq) int { return cmp.Compare(m.seq, seq) })
	if found {
		l.msgs = slices.Delete(l.msgs, i, i+1)
		l.removed = append(l.removed, seq)
	}
	return nil
}

func (l *fakeLog) maxMessageSize() int { return l.limit }

func (*fakeLog) close() {}

// records returns the records as readers decode them.
func (l *fakeLog) records() []chunk.Record {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var recs []chunk.Record
	for _, m := range l.msgs {
		rec, err := codec.Decode(codec.Stored{Session: l.s, Seq: m.seq, At: m.stored, Header: m.header, Data: m.data})
		if err != nil {
			l.t.Fatalf("sequence %d: %v", m.seq, err)
		}
		recs = append(recs, rec)
	}
	return recs
}

// startOn returns a started run on l, for tests with a fake clock.
func startOn(t *testing.T, l *fakeLog, cfg Config) *Run {
	t.Helper()
	r, err := tryStart(t, l, cfg, chunk.RunStarted{Mode: "execute"}, false)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tryStart(t *testing.T, l *fakeLog, cfg Config, run chunk.RunStarted, takeOver bool) (*Run, error) {
	t.Helper()
	cfg = withoutPositions(cfg).withDefaults()
	if err := cfg.validate(); err != nil {
		t.Fatal(err)
	}
	r := newRun(cfg, l.s, l, startOptions{agentType: "tester"})
	run.RunID = "r"
	err := r.start(t.Context(), run, startOptions{takeOver: takeOver})
	t.Cleanup(func() { _ = r.Close() })
	return r, err
}

func (l *fakeLog) writeFailed(context.Context) error { return l.writeError }

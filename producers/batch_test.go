package producers

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// batchLog returns a log that stores batches, and a run on it that is publishing one record, so that records that are emitted now are stored together.
func batchLog(t *testing.T, cfg Config) (*fakeLog, *Run) {
	t.Helper()
	l := newFakeLog(t, testSession)
	l.batches = true
	r := startOn(t, l, cfg)
	l.fault = times(1, fault{delay: time.Second})
	emitAll(t, r, numbered(0))
	synctest.Wait()
	return l, r
}

// wantNumbers compares the numbered chunks of the log, and the ordinals of all records.
func wantNumbers(t *testing.T, l *fakeLog, want ...int) {
	t.Helper()
	var got []int
	for i, rec := range l.records() {
		if rec.Ordinal != chunk.Ordinal(i+1) {
			t.Errorf("record %d has ordinal %d", i+1, rec.Ordinal)
		}
		c, err := rec.Decode()
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := c.Body.(chunk.Custom); ok {
			n, err := strconv.Atoi(string(b.Data))
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, n)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("chunks %v, want %v", got, want)
	}
}

func mustFlush(t *testing.T, r *Run) {
	t.Helper()
	if _, err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// outcomes counts the records that an Observer gets.
type outcomes struct{ n map[Outcome]int }

func (o *outcomes) Published(out Outcome, _ time.Duration, _ int) { o.n[out]++ }

// The queued records are stored with one attempt, each with its own sequence, and the observer gets each.
func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &outcomes{map[Outcome]int{}}
		l, r := batchLog(t, Config{Observe: seen})
		emitAll(t, r, numbered(1), numbered(2), numbered(3))
		if seq, err := r.Write(t.Context(), numbered(4)); err != nil || seq != l.lastSeq() {
			t.Errorf("sequence %d, %v; want %d", seq, err, l.lastSeq())
		}
		wantNumbers(t, l, 0, 1, 2, 3, 4)
		if l.calls != 3 { // run_started, the first record, and a batch
			t.Errorf("%d attempts, want 3", l.calls)
		}
		recs := l.records()
		if s := r.Stats(); s.Records != 6 || seen.n[OutcomeStored] != 6 {
			t.Errorf("%d records counted, %d observed; want 6", s.Records, seen.n[OutcomeStored])
		}
		if pos := r.Position(); pos != recs[len(recs)-1].Position() {
			t.Errorf("position %+v, want that of the last record", pos)
		}
	})
}

// A refused batch is stored record by record, and later records in batches again.
func TestRefusedBatch(t *testing.T) {
	for name, code := range map[string]jetstream.ErrorCode{"incomplete": 10176, "disabled": 10174, "too large": 10199, "too many": 10210, "a header": 10177} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, r := batchLog(t, Config{})
				var sizes []int
				l.fault = func(_ int, m outgoing) fault {
					sizes = append(sizes, len(m.messages))
					if len(m.messages) == 3 {
						return fault{before: api(code)}
					}
					return fault{}
				}
				emitAll(t, r, numbered(1), numbered(2), numbered(3))
				mustFlush(t, r)
				l.fault = times(1, fault{delay: time.Second})
				emitAll(t, r, numbered(4))
				synctest.Wait()
				l.fault = func(_ int, m outgoing) fault { sizes = append(sizes, len(m.messages)); return fault{} }
				emitAll(t, r, numbered(5), numbered(6))
				mustFlush(t, r)
				wantNumbers(t, l, 0, 1, 2, 3, 4, 5, 6)
				if !slices.Equal(sizes, []int{3, 1, 1, 1, 2}) {
					t.Errorf("%v messages, want 3, each of them, then a batch of 2", sizes)
				}
			})
		})
	}
}

// A batch whose response is lost is stored once, whether the next attempt is a batch or record by record, and also if it arrives after that.
func TestLostResponseToABatch(t *testing.T) {
	for name, faults := range map[string][]fault{
		"stored":                        {{after: nats.ErrTimeout}},
		"stored, then refused":          {{after: nats.ErrTimeout}, {before: api(codeIncompleteBatch)}},
		"late":                          {{after: nats.ErrTimeout, late: 5 * time.Second}},
		"late, the next one is refused": {{after: nats.ErrTimeout, late: 15 * time.Millisecond}, {before: api(codeIncompleteBatch)}, {delay: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, r := batchLog(t, Config{})
				at := 0
				l.fault = func(int, outgoing) fault {
					if at++; at <= len(faults) {
						return faults[at-1]
					}
					return fault{}
				}
				emitAll(t, r, numbered(1), numbered(2), text("a"))
				synctest.Wait()
				emitAll(t, r, text("b")) // must not change the record that may be stored
				mustFlush(t, r)
				time.Sleep(10 * time.Second)
				wantNumbers(t, l, 0, 1, 2)
				if got := textOf(t, l.records()); got != "ab" {
					t.Errorf("text %q, want ab", got)
				}
			})
		})
	}
}

// Two writers of one epoch write equal records: that of a batch whose first record is in the log is fenced, because the rest of the batch is not.
func TestEqualRecordOfAnotherWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := batchLog(t, Config{})
		l.fault = func(_ int, m outgoing) fault {
			if len(m.messages) > 1 {
				l.mu.Lock()
				l.put(m.messages[0].Header, m.messages[0].Data)
				l.mu.Unlock()
			}
			return fault{}
		}
		emitAll(t, r, numbered(1), numbered(2))
		if _, err := r.Flush(t.Context()); !errors.Is(err, chunk.ErrFenced) {
			t.Errorf("err = %v, want fenced", err)
		}
		wantNumbers(t, l, 0, 1)
	})
}

// A takeover fences a batch as a whole.
func TestFencedBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := batchLog(t, Config{})
		emitAll(t, r, numbered(1), numbered(2))
		l.fault = func(int, outgoing) fault { l.takeOver(); return fault{} }
		if _, err := r.Flush(t.Context()); !errors.Is(err, chunk.ErrFenced) {
			t.Errorf("err = %v, want fenced", err)
		}
		wantNumbers(t, l, 0)
	})
}

// A record that the server refuses has its error, and the others of the batch are stored.
func TestRefusedRecordOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := batchLog(t, Config{})
		l.fault = func(_ int, m outgoing) fault {
			if m.contains(`"data":2`) {
				return fault{before: api(codeTooLarge)}
			}
			return fault{}
		}
		emitAll(t, r, numbered(1), numbered(2), numbered(3))
		if _, err := r.Flush(t.Context()); !errors.Is(err, chunk.ErrTooLarge) {
			t.Errorf("err = %v, want too large", err)
		}
		wantNumbers(t, l, 0, 1, 3)
	})
}

// A batch ends before the limits of a flush.
func TestLimitsOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := batchLog(t, Config{MaxQueue: 1000})
		var sizes []int
		l.fault = func(_ int, m outgoing) fault { sizes = append(sizes, len(m.messages)); return fault{} }
		for n := range 300 {
			emitAll(t, r, numbered(n+1))
		}
		mustFlush(t, r)
		if !slices.Equal(sizes, []int{256, 44}) {
			t.Errorf("%v messages, want 256 and 44", sizes)
		}
	})
}

// A cluster stores the records of a burst in one batch, with consecutive sequences, and readers get the same records as without batches.
func TestBatchOnACluster(t *testing.T) {
	p := newEnv(t, natstest.StartCluster(t, 3).Conn(t), 3)
	producer := p.producer(t, Config{})
	r := mustStart(t, producer, testSession)
	for n := range 20 {
		emitAll(t, r, numbered(n))
	}
	mustFlush(t, r)
	if n := batched(t, producer, testSession); n < 2 {
		t.Errorf("%d records were stored in batches", n)
	}
	for i, rec := range p.log(t, testSession) {
		if rec.Ordinal != chunk.Ordinal(i+1) {
			t.Errorf("record %d has ordinal %d", i+1, rec.Ordinal)
		}
	}
}

// batched returns the number of records of a session that were stored in batches.
func batched(t *testing.T, p *Producer, s chunk.Session) int {
	t.Helper()
	log, err := p.newNATSLog(s)
	if err != nil {
		t.Fatal(err)
	}
	defer log.close()
	last, err := log.last(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for m, err := range log.scan(t.Context(), scanRange{through: last.seq, headersOnly: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if headerOf(m.header, "Nats-Batch-Id") != "" {
			n++
		}
	}
	return n
}

// A truncation record whose deletes fail has that error; the records that were queued before it are stored.
func TestFailedDeletesAfterABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := batchLog(t, Config{RetryTimeout: time.Second})
		mustFlush(t, r)
		l.failRemove = func(int) error { return nats.ErrTimeout }
		l.fault = times(1, fault{delay: time.Second})
		emitAll(t, r, numbered(1))
		synctest.Wait()
		emitAll(t, r, numbered(2))
		written := make(chan error, 1)
		go func() { _, err := r.Write(t.Context(), numbered(3)); written <- err }()
		synctest.Wait()
		at := r.Position()
		mark := chunk.Truncated{FromSequence: int64(at.Seq), AtSequence: int64(at.Seq), Removed: rangesOf([]chunk.Position{at})}
		if err := r.appendTruncation(t.Context(), mark, []chunk.Position{at}); !errors.Is(err, nats.ErrTimeout) {
			t.Errorf("truncation: %v, want failed deletes", err)
		}
		if err := <-written; err != nil {
			t.Errorf("the record before it: %v", err)
		}
	})
}

package producers

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
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

// The queued records are stored with one attempt, each with its own sequence, and the observer gets each.
func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := map[Outcome]int{}
		l, r := batchLog(t, Config{Observe: func(outcome Outcome, _ time.Duration, _ int) { seen[outcome]++ }})
		emitAll(t, r, numbered(1), numbered(2), numbered(3))
		if seq, err := r.Write(t.Context(), numbered(4)); err != nil || seq != l.lastSeq() {
			t.Errorf("sequence %d, %v; want %d", seq, err, l.lastSeq())
		}
		wantNumbers(t, l, 0, 1, 2, 3, 4)
		if l.calls != 3 { // run_started, the first record, and a batch
			t.Errorf("%d attempts, want 3", l.calls)
		}
		recs := l.records()
		if records, _, _ := r.Stats(); records != 6 || seen[OutcomeStored] != 6 {
			t.Errorf("%d records counted, %d observed; want 6", records, seen[OutcomeStored])
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

// Two writers of one epoch write batches that differ in the middle only.
func TestEqualEndsOfAnotherWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := batchLog(t, Config{})
		l.fault = func(_ int, m outgoing) fault {
			l.mu.Lock()
			defer l.mu.Unlock()
			for i, o := range m.messages {
				if i == 1 {
					l.putRecord(r.Epoch(), m.after.Ordinal+2, numbered(7))
				} else {
					l.put(o.Header, o.Data)
				}
				l.seq -= 2
			}
			return fault{}
		}
		emitAll(t, r, numbered(1), numbered(2), numbered(3))
		if _, err := r.Flush(t.Context()); !errors.Is(err, chunk.ErrFenced) {
			t.Errorf("err = %v, want fenced", err)
		}
		wantNumbers(t, l, 0, 1, 7, 3)
	})
}

// No record of a batch that may be stored is reported as not stored, whatever happens to the attempts to store its records one by one.
func TestUnknownBatch(t *testing.T) {
	for name, tc := range map[string]struct {
		late   time.Duration // of the batch
		single func(l *fakeLog, r *Run, m outgoing) fault
	}{
		"the server is away": {time.Hour, func(*fakeLog, *Run, outgoing) fault { return fault{before: jsclient.ErrNotConnected} }},
		"the store is full":  {time.Hour, func(*fakeLog, *Run, outgoing) fault { return fault{before: api(codeNoStorage)} }},
		"the run is closed": {time.Hour, func(_ *fakeLog, r *Run, _ outgoing) fault {
			go func() { _ = r.Close() }()
			return fault{delay: time.Minute}
		}},
		"the second one has become too large": {time.Second, func(l *fakeLog, _ *Run, m outgoing) fault {
			l.limit = m.bytes // the second one has more digits
			return fault{delay: time.Minute}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, r := batchLog(t, Config{})
				attempts := 0
				l.fault = func(_ int, m outgoing) fault {
					switch attempts++; attempts {
					case 1:
						return fault{after: nats.ErrTimeout, late: tc.late}
					case 2:
						return fault{noBatch: true}
					}
					return tc.single(l, r, m)
				}
				emitAll(t, r, numbered(1), numbered(22))
				_, err := r.Write(t.Context(), numbered(333))
				if !errors.Is(err, chunk.ErrUnknownOutcome) || errors.Is(err, chunk.ErrNotStored) {
					t.Errorf("err = %v, want an unknown outcome", err)
				}
				time.Sleep(2 * time.Hour)
				wantNumbers(t, l, 0, 1, 22, 333)
			})
		})
	}
}

// The deletes of a cleanup fail. The chunks that were emitted meanwhile are stored, and none of them has that error.
func TestBatchBeforeACleanup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := batchLog(t, Config{})
		l.failRemove = func(int) error { return jsclient.ErrNotConnected }
		errs := make(chan error, 1)
		go func() {
			_, err := r.Write(t.Context(), numbered(1))
			errs <- err
		}()
		synctest.Wait()
		toRemove := []chunk.Position{r.Position()}
		if err := r.appendTruncation(t.Context(), chunk.Truncated{Removed: rangesOf(toRemove)}, toRemove); err == nil {
			t.Error("the deletes did not fail")
		}
		if err := <-errs; err != nil {
			t.Errorf("the chunk before it: %v", err)
		}
		wantNumbers(t, l, 0, 1)
	})
}

// The first delta of a block does not wait for the pace after it was left for the next batch.
func TestDeltaAfterAFullBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := batchLog(t, Config{Pace: time.Hour, MaxChunk: 512 << 10})
		large := chunk.Chunk{Body: chunk.Custom{EventName: "n", Data: chunk.Value(strings.Repeat("1", maxFlushBytes-1000))}}
		emitAll(t, r, large, text(strings.Repeat("x", 2000)))
		time.Sleep(time.Minute)
		if got := textOf(t, l.records()); len(got) != 2000 {
			t.Errorf("%d bytes are stored, want 2000", len(got))
		}
	})
}

// A client that may not read the configuration of the stream stores its records one by one, and asks once.
func TestNoPermissionToAskForBatches(t *testing.T) {
	srv := natstest.Start(t, natstest.ServerConfig(`
		authorization { users = [
			{ user: "all", password: "x" }
			{ user: "some", password: "x", permissions: { publish: { deny: "$JS.API.STREAM.INFO.>" } } }
		] }`))
	p := newEnv(t, srv.Conn(t, nats.UserInfo("all", "x")), 1)
	var denied atomic.Int64
	nc := srv.Conn(t, nats.UserInfo("some", "x"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) { denied.Add(1) }))
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	r := mustStart(t, newTestProducer(t, js, shortTimeouts()), testSession)
	for n := range 20 {
		emitAll(t, r, numbered(n))
	}
	mustFlush(t, r)
	if n := len(p.log(t, testSession)); n != 21 || denied.Load() != 1 {
		t.Errorf("%d records, %d refused requests; want 21 and 1", n, denied.Load())
	}
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

// Close reports the unknown outcome of a record of which no call has returned it: the context of its Write has ended before.
func TestCloseReportsAnAbandonedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.fault = func(int, outgoing) fault { return fault{delay: time.Hour} }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Write(ctx, numbered(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v, want the end of the context", err)
		}
		if err := r.Close(); !errors.Is(err, chunk.ErrUnknownOutcome) {
			t.Errorf("Close: %v, want an unknown outcome", err)
		}
	})
}

// No record of a refused batch is stored after one that was lost because the run was closed.
func TestCloseDuringARefusedBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := batchLog(t, Config{})
		attempts := 0
		l.fault = func(int, outgoing) fault {
			switch attempts++; attempts {
			case 1:
				return fault{noBatch: true}
			case 2:
				return fault{before: api(codeNoStorage)}
			}
			return fault{}
		}
		emitAll(t, r, numbered(1), numbered(2), numbered(3))
		time.Sleep(time.Second + time.Millisecond) // the second attempt is refused, and the third one waits
		if err := r.Close(); !errors.Is(err, ErrClosed) || !strings.HasPrefix(err.Error(), "3 queued chunks") {
			t.Errorf("Close: %v, want that three chunks are not stored", err)
		}
		wantNumbers(t, l, 0)
	})
}

// A batch of which another writer of the epoch has stored equal records, with records of other sessions between them, is not the one that is stored: its sequences
// would be wrong.
func TestEqualRecordsWithGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := batchLog(t, Config{})
		l.fault = func(_ int, m outgoing) fault {
			l.mu.Lock()
			defer l.mu.Unlock()
			for _, o := range m.messages {
				l.put(o.Header, o.Data)
			}
			return fault{}
		}
		emitAll(t, r, numbered(1), numbered(2))
		if _, err := r.Flush(t.Context()); !errors.Is(err, chunk.ErrFenced) {
			t.Errorf("err = %v, want fenced", err)
		}
	})
}

// A batch may be stored until its first record is stored alone. After that, a refused record is not stored, and those after it are.
func TestRefusedRecordAfterAnUnknownBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := batchLog(t, Config{})
		attempts := 0
		l.fault = func(_ int, m outgoing) fault {
			switch attempts++; {
			case attempts == 1:
				return fault{before: nats.ErrDisconnected}
			case m.contains(`"data":2`):
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

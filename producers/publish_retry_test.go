package producers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
)

// always returns the same fault for every publish after the run_started.
func always(f fault) func(int, outgoing) fault {
	return func(int, outgoing) fault { return f }
}

// times returns a fault for the next n publishes.
func times(n int, f fault) func(int, outgoing) fault {
	return func(int, outgoing) fault {
		if n--; n >= 0 {
			return f
		}
		return fault{}
	}
}

// contains reports whether the data of a message contains text.
func (o outgoing) contains(text string) bool {
	return slices.ContainsFunc(o.messages, func(m *nats.Msg) bool { return strings.Contains(string(m.Data), text) })
}

// Error codes of the server.
const (
	codeNoResources    jetstream.ErrorCode = 10023
	codeNoStorage      jetstream.ErrorCode = 10047
	codeTooLarge       jetstream.ErrorCode = 10054
	codeWrongStream    jetstream.ErrorCode = 10060
	codeWrongLast      jetstream.ErrorCode = 10071
	codeStoreFailed    jetstream.ErrorCode = 10077
	codeHeaderTooLarge jetstream.ErrorCode = 10097
	codeSealed         jetstream.ErrorCode = 10109
	codeBusy           jetstream.ErrorCode = 10164
	codeTooMany        jetstream.ErrorCode = 10167

	codeIncompleteBatch jetstream.ErrorCode = 10176
)

func api(code jetstream.ErrorCode) error {
	return &jetstream.APIError{Code: 500, ErrorCode: code, Description: "the server's words"}
}

// For any faults of the first attempts the chunk is stored once, and Write returns its sequence. The delays of seven retries take at most 1.3 s, less than
// jsclient.NoStorageTimeout, after which a full store is reported.
func TestRetriedFaults(t *testing.T) {
	for name, f := range map[string]fault{
		"the acknowledgement is lost":              {after: nats.ErrTimeout},
		"the connection breaks after the message":  {after: nats.ErrDisconnected},
		"the connection breaks before the message": {before: nats.ErrDisconnected},
		"an invalid response":                      {after: jsclient.ErrBadResponse},
		"no response":                              {before: nats.ErrTimeout},
		"it arrives after the timeout":             {late: time.Microsecond, after: nats.ErrTimeout},
		"it arrives among the next attempts":       {late: 25 * time.Millisecond, after: nats.ErrTimeout},
		"it arrives after another attempt did":     {late: time.Hour, after: nats.ErrTimeout},
		"no connection":                            {before: jsclient.ErrNotConnected},
		"no stream":                                {before: nats.ErrNoResponders},
		"an election":                              {before: api(10008)},
		"the server is not ready":                  {before: api(10163)},
		"the subject is busy":                      {before: api(codeBusy)},
		"busy with the first attempt":              {late: time.Millisecond, after: api(codeBusy)},
		"out of memory":                            {before: api(codeNoResources)},
		"the store is full":                        {before: api(codeNoStorage)},
		"the store fails":                          {before: api(codeStoreFailed)},
		"too many requests":                        {before: api(codeTooMany)},
		"a conflict without a message":             {before: api(codeWrongLast)},
		"an unknown code":                          {before: api(19999)},
		"an unknown code for a stored message":     {after: api(19999)},
	} {
		for _, n := range []int{1, 4, 7} {
			t.Run(fmt.Sprintf("%s, %d times", name, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newFakeLog(t, testSession)
					r := startOn(t, l, Config{})
					l.fault = times(n, f)
					seq, err := r.Write(t.Context(), numbered(1))
					if err != nil {
						t.Fatal(err)
					}
					if seq != l.lastSeq() || seq != r.Position().Seq {
						t.Errorf("sequence %d, the log ends at %d", seq, l.lastSeq())
					}
					if _, err := r.Write(t.Context(), numbered(2)); err != nil {
						t.Fatal(err)
					}
					time.Sleep(2 * time.Hour) // all late attempts have arrived
					l.mustHave("custom", "custom")
				})
			})
		}
	}
}

// A busy subject is retried after milliseconds, sooner than after an outage.
func TestBusyIsRetriedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.fault = times(1, fault{before: api(codeBusy)})
		begin := time.Now()
		if _, err := r.Write(t.Context(), numbered(1)); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(begin); waited < time.Millisecond || waited > 5*time.Millisecond {
			t.Errorf("waited %s, want 1 to 5 ms", waited)
		}
	})
}

func TestDelaysGrowToASecondAndDiffer(t *testing.T) {
	seen := map[time.Duration]bool{}
	for n := range 40 {
		d := delay(jsclient.Unknown, n)
		if d < 5*time.Millisecond || d > time.Second {
			t.Errorf("delay %d is %s", n, d)
		}
		if n > 7 && d < 500*time.Millisecond {
			t.Errorf("delay %d is %s, want at least half a second", n, d)
		}
		seen[d] = true
	}
	if len(seen) < 30 {
		t.Error("the delays have no jitter")
	}
}

// Without a response within the retry budget the outcome is unknown, and the run writes nothing more: a later record could be stored before an earlier one.
func TestRetryTimeoutEndsInUnknownOutcome(t *testing.T) {
	for name, f := range map[string]fault{
		"no response":                          {before: nats.ErrTimeout, delay: 2 * time.Second},
		"no response first, then a full store": {before: api(codeNoStorage)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				r := startOn(t, l, Config{RetryTimeout: 10 * time.Second})
				first := true
				l.fault = func(int, outgoing) fault {
					if first {
						first = false
						return fault{before: nats.ErrTimeout}
					}
					return f
				}
				begin := time.Now()
				_, err := r.Write(t.Context(), numbered(1))
				if !errors.Is(err, chunk.ErrUnknownOutcome) || errors.Is(err, chunk.ErrNotStored) || !strings.Contains(err.Error(), "-2: "+chunk.ErrUnknownOutcome.Error()) {
					t.Fatalf("err = %v, want unknown outcome of ordinal 2", err)
				}
				if took := time.Since(begin); took < 10*time.Second || took > 14*time.Second {
					t.Errorf("gave up after %s, want some ten seconds", took)
				}
				mustBeSticky(t, r, err)
				l.mustHave()
			})
		})
	}
}

// mustBeSticky checks that every method returns the error that ended the run, and that nothing is sent.
func mustBeSticky(t *testing.T, r *Run, want error) {
	t.Helper()
	l, _ := r.log.(*fakeLog)
	calls := l.calls
	ctx := t.Context()
	for name, f := range map[string]func() error{
		"Emit":          func() error { return r.Emit(ctx, numbered(9)) },
		"Say":           func() error { return r.EmitBody(ctx, chunk.TextDelta{Delta: "x"}) },
		"Write":         func() error { _, err := r.Write(ctx, numbered(9)); return err },
		"Flush":         func() error { _, err := r.Flush(ctx); return err },
		"End":           func() error { return r.End(ctx, nil) },
		"Fail":          func() error { return r.Fail(ctx, "x", nil) },
		"Pause":         func() error { return r.Pause(ctx, "") },
		"Activate":      func() error { return r.Activate(ctx) },
		"CleanupToStep": func() error { _, err := r.CleanupToStep(ctx, 0, 0); return err },
	} {
		if err := f(); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if l.calls != calls {
		t.Error("something was sent")
	}
	if err := r.Close(); err != nil {
		t.Errorf("Close: %v, want nil: reported already", err)
	}
}

// The last attempt may have been stored without a response. The last read of the log finds it.
func TestLastReadFindsTheStoredAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{RetryTimeout: time.Second})
		l.fault = func(n int, _ outgoing) fault {
			if n == 2 {
				return fault{after: nats.ErrTimeout}
			}
			return fault{before: nats.ErrTimeout}
		}
		if seq, err := r.Write(t.Context(), numbered(1)); err != nil || seq != l.lastSeq() {
			t.Fatal(seq, err)
		}
	})
}

// A log that accepts nothing rejects each attempt, so the chunk is certainly not stored. The chunks queued after it fail as well: no later one may be stored
// before the caller gets the error.
func TestRetryTimeoutEndsInNotStored(t *testing.T) {
	for name, cause := range map[string]error{
		"no connection":     jsclient.ErrNotConnected,
		"no stream":         nats.ErrNoResponders,
		"out of memory":     api(codeNoResources),
		"the store is full": api(codeNoStorage),
		"the store fails":   api(codeStoreFailed),
		"too many requests": api(codeTooMany),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				r := startOn(t, l, Config{RetryTimeout: 10 * time.Second})
				l.fault = always(fault{before: cause})
				begin := time.Now()
				emitAll(t, r, numbered(1), numbered(2), numbered(3))
				_, err := r.Flush(t.Context())
				if !errors.Is(err, chunk.ErrNotStored) || errors.Is(err, chunk.ErrUnknownOutcome) || !errors.Is(err, cause) {
					t.Fatalf("err = %v, want not stored because of %v", err, cause)
				}
				if !strings.Contains(err.Error(), "3 queued chunks not stored") {
					t.Errorf("err = %v, want it to count three", err)
				}
				if took := time.Since(begin); took > 12*time.Second {
					t.Errorf("gave up after %s: the queued chunks had a budget of their own", took)
				}
				l.fault = nil
				if _, err := r.Write(t.Context(), numbered(4)); err != nil {
					t.Fatalf("after it accepts messages again: %v", err)
				}
				l.mustHave("custom")
			})
		})
	}
}

// A server without storage is reported within seconds, not after the retry budget: refused by a limit the chunk is certainly not stored; without a response,
// because the server cannot write its files, the outcome is unknown.
func TestNoStorageIsReportedSoon(t *testing.T) {
	for name, test := range map[string]struct {
		cause      error
		writeError error
		want       error
	}{
		"limit of the server":  {cause: api(codeNoResources), want: chunk.ErrNotStored},
		"limit of the account": {cause: api(10002), want: chunk.ErrNotStored},
		"limit of the stream":  {cause: &jetstream.APIError{ErrorCode: codeStoreFailed, Description: "maximum bytes exceeded"}, want: chunk.ErrNotStored},
		"disk full":            {cause: nats.ErrTimeout, writeError: &jsclient.WriteError{Cause: errors.New("no space left on device")}, want: chunk.ErrUnknownOutcome},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				r := startOn(t, l, Config{})
				l.fault, l.writeError = always(fault{before: test.cause}), test.writeError
				begin := time.Now()
				_, err := r.Write(t.Context(), numbered(1))
				if !errors.Is(err, chunk.ErrNoStorage) || !errors.Is(err, test.want) {
					t.Errorf("err = %v, want no storage and %v", err, test.want)
				}
				if took := time.Since(begin); took > 5*time.Second {
					t.Errorf("reported after %s, want at most 5s", took)
				}
			})
		})
	}
}

// A chunk that the server rejects takes no ordinal, and later chunks are stored.
func TestAFinalRefusalIsOfOneChunk(t *testing.T) {
	for _, code := range []jetstream.ErrorCode{codeTooLarge, codeHeaderTooLarge} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				r := startOn(t, l, Config{})
				l.fault = func(_ int, m outgoing) fault {
					if m.contains(`"data":2`) {
						return fault{before: api(code)}
					}
					return fault{delay: time.Millisecond} // long enough to emit the others
				}
				emitAll(t, r, numbered(1), numbered(2), numbered(3))
				_, err := r.Flush(t.Context())
				if !errors.Is(err, chunk.ErrNotStored) || !errors.Is(err, chunk.ErrTooLarge) {
					t.Fatalf("err = %v, want not stored, too large", err)
				}
				if _, err := r.Flush(t.Context()); err != nil {
					t.Errorf("reported twice: %v", err)
				}
				l.mustHave("custom", "custom")
				if l.calls != 4 {
					t.Errorf("%d publishes, want 4: a rejected message is not retried", l.calls)
				}
			})
		})
	}
}

// A rejection that applies to all chunks fails all of them after one attempt.
func TestRejectionOfAllChunks(t *testing.T) {
	for name, cause := range map[string]error{
		"sealed":       api(codeSealed),
		"permission":   nats.ErrPermissionViolation,
		"closed":       nats.ErrConnectionClosed,
		"wrong stream": api(codeWrongStream),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				r := startOn(t, l, Config{})
				l.fault = always(fault{delay: time.Millisecond, before: cause})
				emitAll(t, r, numbered(1), numbered(2), numbered(3))
				if _, err := r.Flush(t.Context()); !errors.Is(err, chunk.ErrNotStored) || !errors.Is(err, cause) {
					t.Fatalf("err = %v, want not stored because of %v", err, cause)
				}
				if l.calls != 2 {
					t.Errorf("%d publishes, want 2", l.calls)
				}
				l.mustHave()
			})
		})
	}
}

// A superseded writer is fenced by its next publish and writes nothing more.
func TestSupersededIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.putOther(2, 2, chunk.Chunk{Body: chunk.RunStarted{RunID: "b", Epoch: 2, Mode: "takeover"}})
		calls := l.calls
		_, err := r.Write(t.Context(), numbered(1))
		var f *FencedError
		if !errors.As(err, &f) || !errors.Is(err, chunk.ErrFenced) || f.By != 2 || f.Epoch != 1 || f.At != l.lastSeq() {
			t.Fatalf("err = %v, want fenced by epoch 2", err)
		}
		if l.calls != calls+1 {
			t.Errorf("%d publishes, want one", l.calls-calls)
		}
		mustBeSticky(t, r, err)
		l.mustHave()
	})
}

// The acknowledgement was lost and then another writer took over: the chunk is in the log, and Write returns its sequence. The next one is fenced.
func TestChunkStoredBeforeTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.fault = func(n int, _ outgoing) fault {
			switch n {
			case 2:
				return fault{after: nats.ErrTimeout}
			case 3:
				l.putOther(2, 3, chunk.Chunk{Body: chunk.RunStarted{RunID: "b", Epoch: 2, Mode: "takeover"}})
			}
			return fault{}
		}
		seq, err := r.Write(t.Context(), numbered(1))
		if err != nil || seq != l.records()[1].Seq {
			t.Fatalf("sequence %d, err = %v", seq, err)
		}
		if _, err := r.Write(t.Context(), numbered(2)); !errors.Is(err, chunk.ErrFenced) {
			t.Fatalf("err = %v, want fenced", err)
		}
	})
}

// The same id with other bytes is a message of another writer.
func TestTheIDAloneIsNotEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.putOther(1, 2, chunk.Chunk{Body: chunk.TextDelta{Delta: "not mine"}})
		if _, err := r.Write(t.Context(), numbered(1)); !errors.Is(err, chunk.ErrFenced) {
			t.Fatalf("err = %v, want fenced", err)
		}
	})
}

// All earlier records have expired or were purged: another record would leave a log that starts in the middle.
func TestARunWithoutItsRecordsIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.mu.Lock()
		l.msgs = nil
		l.mu.Unlock()
		_, err := r.Write(t.Context(), numbered(1))
		var f *FencedError
		if !errors.As(err, &f) || f.At != 0 || !strings.Contains(err.Error(), "missing from the log") {
			t.Fatalf("err = %v, want fenced because of missing records", err)
		}
	})
}

// A stream that shuts down or recovers rejects every message and reports no records for a short time. Neither is a final result.
func TestATemporarilyEmptyLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		all := l.msgs
		l.msgs = nil
		time.AfterFunc(1900*time.Millisecond, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.msgs = all
		})
		if _, err := r.Write(t.Context(), numbered(1)); err != nil {
			t.Fatal(err)
		}
		l.mustHave("custom")
	})
}

// A start that ends with its context leaves no run, and its error shows whether a record may be stored.
func TestStartEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		l.fault = always(fault{before: nats.ErrTimeout, delay: 2 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := newRun(withoutPositions(Config{}).withDefaults(), l.s, l, startOptions{})
		defer r.Close()
		if err := r.start(ctx, chunk.RunStarted{RunID: "r", Mode: "execute"}, startOptions{}); !errors.Is(err, chunk.ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v, want unknown outcome and the deadline", err)
		}
	})
}

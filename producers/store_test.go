package producers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// always is the same fate for every publish after the run_started.
func always(f fate) func(int, outgoing) fate {
	return func(int, outgoing) fate { return f }
}

// times is a fate for the first n publishes from now on.
func times(n int, f fate) func(int, outgoing) fate {
	return func(int, outgoing) fate {
		if n--; n >= 0 {
			return f
		}
		return fate{}
	}
}

func api(code int) error { return &apiError{Code: 500, ErrCode: code, Text: "the server's words"} }

// Whatever happens to the first attempts, the chunk is stored once, and Write
// returns where.
func TestTroubleThatIsWaitedOut(t *testing.T) {
	for name, f := range map[string]fate{
		"the acknowledgement is lost":              {after: errTimeout},
		"the connection breaks behind the message": {after: errDisconnected},
		"the connection breaks before the message": {before: errDisconnected},
		"the answer is nonsense":                   {after: errBadAnswer},
		"nobody answers":                           {before: errTimeout},
		"it arrives after we have given up on it":  {late: time.Microsecond, after: errTimeout},
		"it arrives among the next attempts":       {late: 25 * time.Millisecond, after: errTimeout},
		"it arrives after another attempt did":     {late: time.Hour, after: errTimeout},
		"no connection":                            {before: errNotConnected},
		"no stream":                                {before: errNobody},
		"an election":                              {before: api(10008)},
		"the guard is not ready":                   {before: api(10163)},
		"the subject is busy":                      {before: api(codeBusy)},
		"busy with our own first attempt":          {late: time.Millisecond, after: api(codeBusy)},
		"out of memory":                            {before: api(codeNoResources)},
		"the store is full":                        {before: api(codeNoStorage)},
		"the store fails":                          {before: api(codeStoreFailed)},
		"too many requests":                        {before: api(codeTooMany)},
		"a verdict that is none":                   {before: api(codeWrongLast)},
		"an error of tomorrow":                     {before: api(19999)},
		"an error of tomorrow for what was stored": {after: api(19999)},
	} {
		for _, n := range []int{1, 4, 9} {
			t.Run(fmt.Sprintf("%s, %d times", name, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newFakeLog(t, testSession)
					r := startOn(t, l, Config{})
					l.fate = times(n, f)
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
					time.Sleep(2 * time.Hour) // whatever is late has arrived
					l.mustHave("custom", "custom")
				})
			})
		}
	}
}

// A busy subject is free again in a moment; the wait is not that of an outage.
func TestBusyIsTriedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.fate = times(1, fate{before: api(codeBusy)})
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
		d := delay(unknown, n)
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

// Whoever stays without an answer for too long knows nothing, says so, and
// writes nothing more: what comes later could stand before what came earlier.
func TestPatienceEndsInUnknownOutcome(t *testing.T) {
	for name, f := range map[string]fate{
		"no answer ever":                        {before: errTimeout, delay: 2 * time.Second},
		"an answer at first, then a full store": {before: api(codeNoStorage)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				r := startOn(t, l, Config{Patience: 10 * time.Second})
				first := true
				l.fate = func(int, outgoing) fate {
					if first {
						first = false
						return fate{before: errTimeout}
					}
					return f
				}
				begin := time.Now()
				_, err := r.Write(t.Context(), numbered(1))
				var u *UnknownOutcomeError
				if !errors.As(err, &u) || !errors.Is(err, chunk.ErrUnknownOutcome) || errors.Is(err, chunk.ErrNotStored) || u.Ordinal != 2 {
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

// mustBeSticky: every method returns the error that ended the run, and nothing
// is sent.
func mustBeSticky(t *testing.T, r *Run, want error) {
	t.Helper()
	l, _ := r.log.(*fakeLog)
	calls := l.calls
	ctx := t.Context()
	for name, f := range map[string]func() error{
		"Emit":          func() error { return r.Emit(ctx, numbered(9)) },
		"Say":           func() error { return r.Say(ctx, chunk.TextDelta{Delta: "x"}) },
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
		t.Errorf("Close: %v, want nil: it was told", err)
	}
}

// The last attempt may have been stored when nobody could say so. One last look
// tells.
func TestTheLastLookFindsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{Patience: time.Second})
		l.fate = func(n int, _ outgoing) fate {
			if n == 2 {
				return fate{after: errTimeout}
			}
			return fate{before: errTimeout}
		}
		if seq, err := r.Write(t.Context(), numbered(1)); err != nil || seq != l.lastSeq() {
			t.Fatal(seq, err)
		}
	})
}

// A log that takes nothing says so each time, so the chunk is certainly not
// stored. What waited behind it is given up with it: nothing may pass it before
// the run knows.
func TestPatienceEndsInNotStored(t *testing.T) {
	for name, cause := range map[string]error{
		"no connection":     errNotConnected,
		"no stream":         errNobody,
		"out of memory":     api(codeNoResources),
		"the store is full": api(codeNoStorage),
		"the store fails":   api(codeStoreFailed),
		"too many requests": api(codeTooMany),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				r := startOn(t, l, Config{Patience: 10 * time.Second})
				l.fate = always(fate{before: cause})
				begin := time.Now()
				emitAll(t, r, numbered(1), numbered(2), numbered(3))
				_, err := r.Flush(t.Context())
				if !errors.Is(err, chunk.ErrNotStored) || errors.Is(err, chunk.ErrUnknownOutcome) || !errors.Is(err, cause) {
					t.Fatalf("err = %v, want not stored because of %v", err, cause)
				}
				if !strings.Contains(err.Error(), "3 emitted earlier") {
					t.Errorf("err = %v, want it to count three", err)
				}
				if took := time.Since(begin); took > 12*time.Second {
					t.Errorf("gave up after %s: those behind had a budget of their own", took)
				}
				l.fate = nil
				if _, err := r.Write(t.Context(), numbered(4)); err != nil {
					t.Fatalf("when it takes something again: %v", err)
				}
				l.mustHave("custom")
			})
		})
	}
}

// A chunk that the server will never take costs no ordinal, and what comes
// after it is stored.
func TestAFinalRefusalIsOfOneChunk(t *testing.T) {
	for _, code := range []int{codeTooLarge, codeHeaderTooLarge} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				r := startOn(t, l, Config{})
				l.fate = func(_ int, m outgoing) fate {
					if strings.Contains(string(m.data), `"data":2`) {
						return fate{before: api(code)}
					}
					return fate{delay: time.Millisecond} // long enough to emit the others
				}
				emitAll(t, r, numbered(1), numbered(2), numbered(3))
				_, err := r.Flush(t.Context())
				if !errors.Is(err, chunk.ErrNotStored) || !errors.Is(err, chunk.ErrTooLarge) {
					t.Fatalf("err = %v, want not stored, too large", err)
				}
				if _, err := r.Flush(t.Context()); err != nil {
					t.Errorf("told twice: %v", err)
				}
				l.mustHave("custom", "custom")
				if l.calls != 4 {
					t.Errorf("%d publishes, want 4: a refusal is not tried again", l.calls)
				}
			})
		})
	}
}

// What forbids one chunk forbids all: they are not tried one by one.
func TestAFinalRefusalOfEverything(t *testing.T) {
	for name, cause := range map[string]error{
		"sealed":       api(codeSealed),
		"permission":   errPermission,
		"closed":       errConnClosed,
		"wrong stream": api(codeWrongStream),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				r := startOn(t, l, Config{})
				l.fate = always(fate{delay: time.Millisecond, before: cause})
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

// Who was overtaken learns it in one publish and writes nothing more.
func TestOvertakenIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.foreign(2, 2, chunk.Chunk{Body: chunk.RunStarted{RunID: "b", Epoch: 2, Mode: "takeover"}})
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

// The acknowledgement was lost and then another writer took over: the chunk is
// in the log all the same, and Write says so. The next one is fenced.
func TestStoredBeforeOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.fate = func(n int, _ outgoing) fate {
			switch n {
			case 2:
				return fate{after: errTimeout}
			case 3:
				l.foreign(2, 3, chunk.Chunk{Body: chunk.RunStarted{RunID: "b", Epoch: 2, Mode: "takeover"}})
			}
			return fate{}
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

// The same epoch with other bytes is a second writer that believes to be us.
func TestOurOwnNameInTheLogIsNotEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.foreign(1, 2, chunk.Chunk{Body: chunk.TextDelta{Delta: "not mine"}})
		if _, err := r.Write(t.Context(), numbered(1)); !errors.Is(err, chunk.ErrFenced) {
			t.Fatalf("err = %v, want fenced", err)
		}
	})
}

// Everything before us expired, or was purged: going on would leave a log that
// begins in the middle with a guard nobody set.
func TestARunWhoseRecordsAreGoneIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.mu.Lock()
		l.msgs = nil
		l.mu.Unlock()
		_, err := r.Write(t.Context(), numbered(1))
		var f *FencedError
		if !errors.As(err, &f) || f.At != 0 || !strings.Contains(err.Error(), "gone") {
			t.Fatalf("err = %v, want fenced because the records are gone", err)
		}
	})
}

// A stream that shuts down or recovers refuses everything and knows nothing for
// a moment. That is no verdict.
func TestALogThatForgetsForAMoment(t *testing.T) {
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

// A context that ends the start does not leave a run behind, and says whether
// anything may be stored.
func TestStartEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		l.fate = always(fate{before: errTimeout, delay: 2 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := newRun(Config{}.withDefaults(), l.s, l, startOptions{})
		defer r.Close()
		if err := r.start(ctx, chunk.RunStarted{RunID: "r", Mode: "execute"}, startOptions{}); !errors.Is(err, chunk.ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v, want unknown outcome and the deadline", err)
		}
	})
}

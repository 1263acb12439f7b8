package producers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// moves are the four calls of the table in docs/protocol/stream.md#helix-3.2.
func moves(ctx context.Context, r *Run) map[string]func() error {
	return map[string]func() error{
		"End":      func() error { return r.End(ctx, chunk.Value(`1`)) },
		"Fail":     func() error { return r.Fail(ctx, "broken", nil) },
		"Pause":    func() error { return r.Pause(ctx, "approval") },
		"Activate": func() error { return r.Activate(ctx) },
	}
}

func TestTransitionTable(t *testing.T) {
	const (
		written = "written"
		noop    = "no-op"
		refused = "refused"
	)
	for first, row := range map[string]map[string]string{
		"":      {"End": written, "Fail": written, "Pause": written, "Activate": noop},
		"Pause": {"End": written, "Fail": written, "Pause": noop, "Activate": written},
		"End":   {"End": noop, "Fail": refused, "Pause": refused, "Activate": refused},
		"Fail":  {"End": refused, "Fail": noop, "Pause": refused, "Activate": refused},
	} {
		for second, want := range row {
			t.Run(fmt.Sprintf("%s then %s", first, second), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newFakeLog(t, testSession)
					r := startOn(t, l, Config{})
					calls := moves(t.Context(), r)
					if first != "" {
						if err := calls[first](); err != nil {
							t.Fatal(err)
						}
					}
					before := len(l.msgs)
					err := calls[second]()
					got := noop
					switch {
					case errors.Is(err, ErrEnded) && errors.Is(err, chunk.ErrNotStored):
						got = refused
					case err != nil:
						t.Fatal(err)
					case len(l.msgs) == before+1:
						got = written
					}
					if got != want {
						t.Errorf("it was a %s, want %s", got, want)
					}
				})
			})
		}
	}
}

// After a terminal record nothing of the run is stored; while it is paused only a resume or an end is.
func TestNothingIsWrittenToAnEndedOrPausedRun(t *testing.T) {
	for name, want := range map[string]error{"End": ErrEnded, "Fail": ErrEnded, "Pause": ErrPaused} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				r := startOn(t, l, Config{})
				if err := moves(t.Context(), r)[name](); err != nil {
					t.Fatal(err)
				}
				before := len(l.msgs)
				if err := r.Emit(t.Context(), numbered(1)); !errors.Is(err, want) || !errors.Is(err, chunk.ErrNotStored) {
					t.Errorf("Emit: %v, want %v", err, want)
				}
				if _, err := r.Write(t.Context(), numbered(1)); !errors.Is(err, want) {
					t.Errorf("Write: %v, want %v", err, want)
				}
				if _, err := r.CleanupToStep(t.Context(), 0, 0); err != nil && !errors.Is(err, want) {
					t.Errorf("CleanupToStep: %v, want %v", err, want)
				}
				if pos, err := r.Flush(t.Context()); err != nil || pos != r.Position() {
					t.Errorf("Flush: %v, %v", pos, err)
				}
				synctest.Wait()
				if len(l.msgs) != before {
					t.Error("something was stored")
				}
			})
		})
	}
}

func TestPausedRunContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		emitAll(t, r, text("a"))
		for _, err := range []error{r.Pause(t.Context(), ""), r.Activate(t.Context())} {
			if err != nil {
				t.Fatal(err)
			}
		}
		emitAll(t, r, text("b"))
		if err := r.End(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		l.mustHave("a", "stream_paused", "stream_active", "b", "stream_end")
	})
}

// Of many concurrent Ends one record is written, and all return its result; chunks that were emitted before precede it.
func TestOneTerminalWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.fault = always(fault{delay: time.Second})
		emitAll(t, r, text("a"), numbered(1))
		var all sync.WaitGroup
		var mu sync.Mutex
		ended, failed := 0, 0
		for i := range 20 {
			all.Go(func() {
				end := i%2 == 0
				var err error
				if end {
					err = r.End(t.Context(), nil)
				} else {
					err = r.Fail(t.Context(), "x", nil)
				}
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil && end:
					ended++
				case err == nil:
					failed++
				case !errors.Is(err, ErrEnded):
					t.Error(err)
				}
			})
		}
		all.Wait()
		if ended+failed != 10 || ended*failed != 0 {
			t.Errorf("%d Ends and %d Fails succeeded, want ten of one kind", ended, failed)
		}
		summary := l.summary()
		if len(summary) != 3 || summary[0] != "a" || summary[1] != "custom" || !chunk.Type(summary[2]).Terminal() {
			t.Errorf("the log has %q", summary)
		}
	})
}

// A terminal that could not be stored does not end the run: the run may retry it, or continue.
func TestATerminalThatFailsIsRolledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{RetryTimeout: time.Second})
		l.fault = always(fault{before: api(codeNoStorage)})
		if err := r.End(t.Context(), nil); !errors.Is(err, chunk.ErrNotStored) {
			t.Fatalf("err = %v, want not stored", err)
		}
		l.fault = nil
		emitAll(t, r, text("still here"))
		if err := r.Fail(t.Context(), "the store was full", nil); err != nil {
			t.Fatal(err)
		}
		l.mustHave("still here", "stream_failed")
	})
}

// A nil error of End means that all chunks are stored. If a chunk was not stored, End returns its error and does not end the stream, however late that
// error comes.
func TestEndReportsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.fault = times(1, fault{delay: time.Second, before: api(codeTooLarge)})
		emitAll(t, r, numbered(1), numbered(2))
		if err := r.End(t.Context(), nil); !errors.Is(err, chunk.ErrNotStored) {
			t.Fatalf("err = %v, want the loss", err)
		}
		l.mustHave("custom")
		if err := r.End(t.Context(), nil); err != nil {
			t.Fatalf("End that accepts the loss: %v", err)
		}
		l.mustHave("custom", "stream_end")
	})
}

// Fail ends the stream although a chunk was not stored.
func TestFailDoesNotStopAtALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.fault = times(1, fault{before: api(codeTooLarge)})
		emitAll(t, r, numbered(1))
		if err := r.Fail(t.Context(), "lost a chunk", nil); err != nil {
			t.Fatal(err)
		}
		l.mustHave("stream_failed")
	})
}

// An agent may report any code, but not that its session was deleted: readers would take the records before for removed ones.
func TestFailIsNotADeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		code, retryable := chunk.CodeSessionDeleted, true
		if err := r.Fail(t.Context(), "gone", &chunk.ErrorDetail{Message: "gone", Code: &code, Retryable: &retryable}); err != nil {
			t.Fatal(err)
		}
		l.mustHave("stream_failed")
		if got := string(l.msgs[len(l.msgs)-1].data); strings.Contains(got, code) || !strings.Contains(got, `"retryable":true`) {
			t.Errorf("the record is %s", got)
		}
	})
}

// The next call returns the error of an emitted chunk, once, and does nothing else.
func TestEachMethodReportsALoss(t *testing.T) {
	for name, f := range map[string]func(context.Context, *Run) error{
		"Emit":  func(ctx context.Context, r *Run) error { return r.Emit(ctx, numbered(2)) },
		"Say":   func(ctx context.Context, r *Run) error { return r.EmitBody(ctx, chunk.TextDelta{Delta: "x"}) },
		"Write": func(ctx context.Context, r *Run) error { _, err := r.Write(ctx, numbered(2)); return err },
		"Flush": func(ctx context.Context, r *Run) error { _, err := r.Flush(ctx); return err },
		"Pause": func(ctx context.Context, r *Run) error { return r.Pause(ctx, "") },
		"Close": func(_ context.Context, r *Run) error { return r.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				r := startOn(t, l, Config{})
				l.fault = times(1, fault{before: api(codeTooLarge)})
				emitAll(t, r, numbered(1))
				synctest.Wait()
				if err := f(t.Context(), r); !errors.Is(err, chunk.ErrNotStored) || !strings.Contains(err.Error(), "queued chunk: ") {
					t.Fatalf("err = %v, want the loss", err)
				}
				if name == "Close" {
					return
				}
				synctest.Wait()
				l.mustHave()
				if err := f(t.Context(), r); err != nil {
					t.Errorf("reported twice: %v", err)
				}
			})
		})
	}
}

// An end is never rejected because of its size: members that do not fit are omitted and named.
func TestAnEndIsNeverTooLarge(t *testing.T) {
	big := strings.Repeat("x", 10<<10)
	detail := &chunk.ErrorDetail{Message: big}
	for name, tc := range map[string]struct {
		end  func(ctx context.Context, r *Run) error
		want string
	}{
		"final output": {
			end:  func(ctx context.Context, r *Run) error { return r.End(ctx, chunk.Value(`"`+big+`"`)) },
			want: `"omitted":["finalOutput"]`,
		},
		"detail": {
			end:  func(ctx context.Context, r *Run) error { return r.Fail(ctx, "short", detail) },
			want: `"error":"short","omitted":["errorDetail"]`,
		},
		"message": {
			end:  func(ctx context.Context, r *Run) error { return r.Fail(ctx, big, nil) },
			want: `"omitted":["error"]`,
		},
		"message and detail": {
			end:  func(ctx context.Context, r *Run) error { return r.Fail(ctx, big, detail) },
			want: `"omitted":["errorDetail","error"]`,
		},
		"reason": {
			end:  func(ctx context.Context, r *Run) error { return r.Pause(ctx, big) },
			want: `"omitted":["reason"]`,
		},
		"message with invalid UTF-8": {
			end:  func(ctx context.Context, r *Run) error { return r.Fail(ctx, "bad \xff", nil) },
			want: `"error":"bad ` + "\uFFFD" + `"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				r := startOn(t, l, Config{MaxChunk: 4 << 10})
				if err := tc.end(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				if recs := l.records(); !strings.Contains(string(recs[1].Data), tc.want) {
					t.Errorf("the record is %s, want %s in it", recs[1].Data, tc.want)
				}
			})
		})
	}
}

// A final output that is not valid JSON is rejected, whatever its size.
func TestAnEndWithInvalidOutputIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		if err := r.End(t.Context(), chunk.Value(`{`)); !errors.Is(err, chunk.ErrInvalid) || !errors.Is(err, chunk.ErrNotStored) {
			t.Fatalf("err = %v, want invalid", err)
		}
		if err := r.End(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	})
}

// An End whose caller has stopped waiting is still written.
func TestAnEndWithoutACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.fault = always(fault{delay: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.End(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if err := r.Fail(ctx, "x", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Fail while the End is in flight: %v", err)
		}
		if err := r.End(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		l.mustHave("stream_end")
	})
}

// An error that is cut ends with a whole character.
func TestReduceCutsBetweenCharacters(t *testing.T) {
	text := strings.Repeat("a", 255)
	for _, end := range []string{"bc", "ß", "€", "😀"} {
		c, ok := reduce(chunk.Chunk{Body: chunk.StreamFailed{Error: text + end}})
		want := text
		if end == "bc" {
			want += "b"
		}
		if failed, _ := chunk.As[chunk.StreamFailed](c); !ok || failed.Error != want {
			t.Errorf("%q: cut to %q", end, failed.Error[min(len(failed.Error), 250):])
		}
	}
}

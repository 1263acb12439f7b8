package producers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
)

func text(s string) chunk.Chunk { return chunk.Chunk{Step: 1, Body: chunk.TextDelta{Delta: s}} }

func emitAll(t *testing.T, r *Run, cs ...chunk.Chunk) {
	t.Helper()
	for _, c := range cs {
		if err := r.Emit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}

// summary returns the records after the run_started: the text of deltas, and the type of all others.
func (l *fakeLog) summary() []string {
	l.t.Helper()
	var all []string
	for i, rec := range l.records() {
		if rec.Ordinal != chunk.Ordinal(i+1) {
			l.t.Errorf("record %d has ordinal %d", i, rec.Ordinal)
		}
		c, err := rec.Decode()
		if err != nil {
			l.t.Fatal(err)
		}
		if s, ok := deltaText(c.Body); ok {
			all = append(all, s)
		} else if rec.Type != chunk.TypeRunStarted {
			all = append(all, string(rec.Type))
		}
	}
	return all
}

func (l *fakeLog) mustHave(want ...string) {
	l.t.Helper()
	if got := l.summary(); !slices.Equal(got, want) {
		l.t.Fatalf("the log has %q, want %q", got, want)
	}
}

// A delta that waits for the pace is sent when a chunk follows that cannot be merged, when it is large enough, and at a flush.
func TestADeltaThatWaitsIsSent(t *testing.T) {
	emit := func(cs ...chunk.Chunk) func(context.Context, *Run) error {
		return func(ctx context.Context, r *Run) error {
			for _, c := range cs {
				if err := r.Emit(ctx, c); err != nil {
					return err
				}
			}
			return nil
		}
	}
	tool := chunk.Chunk{Step: 1, Body: chunk.ToolStart{ToolCallID: "c", ToolName: "n", Arguments: chunk.Value(`{}`)}}
	for name, tc := range map[string]struct {
		cfg  Config
		push func(ctx context.Context, r *Run) error
		want []string
	}{
		"another chunk": {
			push: emit(tool),
			want: []string{"a", "b", "tool_start"},
		},
		"a delta of another kind": {
			push: emit(chunk.Chunk{Step: 1, Body: chunk.Thinking{Content: "hm"}}),
			want: []string{"a", "b", "hm"},
		},
		"a delta of another step": {
			push: emit(chunk.Chunk{Step: 2, Body: chunk.TextDelta{Delta: "c"}}),
			want: []string{"a", "b", "c"},
		},
		"enough bytes": {
			cfg:  Config{MaxDelta: 4},
			push: emit(text("ccc")),
			want: []string{"a", "bccc"},
		},
		"more than enough bytes": {
			cfg:  Config{MaxDelta: 4},
			push: emit(text("dddd")),
			want: []string{"a", "b", "dddd"},
		},
		"Write": {
			push: func(ctx context.Context, r *Run) error { _, err := r.Write(ctx, text("c")); return err },
			want: []string{"a", "bc"},
		},
		"Flush": {
			push: func(ctx context.Context, r *Run) error { _, err := r.Flush(ctx); return err },
			want: []string{"a", "b"},
		},
		"End": {
			push: func(ctx context.Context, r *Run) error { return r.End(ctx, nil) },
			want: []string{"a", "b", "stream_end"},
		},
		"Fail": {
			push: func(ctx context.Context, r *Run) error { return r.Fail(ctx, "x", nil) },
			want: []string{"a", "b", "stream_failed"},
		},
		"Pause": {
			push: func(ctx context.Context, r *Run) error { return r.Pause(ctx, "") },
			want: []string{"a", "b", "stream_paused"},
		},
		"a cleanup": {
			push: func(ctx context.Context, r *Run) error { _, err := r.CleanupToStep(ctx, 1, 0); return err },
			want: []string{"a", "b"},
		},
		"an approval": {
			push: emit(chunk.Chunk{Step: 1, Body: chunk.ToolApprovalRequest{ToolCallID: "c", ToolName: "n", ApprovalID: "a", Input: chunk.Value(`{}`)}}),
			want: []string{"a", "b", "tool_approval_request"},
		},
		"a delta with another member": {
			push: emit(chunk.Chunk{Step: 1, Body: chunk.TextDelta{Delta: "c"}, Extra: []chunk.Member{{Name: "m", Value: chunk.Value(`1`)}}}),
			want: []string{"a", "b", "c"},
		},
		"no pace": {
			cfg:  Config{Pace: Off},
			push: emit(),
			want: []string{"a", "b"},
		},
		"a queue full of bytes": {
			cfg:  Config{MaxQueueBytes: 1},
			push: emit(tool),
			want: []string{"a", "b", "tool_start"},
		},
		"a full queue with an item before it": {
			cfg:  Config{MaxQueue: 1},
			push: emit(tool),
			want: []string{"a", "b", "tool_start"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				tc.cfg.Pace = cmp.Or(tc.cfg.Pace, time.Hour)
				r := startOn(t, l, tc.cfg)
				emitAll(t, r, text("a"))
				synctest.Wait()
				begin := time.Now()
				emitAll(t, r, text("b"))
				if err := tc.push(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				l.mustHave(tc.want...)
				if waited := time.Since(begin); waited > 0 {
					t.Errorf("it took %s", waited)
				}
			})
		})
	}
}

// While one message is in flight, deltas are merged or queued: there is one publish at a time, and blocks stay separate.
func TestDeltasMergeWhileOneIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.fault = func(int, outgoing) fault { return fault{delay: time.Second} }
		arg := func(call, s string) chunk.Chunk {
			return chunk.Chunk{Step: 1, Body: chunk.ToolArgStreamDelta{ToolCallID: call, Delta: s}}
		}
		emitAll(t, r, text("1"), text("2"), text("3"),
			arg("c1", "{"), arg("c1", "}"), arg("c2", "{"), arg("c1", "!"),
			chunk.Chunk{Step: 1, Body: chunk.Thinking{Content: "h"}}, chunk.Chunk{Step: 1, Body: chunk.Thinking{Content: "m"}},
			text("4"), numbered(1), text("5"), text("6"))
		if _, err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if l.calls == 1 {
			t.Fatal("nothing was published")
		}
		l.mustHave(append(splitFirst(l.summary()), "{}", "{", "!", "hm", "4", "custom", "56")...)
	})
}

// splitFirst returns how "123" was stored: the goroutine of the pump may have taken the first delta before or after the others were emitted.
func splitFirst(summary []string) []string {
	n := 0
	for joined := ""; joined != "123" && n < len(summary); n++ {
		joined += summary[n]
	}
	return summary[:n]
}

// A character that a model streams in two halves is joined.
func TestMergingJoinsSurrogatePairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		emitAll(t, r, text("x"))
		synctest.Wait()
		emitAll(t, r, text("\xed\xa0\xbd"), text("\xed\xb8\x80"))
		if _, err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.mustHave("x", "😀")
	})
}

func TestAFullQueueBlocksWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		l.stored = make(chan struct{}, 100)
		r := startOn(t, l, Config{MaxQueue: 3})
		<-l.stored
		l.fault = func(int, outgoing) fault { return fault{delay: time.Minute} }
		emitAll(t, r, numbered(0))
		synctest.Wait() // it is in flight
		emitAll(t, r, numbered(1), numbered(2), numbered(3))

		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		err := r.Emit(ctx, numbered(99))
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, chunk.ErrNotStored) {
			t.Fatalf("err = %v, want the deadline and not stored", err)
		}
		begin := time.Now()
		emitAll(t, r, numbered(4))
		if waited := time.Since(begin); waited != 30*time.Second {
			t.Errorf("waited %s, want until the first was stored", waited)
		}
		if _, err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(l.records()); n != 6 {
			t.Errorf("%d records, want 6: the one that was not queued is not stored", n)
		}
	})
}

// The size of the queue is limited in bytes as well as in records.
func TestAQueueFullOfBytesBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{MaxQueueBytes: 10 << 10})
		l.fault = always(fault{delay: time.Minute})
		big := chunk.Chunk{Body: chunk.Custom{EventName: "n", Data: chunk.Value(`"` + strings.Repeat("x", 6<<10) + `"`)}}
		emitAll(t, r, big)
		synctest.Wait() // it is in flight
		begin := time.Now()
		emitAll(t, r, big, big)
		if time.Since(begin) > 0 {
			t.Error("the second that waits blocked")
		}
		emitAll(t, r, text("x"))
		if waited := time.Since(begin); waited != time.Minute {
			t.Errorf("waited %s, want until one was stored", waited)
		}
		if _, err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r.queue.bytes != 0 {
			t.Errorf("%d bytes wait in an empty queue", r.queue.bytes)
		}
	})
}

// A Write whose context ends returns the error of the context at once, and the chunk is still stored.
func TestAWriteThatStopsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.fault = func(int, outgoing) fault { return fault{delay: time.Minute} }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.Write(ctx, numbered(1))
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, chunk.ErrNotStored) {
			t.Fatalf("err = %v, want the deadline alone", err)
		}
		if _, err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.mustHave("custom")
	})
}

// If that chunk fails, the next call returns the error.
func TestAnAbandonedWriteThatFailsIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.fault = func(int, outgoing) fault {
			return fault{delay: time.Minute, before: &jetstream.APIError{ErrorCode: codeTooLarge, Description: "too large"}}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Write(ctx, numbered(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if _, err := r.Flush(t.Context()); !errors.Is(err, chunk.ErrNotStored) {
			t.Errorf("err = %v, want not stored", err)
		}
	})
}

// Many goroutines write; the chunks of each keep their order, and the log has one order of all.
func TestOrderUnderConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{MaxQueue: 4})
		l.fault = func(int, outgoing) fault { return fault{delay: time.Millisecond} }
		const writers, each = 8, 50
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for n := range each {
					c := chunk.Chunk{Body: chunk.Custom{EventName: fmt.Sprint("w", w), Data: chunk.Value(fmt.Sprint(n))}}
					var err error
					if n%3 == 0 {
						_, err = r.Write(t.Context(), c)
					} else {
						err = r.Emit(t.Context(), c)
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if _, err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := map[string]int{}
		for _, rec := range l.records()[1:] {
			c, err := rec.Decode()
			if err != nil {
				t.Fatal(err)
			}
			b, _ := c.Body.(chunk.Custom)
			if string(b.Data) != fmt.Sprint(next[b.EventName]) {
				t.Fatalf("%s: %s came, want %d", b.EventName, b.Data, next[b.EventName])
			}
			next[b.EventName]++
		}
		if len(next) != writers {
			t.Errorf("%d writers in the log", len(next))
		}
	})
}

// Chunks that are emitted during a Write are sent after it without a further call.
func TestEmittedDuringAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.fault = always(fault{delay: time.Second})
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := r.Write(t.Context(), numbered(1)); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		emitAll(t, r, text("a"), text("b"))
		all.Wait()
		time.Sleep(time.Minute)
		l.mustHave("custom", "ab")
	})
}

// A Flush during a Write waits for it.
func TestFlushDuringAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.fault = always(fault{delay: time.Second})
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := r.Write(t.Context(), numbered(1)); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		pos, err := r.Flush(t.Context())
		if err != nil || pos.Ordinal != 2 {
			t.Errorf("position %+v, %v", pos, err)
		}
		all.Wait()
	})
}

// An idle run has no goroutine and no timer.
func TestAnIdleRunHasNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		emitAll(t, r, text("a"), numbered(1))
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.running || r.queue.waiting() != 0 || r.inFlight != nil {
			t.Error("the pump is still running")
		}
	})
}

func TestCloseDropsTheQueueAndReportsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{Pace: time.Hour})
		emitAll(t, r, text("a"))
		synctest.Wait()
		emitAll(t, r, text("b"))
		err := r.Close()
		if !errors.Is(err, chunk.ErrNotStored) || !errors.Is(err, ErrClosed) {
			t.Errorf("err = %v, want not stored, closed", err)
		}
		if err := r.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
		if err := r.Emit(t.Context(), text("c")); !errors.Is(err, ErrClosed) || !errors.Is(err, chunk.ErrNotStored) {
			t.Errorf("Emit after Close: %v", err)
		}
		if _, err := r.Flush(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Flush after Close: %v", err)
		}
		if err := r.End(t.Context(), nil); !errors.Is(err, ErrClosed) {
			t.Errorf("End after Close: %v", err)
		}
		l.mustHave("a")
	})
}

// Close does not wait for a missing response.
func TestCloseEndsAPublishInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.fault = func(int, outgoing) fault { return fault{delay: time.Hour} }
		result := make(chan error)
		go func() {
			_, err := r.Write(t.Context(), numbered(1))
			result <- err
		}()
		synctest.Wait()
		begin := time.Now()
		closed := make(chan error)
		go func() { closed <- r.Close() }()
		if err := <-result; !errors.Is(err, chunk.ErrUnknownOutcome) {
			t.Errorf("Write: %v, want unknown outcome", err)
		}
		if err := <-closed; err != nil {
			t.Errorf("Close: %v, want nil: Write has reported it", err)
		}
		if time.Since(begin) > 0 {
			t.Error("Close waited")
		}
	})
}

func TestCloseUnblocksAFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{MaxQueue: 1})
		l.fault = func(int, outgoing) fault { return fault{delay: time.Hour} }
		emitAll(t, r, numbered(1))
		synctest.Wait()
		emitAll(t, r, numbered(2))
		result := make(chan error)
		go func() { result <- r.Emit(t.Context(), numbered(3)) }()
		synctest.Wait()
		_ = r.Close()
		if err := <-result; err == nil {
			t.Error("Emit returned nil")
		}
	})
}

// A delta that does not fit into one message is split, and the parts contain the text.
func TestALongDeltaIsSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{MaxChunk: 8 << 10})
		long := strings.Repeat("ß\n\"x\"", 5000)
		seq, err := r.Write(t.Context(), text(long))
		if err != nil {
			t.Fatal(err)
		}
		if seq != r.Position().Seq {
			t.Errorf("sequence %d, want that of the last part, %d", seq, r.Position().Seq)
		}
		if got := strings.Join(l.summary(), ""); got != long {
			t.Errorf("the parts have %d bytes and differ from the %d of the whole", len(got), len(long))
		}
		for _, rec := range l.records() {
			if len(rec.Data) > 8<<10 {
				t.Errorf("a part has %d bytes", len(rec.Data))
			}
		}
	})
}

// The limit of the server applies too, even if that of the Config is higher.
func TestMaxPayloadOfTheServerApplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		l.limit = 16 << 10
		r := startOn(t, l, Config{})
		if _, err := r.Write(t.Context(), text(strings.Repeat("x", 50<<10))); err != nil {
			t.Fatal(err)
		}
		calls := l.calls
		big := chunk.Chunk{Body: chunk.Custom{EventName: "n", Data: chunk.Value(`"` + strings.Repeat("x", 20<<10) + `"`)}}
		_, err := r.Write(t.Context(), big)
		if !errors.Is(err, chunk.ErrTooLarge) || !errors.Is(err, chunk.ErrNotStored) {
			t.Errorf("err = %v, want too large", err)
		}
		if l.calls != calls {
			t.Error("it was sent")
		}
		if _, err := r.Write(t.Context(), numbered(1)); err != nil {
			t.Errorf("the next chunk: %v", err)
		}
	})
}

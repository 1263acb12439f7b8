package producers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
)

// twoTurns is the history of CV-8: steps 1, 2, 3 in the first turn, 1 and 2 in the second, which is still open. minSeq is the sequence before the
// second.
//
//	ordinal  1 run_started   2 step 1  3 step 2  4 step 3  5 stream_end
//	         6 run_started   7 step 1  8 step 2
func twoTurns(t *testing.T, start func() *Run) (r *Run, minSeq chunk.Seq) {
	t.Helper()
	step := func(r *Run, n int64) {
		if _, err := r.Write(t.Context(), chunk.Chunk{Step: n, Body: chunk.Custom{EventName: "step", Data: chunk.Value(fmt.Sprint(n))}}); err != nil {
			t.Fatal(err)
		}
	}
	r = start()
	for n := range int64(3) {
		step(r, n+1)
	}
	if err := r.End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	r = start()
	minSeq = r.Position().Seq
	step(r, 1)
	step(r, 2)
	return r, minSeq
}

// survivors returns the remaining ordinals.
func survivors(recs []chunk.Record) []int {
	var all []int
	for _, rec := range recs {
		all = append(all, int(rec.Ordinal))
	}
	return all
}

// markOf returns the truncation record at the end of the log.
func markOf(t *testing.T, recs []chunk.Record) chunk.Truncated {
	t.Helper()
	c, err := recs[len(recs)-1].Decode()
	if err != nil {
		t.Fatal(err)
	}
	m, ok := c.Body.(chunk.Truncated)
	if !ok {
		t.Fatalf("the last record is a %s, want a mark", c.Type())
	}
	return m
}

func TestCleanupToStep(t *testing.T) {
	for name, tc := range map[string]struct {
		step    int64
		minSeq  bool
		removed int
		left    []int
		ranges  []chunk.OrdinalRange
	}{
		"CV-8 with a minimum":    {step: 1, minSeq: true, removed: 1, left: []int{1, 2, 3, 4, 5, 6, 7, 9}, ranges: []chunk.OrdinalRange{{First: 8, Last: 8}}},
		"CV-8 without a minimum": {step: 1, removed: 3, left: []int{1, 2, 5, 6, 7, 9}, ranges: []chunk.OrdinalRange{{First: 3, Last: 4}, {First: 8, Last: 8}}},
		"everything":             {step: 0, removed: 5, left: []int{1, 5, 6, 9}, ranges: []chunk.OrdinalRange{{First: 2, Last: 4}, {First: 7, Last: 8}}},
		"nothing, so no mark":    {step: 3, removed: 0, left: []int{1, 2, 3, 4, 5, 6, 7, 8}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				r, minSeq := twoTurns(t, func() *Run { return startOn(t, l, Config{}) })
				if !tc.minSeq {
					minSeq = 0
				}
				before := r.Position()
				first := l.records()
				n, err := r.CleanupToStep(t.Context(), tc.step, minSeq)
				if err != nil || n != tc.removed {
					t.Fatalf("removed %d, %v; want %d", n, err, tc.removed)
				}
				if got := survivors(l.records()); !slices.Equal(got, tc.left) {
					t.Errorf("left: %v, want %v", got, tc.left)
				}
				if tc.removed == 0 {
					return
				}
				m := markOf(t, l.records())
				if m.TruncatedAtStep != tc.step || m.MinSequence != int64(minSeq) || m.AtSequence != int64(before.Seq) || !reflect.DeepEqual(m.Removed, tc.ranges) ||
					m.FromSequence != int64(first[tc.ranges[0].First-1].Seq) {
					t.Errorf("the mark says %+v", m)
				}
				if _, err := r.Write(t.Context(), numbered(1)); err != nil || r.Position().Ordinal != 10 {
					t.Errorf("the next write: %+v, %v", r.Position(), err)
				}
				if n, err := r.CleanupToStep(t.Context(), 3, 0); n != 0 || err != nil {
					t.Errorf("again: %d, %v", n, err)
				}
			})
		})
	}
}

// Queued chunks are removed too.
func TestCleanupFlushesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{Pace: time.Hour})
		emitAll(t, r, chunk.Chunk{Step: 1, Body: chunk.Thinking{Content: "a"}}, text("b"))
		if n, err := r.CleanupToStep(t.Context(), 0, 0); n != 2 || err != nil {
			t.Fatalf("removed %d, %v", n, err)
		}
		l.mustHaveOrdinals(1, 4)
	})
}

func (l *fakeLog) mustHaveOrdinals(want ...int) {
	l.t.Helper()
	if got := survivors(l.records()); !slices.Equal(got, want) {
		l.t.Errorf("the log has the ordinals %v, want %v", got, want)
	}
}

// The process crashes between the truncation record and its deletes. The next writer finds the record at the end of the session and completes the deletes
// before it writes anything.
func TestCrashAmongTheDeletes(t *testing.T) {
	for done := range 4 {
		t.Run(fmt.Sprintf("after %d", done), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				r, _ := twoTurns(t, func() *Run { return startOn(t, l, Config{}) })
				errLost := nats.ErrConnectionClosed
				l.failRemove = func(n int) error {
					if n > done {
						return errLost
					}
					return nil
				}
				_, err := r.CleanupToStep(t.Context(), 1, 0)
				if (err == nil) != (done == 3) {
					t.Fatalf("err = %v", err)
				}
				_ = r.Close()

				l.failRemove = nil
				if _, err := tryStart(t, l, Config{}, chunk.RunStarted{Mode: "execute"}, false); !errors.Is(err, ErrRunning) {
					t.Fatalf("err = %v, want running: its writer may be running", err)
				}
				if _, err := tryStart(t, l, Config{}, chunk.RunStarted{Mode: "takeover"}, true); err != nil {
					t.Fatal(err)
				}
				l.mustHaveOrdinals(1, 2, 5, 6, 7, 9, 10)
			})
		})
	}
}

// If the deletes cannot be completed, the start fails: otherwise the truncation record would no longer be the last record and would not be found again.
func TestAStartThatCannotFinishACleanup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r, _ := twoTurns(t, func() *Run { return startOn(t, l, Config{}) })
		l.failRemove = func(int) error { return nats.ErrTimeout }
		ctx := t.Context()
		r.cfg.RetryTimeout = time.Second
		if _, err := r.CleanupToStep(ctx, 1, 0); err == nil {
			t.Fatal("it worked")
		}
		_ = r.Close()
		before := len(l.msgs)
		_, err := tryStart(t, l, Config{RetryTimeout: time.Second}, chunk.RunStarted{Mode: "takeover"}, true)
		if !errors.Is(err, chunk.ErrNotStored) || !errors.Is(err, nats.ErrTimeout) {
			t.Errorf("err = %v, want not stored", err)
		}
		if len(l.msgs) != before {
			t.Error("something was written behind the mark")
		}
	})
}

// A run whose deletes failed retries them before it writes anything else, and writes nothing before they are complete.
func TestWritesWaitForAnUnfinishedCleanup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r, _ := twoTurns(t, func() *Run { return startOn(t, l, Config{RetryTimeout: time.Second}) })
		l.failRemove = func(n int) error {
			if n > 1 {
				return nats.ErrTimeout
			}
			return nil
		}
		if _, err := r.CleanupToStep(t.Context(), 1, 0); !errors.Is(err, nats.ErrTimeout) {
			t.Fatalf("err = %v, want that the deletes are not done", err)
		}
		if _, err := r.Write(t.Context(), numbered(1)); !errors.Is(err, chunk.ErrNotStored) {
			t.Errorf("a write behind the mark: %v", err)
		}
		if err := r.End(t.Context(), nil); !errors.Is(err, chunk.ErrNotStored) {
			t.Errorf("an end behind the mark: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := r.Write(ctx, numbered(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a write with a timeout after the truncation record: %v", err)
		}
		if _, err := r.Flush(t.Context()); !errors.Is(err, chunk.ErrNotStored) {
			t.Errorf("its result: %v", err)
		}
		l.failRemove = nil
		if _, err := r.Write(t.Context(), numbered(1)); err != nil {
			t.Fatal(err)
		}
		l.mustHaveOrdinals(1, 2, 5, 6, 7, 9, 10)
	})
}

// A cleanup by a fenced writer changes nothing.
func TestAFencedCleanupChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r, _ := twoTurns(t, func() *Run { return startOn(t, l, Config{}) })
		l.putOther(3, 9, chunk.Chunk{Body: chunk.RunStarted{RunID: "b", Epoch: 3, Mode: "takeover"}})
		if _, err := r.CleanupToStep(t.Context(), 1, 0); !errors.Is(err, chunk.ErrFenced) {
			t.Errorf("err = %v, want fenced", err)
		}
		l.mustHaveOrdinals(1, 2, 3, 4, 5, 6, 7, 8, 9)
	})
}

// Records of a fenced writer, which readers skip, are not listed as removed: their ordinals belong to other records.
func TestCleanupLooksAtTheLogAsReadersDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{}) // epoch 1, ordinal 1
		_ = r.Close()
		r, err := tryStart(t, l, Config{}, chunk.RunStarted{Mode: "takeover"}, true) // epoch 2, ordinal 2
		if err != nil {
			t.Fatal(err)
		}
		l.putOther(1, 2, chunk.Chunk{Step: 5, Body: chunk.TextDelta{Delta: "fenced"}})
		l.appendMalformed()
		r.mu.Lock()
		r.pos.Seq = l.lastSeq() // as if another writer had stored them between two records of this one
		r.mu.Unlock()
		if _, err := r.Write(t.Context(), chunk.Chunk{Step: 5, Body: chunk.Custom{EventName: "x", Data: chunk.Value(`1`)}}); err != nil {
			t.Fatal(err)
		}
		if n, err := r.CleanupToStep(t.Context(), 1, 0); n != 1 || err != nil {
			t.Fatalf("removed %d, %v; want 1", n, err)
		}
		if n := len(l.removed); n != 1 {
			t.Errorf("%d messages deleted", n)
		}
	})
}

// A list of removed ordinals that exceeds the size of a record is split into several truncation records.
func TestACleanupOfManyPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		for n := range 2*maxRemoved + 2 {
			emitAll(t, r, chunk.Chunk{Step: int64(n % 2), Body: chunk.Custom{EventName: "x", Data: chunk.Value(`1`)}})
		}
		if n, err := r.CleanupToStep(t.Context(), 0, 0); n != maxRemoved+1 || err != nil {
			t.Fatalf("removed %d, %v", n, err)
		}
		recs := l.records()
		if recs[len(recs)-1].Type != chunk.TypeTruncated || recs[len(recs)-2].Type != chunk.TypeTruncated {
			t.Error("want two marks")
		}
	})
}

func TestRangesOf(t *testing.T) {
	var ps []chunk.Position
	for _, o := range []chunk.Ordinal{2, 3, 4, 7, 9, 10} {
		ps = append(ps, chunk.Position{Ordinal: o})
	}
	want := []chunk.OrdinalRange{{First: 2, Last: 4}, {First: 7, Last: 7}, {First: 9, Last: 10}}
	if got := rangesOf(ps); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for o, want := range map[chunk.Ordinal]bool{1: false, 2: true, 3: true, 4: true, 5: false, 7: true, 8: false, 10: true, 11: false} {
		if (chunk.Truncated{Removed: rangesOf(ps)}).Removes(o) != want {
			t.Errorf("Removes(%d) = %v", o, !want)
		}
	}
}

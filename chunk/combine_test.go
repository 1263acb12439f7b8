package chunk_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

var background = context.Background()

func of(s stream) chunk.Source { return func(context.Context) stream { return s } }

// numbered returns a source of n records with sequences from first. If endless, it then blocks until its context ends.
func numbered(first chunk.Seq, n int, pause time.Duration, endless bool) chunk.Source {
	return func(ctx context.Context) stream {
		return func(yield func(chunk.Record, error) bool) {
			for i := range n {
				if err := wait(ctx, pause); err != nil {
					yield(chunk.Record{}, err)
					return
				}
				if !yield(chunk.Record{Seq: first + chunk.Seq(i)}, nil) {
					return
				}
			}
			if endless {
				<-ctx.Done()
				yield(chunk.Record{}, ctx.Err())
			}
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// TestCombineKeepsEachOrder: each source keeps its order, and every record arrives once.
func TestCombineKeepsEachOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(0, 20), 0, 5).Draw(t, "sizes")
		var sources []chunk.Source
		for i, n := range sizes {
			sources = append(sources, numbered(chunk.Seq(1000*i), n, 0, false))
		}
		got, err := chunk.CollectAll(chunk.Combine(background, sources...))
		if err != nil {
			t.Fatal(err)
		}
		perSource := make([][]chunk.Seq, len(sizes))
		for _, r := range got {
			perSource[r.Seq/1000] = append(perSource[r.Seq/1000], r.Seq)
		}
		for i, n := range sizes {
			if len(perSource[i]) != n || !slices.IsSorted(perSource[i]) {
				t.Fatalf("source %d of %d gave %v", i, n, perSource[i])
			}
		}
	})
}

// A slow source does not delay a fast one.
func TestCombineInterleavesByArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := chunk.Combine(t.Context(), numbered(100, 3, 10*time.Second, false), numbered(200, 3, 4*time.Second, false))
		got, err := chunk.CollectAll(records)
		if want := []chunk.Seq{200, 201, 100, 202, 101, 102}; err != nil || !slices.Equal(seqs(got), want) {
			t.Errorf("got %v, %v, want %v", seqs(got), err, want)
		}
	})
}

// The consumer stops while sources wait for a record that never comes: their context ends, and Combine waits for them. The bubble fails on a leaked goroutine.
func TestCombineStopsAllSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone [2]bool // read after Combine has waited
		watched := func(i int, source chunk.Source) chunk.Source {
			return func(ctx context.Context) stream {
				return func(yield func(chunk.Record, error) bool) {
					defer func() { gone[i] = true }()
					source(ctx)(yield)
				}
			}
		}
		for range chunk.Combine(t.Context(), watched(0, numbered(1, 1, 0, true)), watched(1, numbered(0, 0, 0, true))) {
			break
		}
		if gone != [2]bool{true, true} {
			t.Errorf("sources that have returned: %v", gone)
		}
	})
}

// The error of one source ends all sources; the errors of the others after their cancellation are not returned.
func TestCombineEndsWithTheFirstError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := &source{records: []chunk.Record{{Seq: 1}}, err: errSource}
		var all []error
		for _, err := range chunk.Combine(t.Context(), numbered(100, 0, 0, true), of(broken.all())) {
			all = append(all, err)
		}
		if len(all) != 2 || all[0] != nil || !errors.Is(all[1], errSource) {
			t.Errorf("errors %v, want nil and %v", all, errSource)
		}
	})
}

// When the context of the caller ends, its error is yielded: the end is not a regular one.
func TestCombinePassesCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got, err := chunk.CollectAll(chunk.Combine(ctx, numbered(1, 2, 0, true), numbered(10, 2, 0, true)))
		if len(got) != 4 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d records, %v", len(got), err)
		}
	})
}

// A consumer that panics leaves no goroutines either.
func TestCombineStopsSourcesAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		for range chunk.Combine(t.Context(), numbered(1, 1, 0, true), numbered(9, 1, 0, true)) {
			panic("the consumer's own")
		}
	})
}

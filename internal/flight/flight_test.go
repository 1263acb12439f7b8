package flight_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/flight"
)

// works counts calls of a function that waits until it is released.
type works struct {
	flight.Group[string, int]

	began, running atomic.Int64
	release        chan struct{}
	group          sync.WaitGroup
}

// work returns how often work began.
func (w *works) work(ctx context.Context) (int, error) {
	n := w.began.Add(1)
	w.running.Add(1)
	defer w.running.Add(-1)
	select {
	case <-w.release:
		return int(n), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// call makes a caller that wants the result of work number n.
func (w *works) call(ctx context.Context, t *testing.T, key string, reached chunk.Seq, n int, want error) {
	t.Helper()
	w.group.Go(func() {
		if got, err := w.Do(ctx, key, reached, w.work); got != n || !errors.Is(err, want) {
			t.Errorf("%q after %d: got %d, %v, want %d, %v", key, reached, got, err, n, want)
		}
	})
	synctest.Wait()
}

func (w *works) expect(t *testing.T, began, running int64) {
	t.Helper()
	synctest.Wait()
	if w.began.Load() != began || w.running.Load() != running {
		t.Errorf("%d works began, %d are running, want %d and %d", w.began.Load(), w.running.Load(), began, running)
	}
}

// Callers with an equal key share the work, also when the first one leaves; a later one begins it again.
func TestCallersShareWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &works{release: make(chan struct{})}
		defer w.group.Wait()
		first, leave := context.WithCancel(t.Context())
		w.call(first, t, "a", 0, 0, context.Canceled)
		for range 10 {
			w.call(t.Context(), t, "a", 0, 1, nil)
		}
		w.call(t.Context(), t, "b", 0, 2, nil)
		leave()
		w.expect(t, 2, 2)
		close(w.release)
		w.group.Wait()
		w.call(t.Context(), t, "a", 0, 3, nil)
	})
}

// When the last caller leaves, the work is cancelled, and the next caller does not join it.
func TestLastCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &works{release: make(chan struct{})}
		defer w.group.Wait()
		ctx, leave := context.WithCancel(t.Context())
		w.call(ctx, t, "a", 0, 0, context.Canceled)
		w.call(ctx, t, "a", 0, 0, context.Canceled)
		w.expect(t, 1, 1)
		leave()
		w.expect(t, 1, 0)
		w.call(t.Context(), t, "a", 0, 2, nil)
		close(w.release)
	})
}

// Work that does not end with its context delays neither the callers that leave nor the next one.
func TestWorkThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &works{release: make(chan struct{})}
		defer w.group.Wait()
		ctx, leave := context.WithCancel(t.Context())
		stuck := make(chan struct{})
		w.group.Go(func() {
			if _, err := w.Do(ctx, "a", 0, func(context.Context) (int, error) { <-stuck; return 7, nil }); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		synctest.Wait()
		leave()
		synctest.Wait()
		w.call(t.Context(), t, "a", 0, 1, nil)
		close(stuck) // its end must not remove the later call
		w.call(t.Context(), t, "a", 0, 1, nil)
		w.expect(t, 1, 1)
		close(w.release)
	})
}

// A caller with a higher position waits for the running work, and shares the next one with all that wait then, whatever they have reached.
func TestHigherPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &works{release: make(chan struct{})}
		defer w.group.Wait()
		w.call(t.Context(), t, "a", 5, 1, nil)
		w.call(t.Context(), t, "a", 4, 1, nil)
		for _, reached := range []chunk.Seq{6, 9, 7, 3} { // 3 comes when the next work has not begun
			w.call(t.Context(), t, "a", reached, 2, nil)
		}
		w.expect(t, 1, 1)
		w.release <- struct{}{}
		w.expect(t, 2, 1)
		w.call(t.Context(), t, "a", 9, 2, nil)
		w.call(t.Context(), t, "a", 10, 3, nil)
		w.release <- struct{}{}
		w.expect(t, 3, 1)
		w.release <- struct{}{}
	})
}

// A caller that leaves while it waits for the running work does not begin the next one.
func TestHigherPositionLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &works{release: make(chan struct{})}
		defer w.group.Wait()
		w.call(t.Context(), t, "a", 1, 1, nil)
		ctx, leave := context.WithCancel(t.Context())
		w.call(ctx, t, "a", 2, 0, context.Canceled)
		leave()
		w.expect(t, 1, 1)
		close(w.release)
		w.expect(t, 1, 0)
	})
}

// An error and a panic are the result of all callers, and the next caller begins again; one with a higher position does so too.
func TestFailedWork(t *testing.T) {
	failure := errors.New("failure")
	for name, fail := range map[string]func() (int, error){
		"error":  func() (int, error) { return 0, failure },
		"panic":  func() (int, error) { panic("out of range") },
		"goexit": func() (int, error) { runtime.Goexit(); return 1, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &works{release: make(chan struct{})}
				defer w.group.Wait()
				release := make(chan struct{})
				for range 3 {
					w.group.Go(func() {
						_, err := w.Do(t.Context(), "a", 1, func(context.Context) (int, error) { <-release; return fail() })
						panicked, isPanic := errors.AsType[*flight.PanicError](err)
						if err == nil || errors.Is(err, failure) != (name == "error") || isPanic != (name == "panic") {
							t.Errorf("got %v", err)
						}
						if isPanic && (err.Error() != "panic: out of range" || !strings.Contains(string(panicked.Stack), "flight_test.go")) {
							t.Errorf("got %v with %s", err, panicked.Stack)
						}
					})
				}
				synctest.Wait()
				w.call(t.Context(), t, "a", 2, 1, nil)
				close(release)
				w.expect(t, 1, 1)
				close(w.release)
				w.group.Wait()
				w.call(t.Context(), t, "a", 1, 2, nil)
			})
		})
	}
}

// The context of the work ends when the last caller has used the result.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[string, int]
		var released atomic.Bool
		ready, used := make(chan struct{}), make(chan struct{})
		work := func(ctx context.Context) (int, error) {
			<-ready
			context.AfterFunc(ctx, func() { released.Store(true) })
			return 7, nil
		}
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				n, leave, err := g.Hold(t.Context(), "a", 0, work)
				defer leave()
				<-used
				if n != 7 || err != nil || released.Load() {
					t.Errorf("got %d, %v, released %v", n, err, released.Load())
				}
			})
		}
		synctest.Wait()
		close(ready)
		used <- struct{}{}
		used <- struct{}{}
		synctest.Wait()
		close(used)
		group.Wait()
		synctest.Wait()
		if !released.Load() {
			t.Error("the result was not released")
		}
	})
}

// Callers of many goroutines get results of work that began after their position was reached.
func TestManyCallers(t *testing.T) {
	var g flight.Group[int, chunk.Seq]
	var tip atomic.Uint64 // the end of the log
	var group sync.WaitGroup
	for worker := range 16 {
		group.Go(func() {
			for i := range 500 {
				ctx, cancel := context.WithCancel(t.Context())
				if (i+worker)%7 == 0 {
					cancel()
				}
				reached := chunk.Seq(tip.Load())
				if i%3 == 0 {
					reached = chunk.Seq(tip.Add(1))
				}
				got, err := g.Do(ctx, i%2, reached, func(context.Context) (chunk.Seq, error) {
					end := chunk.Seq(tip.Load())
					runtime.Gosched()
					if end%11 == 0 {
						panic(fmt.Sprint(end))
					}
					return end, nil
				})
				if err == nil && got < reached {
					t.Errorf("got the log up to %d, want %d", got, reached)
				}
				cancel()
			}
		})
	}
	group.Wait()
}

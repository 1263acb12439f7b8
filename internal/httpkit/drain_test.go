package httpkit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/internal/httpkit"
)

// Streams are closed one after the other over the time, new ones are rejected, and Begin returns when the last one has ended.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d httpkit.Drain
		began := time.Now()
		closed := make(chan time.Duration, 4)
		for range 4 {
			ctx, leave, ok := d.Enter(t.Context())
			if !ok {
				t.Fatal("rejected before Begin")
			}
			go func() {
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), httpkit.ErrDrained) {
					t.Errorf("the cause is %v", context.Cause(ctx))
				}
				closed <- time.Since(began)
				time.Sleep(time.Second)
				leave()
				leave()
			}()
		}
		if err := d.Begin(t.Context(), 8*time.Second); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 7*time.Second || d.Len() != 0 || !d.Draining() {
			t.Errorf("after %s: %d streams, draining %t", took, d.Len(), d.Draining())
		}
		for _, want := range []time.Duration{0, 2 * time.Second, 4 * time.Second, 6 * time.Second} {
			if got := <-closed; got != want {
				t.Errorf("a stream was closed after %s, want %s", got, want)
			}
		}
		if _, _, ok := d.Enter(t.Context()); ok {
			t.Error("accepted after Begin")
		}
		if err := d.Begin(t.Context(), time.Second); err != nil {
			t.Errorf("again: %v", err)
		}
	})
}

// Streams that do not end are counted in the error, and closed before the deadline.
func TestDrainEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d httpkit.Drain
		stuck, leave, _ := d.Enter(t.Context())
		defer leave()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err := d.Begin(ctx, time.Hour)
		if !errors.Is(err, context.DeadlineExceeded) || stuck.Err() == nil {
			t.Errorf("got %v; the stream: %v", err, stuck.Err())
		}
	})
}

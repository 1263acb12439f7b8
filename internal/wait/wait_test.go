package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if err := Sleep(t.Context(), time.Hour); err != nil || time.Since(start) != time.Hour {
			t.Errorf("slept %s: %v", time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start = time.Now()
		if err := Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("slept %s: %v, want the deadline after a minute", time.Since(start), err)
		}
		if err := Sleep(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended context, no delay: %v", err)
		}
		if err := Sleep(t.Context(), 0); err != nil {
			t.Errorf("no delay: %v", err)
		}
	})
}

func TestBackoff(t *testing.T) {
	b := Backoff{First: 50 * time.Millisecond, Max: time.Second}
	for n, want := range map[int]int64{0: 50, 1: 50, 2: 100, 3: 200, 4: 400, 5: 800, 6: 1000, 7: 1000, 1 << 30: 1000} {
		if got := b.Delay(n).Milliseconds(); got != want {
			t.Errorf("after %d attempts: %d ms, want %d", n, got, want)
		}
	}
	b.Jitter = true
	delays := map[time.Duration]bool{}
	for range 100 {
		d := b.Delay(3)
		if d < 100*time.Millisecond || d > 200*time.Millisecond {
			t.Fatalf("delay %s, want 100ms to 200ms", d)
		}
		delays[d] = true
	}
	if len(delays) < 2 {
		t.Error("the jitter has no effect")
	}
	if got := (Backoff{Jitter: true}).Delay(5); got != 0 {
		t.Errorf("zero value: %s", got)
	}
}

package demo

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// ScaledPace multiplies pauses, and ends them with the context.
func TestScaledPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for factor, want := range map[float64]time.Duration{0: 0, 0.5: 5 * time.Second, 1: 10 * time.Second, 3: 30 * time.Second} {
			begun := time.Now()
			if err := ScaledPace(factor)(t.Context(), 10*time.Second); err != nil {
				t.Error(err)
			}
			if took := time.Since(begun); took != want {
				t.Errorf("tempo %v: %s, want %s", factor, took, want)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := ScaledPace(1)(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v", err)
		}
		if err := ScaledPace(0)(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("no wait, but the context has ended: err = %v", err)
		}
	})
}

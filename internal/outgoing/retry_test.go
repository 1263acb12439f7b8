package outgoing

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The endpoint decides when it is asked again.
func TestRetryAfterHeader(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"Retry-After: 2": 2 * time.Second, "Retry-After: 0.5": time.Second / 2, "Retry-After-Ms: 30": 30 * time.Millisecond,
		"Retry-After: Thu, 01 Jan 2026 00:00:07 GMT": 7 * time.Second, "Retry-After: soon": 0, "Retry-After: -3": 0,
		"Retry-After: 1e300": 24 * time.Hour, "Retry-After: Thu, 01 Jan 2020 00:00:07 GMT": 0,
	} {
		name, value, _ := strings.Cut(header, ": ")
		if got := RetryAfter(http.Header{name: {value}}, now); got != want {
			t.Errorf("%s: %s, want %s", header, got, want)
		}
	}
}

// A timer without an end never fires; another one does, at the time after its last start.
func TestTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fired atomic.Int32 // the function of a timer runs on a goroutine of its own
		endless := NewTimer(-1, func() { fired.Add(1) })
		endless.Start()
		time.Sleep(time.Hour)
		endless.Stop()
		timer := NewTimer(time.Minute, func() { fired.Add(10) })
		time.Sleep(time.Hour)
		if synctest.Wait(); fired.Load() != 0 {
			t.Errorf("fired %d, want none before the start", fired.Load())
		}
		timer.Start()
		time.Sleep(50 * time.Second)
		timer.Start()
		time.Sleep(59 * time.Second)
		if synctest.Wait(); fired.Load() != 0 {
			t.Errorf("fired %d, want none a minute after the first start", fired.Load())
		}
		time.Sleep(time.Second)
		if synctest.Wait(); fired.Load() != 10 {
			t.Errorf("fired %d, want 10", fired.Load())
		}
	})
}

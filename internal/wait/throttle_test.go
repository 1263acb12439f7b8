package wait

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limit Throttle
		want := func(skipped int64, ok bool) {
			t.Helper()
			if n, got := limit.Allow(); n != skipped || got != ok {
				t.Errorf("got %d, %t, want %d, %t", n, got, skipped, ok)
			}
		}
		want(0, true)
		for range 1000 {
			want(0, false)
		}
		time.Sleep(throttleInterval)
		want(1000, true)
		want(0, false)
		time.Sleep(time.Hour)
		want(1, true)
		limit.next.Store(time.Now().Add(time.Hour).UnixNano()) // the clock jumped back by an hour
		want(0, true)
	})
}

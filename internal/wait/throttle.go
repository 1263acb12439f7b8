package wait

import (
	"sync/atomic"
	"time"
)

// throttleInterval is the interval of a Throttle.
const throttleInterval = time.Second

// Throttle limits an action, such as a log line for each malformed message, to once a second. The zero Throttle is ready. Its method may be called
// concurrently.
type Throttle struct {
	next    atomic.Int64 // when the action is allowed, in nanoseconds since 1970
	skipped atomic.Int64 // since it was allowed
}

// Allow reports whether the action is allowed now, and how often it was not since the last time.
func (t *Throttle) Allow() (skipped int64, ok bool) {
	now, next := time.Now().UnixNano(), t.next.Load()
	early := now < next && next-now <= int64(throttleInterval) // a clock that jumped back does not stop the action
	if early || !t.next.CompareAndSwap(next, now+int64(throttleInterval)) {
		t.skipped.Add(1)
		return 0, false
	}
	return t.skipped.Swap(0), true
}

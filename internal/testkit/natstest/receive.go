package natstest

import (
	"testing"
	"time"
)

// Receive returns the next value of c. It fails the test if none arrives within a minute. A closed channel yields the
// zero T.
func Receive[T any](tb testing.TB, what string, c <-chan T) T {
	tb.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(WaitTimeout):
		tb.Fatalf("waited %s for %s", WaitTimeout, what)
		panic("unreachable")
	}
}

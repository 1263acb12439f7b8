package natstest

import (
	"testing"
	"time"
)

// Receive is what comes next from c, and fails the test when nothing comes in a
// minute. A closed channel gives the zero T.
func Receive[T any](tb testing.TB, what string, c <-chan T) T {
	tb.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		tb.Fatalf("waited %s for %s", patience, what)
		panic("unreachable")
	}
}

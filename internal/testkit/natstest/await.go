package natstest

import (
	"context"
	"errors"
	"testing"
	"time"
)

// WaitTimeout bounds every wait for a server. It is long because test machines
// are slow and shared; only a defect makes a test wait that long.
const WaitTimeout = 60 * time.Second

// Eventually calls ok until it returns nil. It fails the test with the last
// informative error after a minute. It polls because a server does not report when
// a leader is elected or a replica has caught up. Each call gets a context of one
// second: a request to a dead leader gets no answer, and the next one reaches
// another node.
func Eventually(tb testing.TB, what string, ok func(context.Context) error) {
	tb.Helper()
	Within(tb, WaitTimeout, what, ok)
}

// Within is Eventually with another timeout than a minute.
func Within(tb testing.TB, timeout time.Duration, what string, ok func(context.Context) error) {
	tb.Helper()
	// The test's context ends before the test's cleanups run, and cleanups may
	// call Eventually.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), timeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := attempt(ctx, ok)
		if err == nil {
			return
		}
		if last == nil || !errors.Is(err, context.DeadlineExceeded) {
			last = err // a timeout is less informative than an earlier error
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tb.Fatalf("wait for %s: %v", what, last)
		}
	}
}

func attempt(ctx context.Context, ok func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return ok(ctx)
}

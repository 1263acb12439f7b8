package natstest

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Await asks until ok returns nil and fails the test when that takes a minute;
// then the last error says what was missing. It asks in a loop because a server
// tells nobody when a leader is elected or a replica has caught up. The context
// of one attempt lasts a second: a request to a dead leader gets no answer,
// and the next one goes elsewhere.
func Await(tb testing.TB, what string, ok func(context.Context) error) {
	tb.Helper()
	// Without the cancellation of the test's context, which ends before its
	// cleanups do: they may wait, too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), patience)
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
			last = err // a timeout tells less than what was seen before it
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

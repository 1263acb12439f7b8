package browsertest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// timeout bounds each wait for a page.
const timeout = 30 * time.Second

// WatchConsole calls report for each line on the console of a tab, until the test ends.
func WatchConsole(tab context.Context, tb testing.TB, report func(line string)) {
	tb.Helper()
	listening, stop := context.WithCancel(tab)
	var listener sync.WaitGroup
	tb.Cleanup(func() {
		stop()
		listener.Wait()
	})
	messages := chromedp.Console(listening)
	listener.Go(func() {
		for message, err := range messages {
			if err != nil {
				return
			}
			report(fmt.Sprint(message))
		}
	})
}

// Eval returns the value of an expression, or that of its promise.
func Eval[T any](tab context.Context, tb testing.TB, expression string) T {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tab, timeout)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		tb.Fatalf("%s: %v", expression, err)
	}
	return value
}

// Await evaluates an expression until it is true. An evaluation during a navigation fails and is repeated. A failure has the value of the expression state,
// which is a string.
func Await(tab context.Context, tb testing.TB, expression, state string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tab, timeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		yes, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		if yes {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tb.Fatalf("not in %s: %s: %v; the page shows\n%s", timeout, expression, err, Eval[string](tab, tb, state))
		}
	}
}

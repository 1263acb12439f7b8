package retention

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// newLeases returns the leases of n processes for one task.
func newLeases(t *testing.T, n int, interval time.Duration) []*Lease {
	t.Helper()
	srv := streamtest.Start(t)
	all := make([]*Lease, n)
	for i := range all {
		var err error
		if all[i], err = NewLease(srv.JetStream(t), LeaseConfig{Name: "sweep", Interval: interval}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// round lets all processes try at the same time, and returns how many ran the task.
func round(t *testing.T, all []*Lease, fail error) int {
	t.Helper()
	var ran atomic.Int32
	var trying sync.WaitGroup
	for _, l := range all {
		trying.Go(func() {
			err := l.Do(t.Context(), func(context.Context) error {
				ran.Add(1)
				return fail
			})
			if !errors.Is(err, fail) && err != nil {
				t.Error(err)
			}
		})
	}
	trying.Wait()
	return int(ran.Load())
}

func TestOneProcessRuns(t *testing.T) {
	all := newLeases(t, 8, time.Hour)
	for _, want := range []int{1, 0, 0} {
		if n := round(t, all, nil); n != want {
			t.Errorf("%d processes ran the task, want %d", n, want)
		}
	}
}

// After a failure another process runs the task.
func TestFailureReleasesTheLease(t *testing.T) {
	all := newLeases(t, 2, time.Hour)
	broken := errors.New("broken")
	if err := all[0].Do(t.Context(), func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if n := round(t, all, nil); n != 1 {
		t.Errorf("%d processes ran the task, want 1", n)
	}
}

func TestTheLeaseExpires(t *testing.T) {
	all := newLeases(t, 2, 200*time.Millisecond)
	if n := round(t, all, nil); n != 1 {
		t.Fatalf("%d processes ran the task, want 1", n)
	}
	natstest.Eventually(t, "the next interval", func(context.Context) error {
		if round(t, all, nil) == 0 {
			return fmt.Errorf("no process ran the task")
		}
		return nil
	})
}

// The clock of the server decides, which also dates the key. A process whose clock is wrong neither runs the task too early nor misses it.
func TestLeaseUsesTheServersClock(t *testing.T) {
	all := newLeases(t, 2, time.Hour)
	if n := round(t, all, nil); n != 1 {
		t.Fatalf("%d processes ran the task, want 1", n)
	}
	l := all[0]
	last, err := l.client.Last(t.Context(), l.stream, l.subject)
	if err != nil {
		t.Fatal(err)
	}
	now, err := l.now(t.Context())
	if since := now.Sub(last.Stored); err != nil || since < 0 || since > time.Minute {
		t.Errorf("the key was stored %s before the time of the server, %v", since, err)
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{50 * time.Minute, 0}, {55 * time.Minute, 1}} {
		l.now = func(context.Context) (time.Time, error) { return last.Stored.Add(step.after), nil }
		if n := round(t, all[:1], nil); n != step.want {
			t.Errorf("%d processes ran the task after %s, want %d", n, step.after, step.want)
		}
	}
}

package turns

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/subjects"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// several are those of several processes for one thing.
func several(t *testing.T, n int, every time.Duration) []*Turn {
	t.Helper()
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	if err := topology.Ensure(t.Context(), js, topology.Config{}); err != nil {
		t.Fatal(err)
	}
	all := make([]*Turn, n)
	for i := range all {
		var err error
		if all[i], err = New(srv.JetStream(t), subjects.Layout{}, "sweep", every); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// round lets all of them ask at the same time, and counts who worked.
func round(t *testing.T, all []*Turn, fail error) int {
	t.Helper()
	var worked atomic.Int32
	var asking sync.WaitGroup
	for _, turn := range all {
		asking.Go(func() {
			err := turn.Do(t.Context(), func(context.Context) error {
				worked.Add(1)
				return fail
			})
			if !errors.Is(err, fail) && err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	return int(worked.Load())
}

func TestOneOfSeveral(t *testing.T) {
	all := several(t, 8, time.Hour)
	for _, want := range []int{1, 0, 0} {
		if n := round(t, all, nil); n != want {
			t.Errorf("%d worked, want %d", n, want)
		}
	}
}

// Somebody else does what one has failed to do.
func TestFailureGivesTheTurnBack(t *testing.T) {
	all := several(t, 2, time.Hour)
	broken := errors.New("broken")
	if err := all[0].Do(t.Context(), func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if n := round(t, all, nil); n != 1 {
		t.Errorf("%d worked, want 1", n)
	}
}

func TestTheWhileIsOver(t *testing.T) {
	all := several(t, 2, 200*time.Millisecond)
	if n := round(t, all, nil); n != 1 {
		t.Fatalf("%d worked, want 1", n)
	}
	natstest.Await(t, "the next turn", func(context.Context) error {
		if round(t, all, nil) == 0 {
			return fmt.Errorf("nobody worked")
		}
		return nil
	})
}

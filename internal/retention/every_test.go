package retention

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// killed is a SnapshotStore whose process is killed while it deletes the data of the second session.
type killed struct {
	*jssnapshots.Store

	kill    context.CancelFunc
	cleared int
}

func (k *killed) DeleteData(ctx context.Context, tombstone fold.Snapshot, r, before projector.Revision, expire bool) (bool, error) {
	if k.cleared++; k.cleared < 2 {
		return k.Store.DeleteData(ctx, tombstone, r, before, expire)
	}
	k.kill()
	<-ctx.Done()
	return false, ctx.Err()
}

// sweepLater is the loop of a process that sweeps an hour from now.
func (w *env) sweepLater(ctx context.Context, store SnapshotStore) error {
	e, err := NewEraser(w.JS, store, EraserConfig{})
	if err != nil {
		return err
	}
	l, err := NewLease(w.JS, LeaseConfig{Name: "sweep", Interval: 50 * time.Millisecond})
	if err != nil {
		return err
	}
	return Every(ctx, l, func(ctx context.Context) error {
		_, err := e.SweepAt(ctx, time.Now().Add(time.Hour))
		return err
	}, nil)
}

// A process crashes after it has written tombstones. The loop of a second process finds them and is killed in the middle; the loop of a third process
// completes the deletions.
func TestAnotherLoopFinishes(t *testing.T) {
	w := newEnv(t)
	stop := w.project()
	var all []chunk.Session
	for n, step := range []string{"purge", "clear", "purge", "clear"} {
		s := chunk.RootSession("acme", fmt.Sprintf("s%d", n))
		all = append(all, s)
		w.say(s)
		w.projected(s)
		eraser, err := NewEraser(w.JS, dying{w.store, step}, EraserConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if err := eraser.Delete(t.Context(), s); !errors.Is(err, errDied) {
			t.Fatal(err)
		}
	}
	stop()
	ctx, kill := context.WithCancel(t.Context())
	first := &killed{Store: w.store, kill: kill}
	if err := w.sweepLater(ctx, first); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if left := len(w.left()); first.cleared != 2 || left <= 2*len(all) {
		t.Fatalf("the first loop has cleared %d, and %d subjects are left", first.cleared, left)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.sweepLater(ctx, w.store) }()
	w.gone(all...)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A sweep that fails is logged and retried sooner than after the interval, and the loop ends with its context.
func TestEveryRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		start, results := time.Now(), []string{"broken 1", "broken 2", "", "broken 3", "broken 4", "broken 5", "broken 6", "broken 7", ""}
		var at []time.Duration
		err := every(ctx, time.Hour, func(context.Context) error {
			at = append(at, time.Since(start))
			result := results[len(at)-1]
			if len(at) == len(results) {
				cancel()
			}
			if result != "" {
				return errors.New(result)
			}
			return nil
		}, slog.New(slog.NewTextHandler(&logged, nil)))
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		var delays []time.Duration
		for i := range at[1:] {
			delays = append(delays, at[i+1]-at[i])
		}
		const s = time.Second
		if want := []time.Duration{10 * s, 20 * s, time.Hour, 10 * s, 20 * s, 40 * s, 60 * s, 60 * s}; !slices.Equal(delays, want) {
			t.Errorf("delays %v, want %v", delays, want)
		}
		for _, result := range results {
			if result != "" && strings.Count(logged.String(), fmt.Sprintf("error=%q", result)) != 1 {
				t.Errorf("%q not logged once in\n%s", result, logged.String())
			}
		}
	})
}

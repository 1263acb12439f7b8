package retention

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// killed is a SnapshotStore whose process is killed while it deletes the data of the second session.
type killed struct {
	*jssnapshots.Store

	kill    context.CancelFunc
	cleared int
}

func (k *killed) DeleteData(ctx context.Context, tombstone fold.Snapshot, r, before projector.Revision) (bool, error) {
	if k.cleared++; k.cleared < 2 {
		return k.Store.DeleteData(ctx, tombstone, r, before)
	}
	k.kill()
	<-ctx.Done()
	return false, ctx.Err()
}

// later returns an Eraser whose clock is an hour ahead.
func (w *eraseEnv) later(store SnapshotStore) *Eraser {
	w.Helper()
	const every = 50 * time.Millisecond
	l, err := NewLease(w.js, subjects.Layout{}, "sweep", every)
	if err != nil {
		w.Fatal(err)
	}
	e, err := NewEraser(w.js, store, EraserConfig{Lease: l.RunIfFree})
	if err != nil {
		w.Fatal(err)
	}
	e.now = func() time.Time { return time.Now().Add(time.Hour) }
	return e
}

// A process crashes after it has written tombstones. The loop of a second process finds them and is killed in the middle; the loop of a third process
// completes the deletions.
func TestAnotherLoopFinishes(t *testing.T) {
	w := newEraseEnv(t)
	stop := w.project()
	var all []chunk.Session
	for n, step := range []string{"purge", "clear", "purge", "clear"} {
		s := chunk.RootSession("acme", fmt.Sprintf("s%d", n))
		all = append(all, s)
		w.say(s)
		w.projected(s)
		eraser, err := NewEraser(w.js, dying{w.store, step}, EraserConfig{})
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
	if err := w.later(first).Run(ctx, time.Millisecond); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if left := len(w.left()); first.cleared != 2 || left <= 2*len(all) {
		t.Fatalf("the first loop has cleared %d, and %d subjects are left", first.cleared, left)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.later(w.store).Run(ctx, time.Millisecond) }()
	w.gone(all...)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

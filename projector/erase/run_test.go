package erase

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/turns"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/projector/kvstore"
	"github.com/tailrace/tailrace/subjects"
)

// killed is a store whose process is killed while it clears the second session.
type killed struct {
	*kvstore.Store

	kill    context.CancelFunc
	cleared int
}

func (k *killed) Clear(ctx context.Context, grave fold.Snapshot, r, before projector.Revision) (bool, error) {
	if k.cleared++; k.cleared < 2 {
		return k.Store.Clear(ctx, grave, r, before)
	}
	k.kill()
	<-ctx.Done()
	return false, ctx.Err()
}

// later is an Eraser for which all that is stored is old.
func (w *world) later(store Store) *Eraser {
	w.Helper()
	const every = 50 * time.Millisecond
	turn, err := turns.New(w.js, subjects.Layout{}, "sweep", every)
	if err != nil {
		w.Fatal(err)
	}
	e, err := New(w.js, store, Config{Turn: turn.Do})
	if err != nil {
		w.Fatal(err)
	}
	e.now = func() time.Time { return time.Now().Add(time.Hour) }
	return e
}

// Somebody deletes sessions and dies between the mark and the rest. The loop of a
// process finds them and is killed in the middle; that of another one finishes.
func TestAnotherLoopFinishes(t *testing.T) {
	w := newWorld(t)
	stop := w.project()
	var all []chunk.Session
	for n, step := range []string{"purge", "clear", "purge", "clear"} {
		s := chunk.RootSession("acme", fmt.Sprintf("s%d", n))
		all = append(all, s)
		w.say(s)
		w.projected(s)
		eraser, err := New(w.js, dying{w.store, step}, Config{})
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

package retention

import (
	"context"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// continuing is a SnapshotStore whose session is continued when the sweep is about to replace its head by a tombstone.
type continuing struct {
	*jssnapshots.Store

	resume func()
}

func (c *continuing) Save(ctx context.Context, snap fold.Snapshot, after projector.Revision) (projector.Revision, error) {
	if snap.Deleted() {
		c.resume()
	}
	return c.Store.Save(ctx, snap, after)
}

// A run that starts while the sweep removes the session keeps it, with all messages.
func TestExpiryLosesAgainstARun(t *testing.T) {
	w := newEnv(t)
	stop := w.project()
	s := chunk.RootSession("acme", "s1")
	must(t, w.say(s).End(t.Context(), nil))
	w.projected(s)
	stop()
	stream, err := w.JS.Stream(t.Context(), "TR_CHUNKS_0")
	must(t, err)
	must(t, stream.Purge(t.Context()))

	store := &continuing{Store: w.store, resume: func() { must(t, w.say(s).End(t.Context(), nil)) }}
	expired := 0
	eraser, err := NewEraser(w.JS, store, EraserConfig{Expired: func() { expired++ }})
	must(t, err)
	sweep := func(want int) {
		t.Helper()
		if n, err := eraser.SweepAt(t.Context(), time.Now().Add(91*24*time.Hour)); err != nil || n != want || expired != want {
			t.Errorf("%d removed, %d reported, %v; want %d", n, expired, err, want)
		}
	}
	sweep(0)
	stop = w.project()
	w.projected(s)
	stop()
	if snap, err := w.Reader.Snapshot(t.Context(), s); err != nil || snap.FinishedCount() != 4 || snap.Faults.Lost != 0 {
		t.Errorf("%d messages, %d lost, %v; want 4", snap.FinishedCount(), snap.Faults.Lost, err)
	}

	must(t, stream.Purge(t.Context()))
	store.resume = func() {}
	sweep(1)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

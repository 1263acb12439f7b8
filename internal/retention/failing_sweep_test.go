package retention

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// unloadable is a SnapshotStore in which the head of one session cannot be read.
type unloadable struct {
	*jssnapshots.Store

	session chunk.Session
}

func (u unloadable) Load(ctx context.Context, s chunk.Session) (fold.Snapshot, projector.Revision, error) {
	if s == u.session {
		return fold.Snapshot{}, 0, errDied
	}
	return u.Store.Load(ctx, s)
}

// A sweep fails at one session, and removes the others, whose heads are after its head. The next sweep removes it too.
func TestSweepContinuesAfterAFailure(t *testing.T) {
	w := newEnv(t)
	stop := w.project()
	all := []chunk.Session{s1, chunk.RootSession("acme", "s2"), chunk.RootSession("acme", "s3")}
	for _, s := range all {
		w.say(s)
		w.projected(s)
		eraser, err := NewEraser(w.JS, dying{w.store, "clear"}, EraserConfig{})
		must(t, err)
		if err := eraser.Delete(t.Context(), s); !errors.Is(err, errDied) {
			t.Fatal(err)
		}
	}
	stop()
	eraser, err := NewEraser(w.JS, unloadable{w.store, s1}, EraserConfig{})
	must(t, err)
	if n, err := eraser.SweepAt(t.Context(), time.Now().Add(time.Hour)); n != 2 || err == nil {
		t.Errorf("%d sessions removed, %v; want 2 and an error", n, err)
	}
	w.onlyTombstones(all...)
}

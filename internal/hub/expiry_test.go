package hub_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// All records of a watched session expire, and a writer that does not know them starts
// again with lower ordinals and a lower epoch. A cursor must not take them for those
// of a fenced writer, and new cursors must not get the old ones.
func TestOrdinalsStartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		h := start(t, log, log, hub.Config{})
		log.Append(aRoot, chunk.TypeRunStarted, "")
		log.Takeover(aRoot)
		log.Takeover(aRoot)
		log.Append(aRoot, chunk.TypeRunStarted, "")
		log.Append(aRoot, chunk.TypeTextDelta, "")
		cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot})
		if err != nil {
			t.Fatal(err)
		}
		defer cur.Close()
		awaitTypes(t, cur, chunk.TypeRunStarted, chunk.TypeRunStarted, chunk.TypeTextDelta)
		log.Expire(log.End())
		log.Restart(aRoot)
		log.Append(aRoot, chunk.TypeRunStarted, "")
		log.Append(aRoot, chunk.TypeTextDelta, "")
		log.Append(aRoot, chunk.TypeStreamEnd, "")
		if batch, err := cur.Next(t.Context(), nil); !errors.Is(err, chunk.ErrTruncated) {
			t.Errorf("the cursor got %q, %v; want that the log is truncated", batch.Frames, err)
		}
		late, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot})
		if err != nil {
			t.Fatal(err)
		}
		defer late.Close()
		awaitTypes(t, late, chunk.TypeRunStarted, chunk.TypeTextDelta, chunk.TypeStreamEnd)
		if late.Position().Seq != log.End() {
			t.Errorf("a new cursor is at %d, want %d", late.Position().Seq, log.End())
		}
	})
}

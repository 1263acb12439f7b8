package hub_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// rootLog counts the feeds of roots that are open, and the requests for the end of the stream. gap ends them.
type rootLog struct {
	*memlog.Log

	open, tips atomic.Int32
	gap        chan struct{}
}

func newRootLog() *rootLog { return &rootLog{Log: memlog.New(), gap: make(chan struct{})} }

func (l *rootLog) Tip(ctx context.Context, partition int) (chunk.Tip, error) {
	l.tips.Add(1)
	return l.Log.Tip(ctx, partition)
}

func (l *rootLog) Open(ctx context.Context, of hub.Scope, after chunk.Seq) iter.Seq2[codec.Stored, error] {
	return func(yield func(codec.Stored, error) bool) {
		l.open.Add(1)
		defer l.open.Add(-1)
		following, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-l.gap:
				cancel()
			case <-following.Done():
			}
		}()
		for m, err := range l.Log.Open(following, of, after) {
			if err != nil && ctx.Err() == nil && following.Err() != nil {
				err = &chunk.TruncatedError{Reason: chunk.TruncatedGap, After: after}
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// TestFeedsOfRoots checks that each watched root has one feed while it has clients, that feeds which start together share a request, and that requests for
// unknown sessions leave nothing.
func TestFeedsOfRoots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newRootLog()
		h := startFeed(t, log, log, hub.Config{})
		synctest.Wait()
		if err := h.Ready(); err != nil || !h.Started() || log.tips.Load() != 1 {
			t.Errorf("ready = %v, started = %t, %d requests", err, h.Started(), log.tips.Load())
		}
		expect := func(open int32) {
			t.Helper()
			synctest.Wait()
			if n := log.open.Load(); n != open || h.Stats().Feeds != int(open) {
				t.Errorf("%d feeds open, %d as the hub counts; want %d", n, h.Stats().Feeds, open)
			}
		}
		for n := range 100 {
			unknown := chunk.RootSession("t", fmt.Sprint("unknown", n))
			if _, err := h.Subscribe(t.Context(), hub.Request{Session: unknown}); !errors.Is(err, chunk.ErrUnknownSession) {
				t.Errorf("err = %v, want ErrUnknownSession", err)
			}
		}
		expect(0)

		other := chunk.RootSession("t", "other")
		log.Append(aRoot, chunk.TypeRunStarted, "")
		log.Append(other, chunk.TypeRunStarted, "")
		var cursors []*hub.Cursor
		for _, s := range []chunk.Session{aRoot, aRoot, aRoot.Child("kid"), other} {
			cur, err := h.Subscribe(t.Context(), hub.Request{Session: s})
			if err != nil {
				t.Fatal(err)
			}
			cursors = append(cursors, cur)
		}
		expect(2)
		awaitTypes(t, cursors[3], chunk.TypeRunStarted)
		log.Append(other, chunk.TypeTextDelta, "")
		awaitTypes(t, cursors[3], chunk.TypeTextDelta)
		for _, cur := range cursors[:3] {
			cur.Close()
		}
		time.Sleep(50 * time.Second)
		expect(2)
		time.Sleep(15 * time.Second)
		expect(1)
		log.Append(aRoot, chunk.TypeTextDelta, "")
		cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot})
		if err != nil {
			t.Fatal(err)
		}
		defer cur.Close()
		awaitTypes(t, cur, chunk.TypeRunStarted, chunk.TypeTextDelta)
		expect(2)
		cursors[3].Close()
	})
}

// TestGapBeforeDeliveredRecords checks that the clients of a root get a gap when its feed cannot restore the order, and can continue with a new cursor.
func TestGapBeforeDeliveredRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newRootLog()
		h := startFeed(t, log, log, hub.Config{})
		log.Append(aRoot, chunk.TypeRunStarted, "")
		cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot})
		if err != nil {
			t.Fatal(err)
		}
		defer cur.Close()
		awaitTypes(t, cur, chunk.TypeRunStarted)
		log.gap <- struct{}{}
		if _, err := cur.Next(t.Context(), nil); !isReason(err, chunk.TruncatedGap) {
			t.Errorf("err = %v, want a gap", err)
		}
		again, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot})
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		log.Append(aRoot, chunk.TypeStreamEnd, "")
		awaitTypes(t, again, chunk.TypeRunStarted, chunk.TypeStreamEnd)
	})
}

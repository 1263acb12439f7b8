package hub_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// heldTips is a log of roots whose requests for the end of a stream wait until they are released, also after their context has ended.
type heldTips struct {
	*rootLog

	tip      func(partition int)
	released chan struct{}
}

func (l *heldTips) Tip(ctx context.Context, partition int) (chunk.Tip, error) {
	l.tip(partition)
	<-l.released
	return l.rootLog.Tip(ctx, 0)
}

func newHeldTips() *heldTips {
	return &heldTips{rootLog: newRootLog(), tip: func(int) {}, released: make(chan struct{})}
}

// TestInventedRootsLeaveNoFeed checks that a root without a record leaves no feed and no topic when its clients leave, and that one with records keeps both.
func TestInventedRootsLeaveNoFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newHeldTips()
		h := startFeed(t, log, log, hub.Config{})
		expect := func(what string, feeds, topics int) {
			t.Helper()
			synctest.Wait()
			s := h.Stats()
			if n := int(log.open.Load()); h.FeedCount() != feeds || n != feeds || s.Feeds != feeds || s.Topics != topics {
				t.Errorf("%s: %d feeds, %d of them open (%d as the hub counts), %d topics; want %d and %d", what, h.FeedCount(), n, s.Feeds, s.Topics, feeds, topics)
			}
		}
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Subscribe(limited, hub.Request{Session: aRoot}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v, want that of the context", err)
		}
		close(log.released)
		expect("a client that left before the feed had a position", 0, 0)

		cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot, KeepOpen: true})
		if err != nil {
			t.Fatal(err)
		}
		expect("a client waits", 1, 1)
		cur.Close()
		expect("a client that has waited", 0, 0)

		if cur, err = h.Subscribe(t.Context(), hub.Request{Session: aRoot, KeepOpen: true}); err != nil {
			t.Fatal(err)
		}
		log.Append(aRoot, chunk.TypeRunStarted, "")
		awaitTypes(t, cur, chunk.TypeRunStarted)
		cur.Close()
		expect("a client that got a record", 1, 1)
		if _, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot.Child("invented"), Scope: chunk.ScopeSession}); !errors.Is(err, chunk.ErrUnknownSession) {
			t.Errorf("err = %v, want ErrUnknownSession", err)
		}
		expect("a request for an invented sub-agent", 1, 1)
	})
}

// TestClientThatLeavesBeforeItsFeedOpens checks that the time without clients begins when the last one leaves, not when the feed is opened later.
func TestClientThatLeavesBeforeItsFeedOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &openFeeds{Log: memlog.New()}
		log.FailWith(errDown)
		h := start(t, log, log, hub.Config{})
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Subscribe(limited, hub.Request{Session: aRoot}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v, want that of the context", err)
		}
		time.Sleep(time.Hour)
		log.FailWith(nil)
		time.Sleep(3 * time.Second)
		log.expect(t, h, 0, 1)
	})
}

// TestRunWaitsForSharedReads checks that Run does not return during a request for the end of a stream.
func TestRunWaitsForSharedReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newHeldTips()
		h, err := hub.New(log, log, hub.Config{Encode: plain})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case err := <-done:
			t.Errorf("Run has returned %v during a request", err)
		default:
		}
		close(log.released)
		synctest.Wait()
		if _, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot}); !errors.Is(err, hub.ErrClosed) || h.FeedCount() != 0 {
			t.Errorf("after Run: %v, with %d feeds", err, h.FeedCount())
		}
	})
}

// TestStreamsAreReachedTogether checks that a stream that does not answer delays no request for another one.
func TestStreamsAreReachedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newHeldTips()
		var mu sync.Mutex
		asked := make(map[int]bool)
		log.tip = func(partition int) {
			mu.Lock()
			defer mu.Unlock()
			asked[partition] = true
		}
		h := startFeed(t, log, log, hub.Config{Partitions: 3})
		synctest.Wait()
		mu.Lock()
		if len(asked) != 3 || h.Started() {
			t.Errorf("%v are asked, started = %t; want 3 requests, and that the hub waits for them", asked, h.Started())
		}
		mu.Unlock()
		close(log.released)
		synctest.Wait()
		if !h.Started() {
			t.Error("not started")
		}
	})
}

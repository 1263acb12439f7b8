package hub_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// openFeeds counts the feeds of a log that are open.
type openFeeds struct {
	*memlog.Log

	open, opened atomic.Int32
}

func (f *openFeeds) Feed(ctx context.Context, partition int, after chunk.Seq) iter.Seq2[codec.Stored, error] {
	feed := f.Log.Feed(ctx, partition, after)
	return func(yield func(codec.Stored, error) bool) {
		f.open.Add(1)
		f.opened.Add(1)
		defer f.open.Add(-1)
		feed(yield)
	}
}

// expect checks that the log and the hub agree on the number of open feeds.
func (f *openFeeds) expect(t *testing.T, h *hub.Hub, open, opened int32) {
	t.Helper()
	synctest.Wait()
	if n := f.open.Load(); n != open || h.Stats().Feeds != int(open) || f.opened.Load() != opened {
		t.Errorf("%d feeds open (%d as the hub counts), %d opened; want %d, %d", n, h.Stats().Feeds, f.opened.Load(), open, opened)
	}
	if err := h.Ready(); err != nil || !h.Started() {
		t.Errorf("ready = %v, started = %t", err, h.Started())
	}
}

// TestFeedWithoutClientsPauses checks when a feed runs, that a client that arrives later gets the records from before, in and after the pause, and that the
// pause is not reported as a failure.
func TestFeedWithoutClientsPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &openFeeds{Log: memlog.New()}
		var logged strings.Builder
		h := start(t, log, log, hub.Config{Log: slog.New(slog.NewTextHandler(&logged, nil))})
		log.Append(aRoot, chunk.TypeRunStarted, "")
		log.expect(t, h, 1, 1)
		time.Sleep(59 * time.Second)
		log.expect(t, h, 1, 1)
		time.Sleep(2 * time.Second)
		log.expect(t, h, 0, 1)
		if s := h.Stats(); s.Topics != 0 || s.Bytes != 0 {
			t.Errorf("%+v", s)
		}

		log.Append(aRoot, chunk.TypeTextDelta, `"delta":"in the pause"`)
		cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot})
		if err != nil {
			t.Fatal(err)
		}
		log.expect(t, h, 1, 2)
		awaitTypes(t, cur, chunk.TypeRunStarted, chunk.TypeTextDelta)
		time.Sleep(time.Hour)
		log.expect(t, h, 1, 2) // a silent session is watched
		log.Append(aRoot, chunk.TypeStepStart, "")
		awaitTypes(t, cur, chunk.TypeStepStart)
		cur.Close()
		time.Sleep(50 * time.Second)

		// A request for an unknown session counts as a client, for as long as it takes.
		if _, err := h.Subscribe(t.Context(), hub.Request{Session: chunk.RootSession("t", "unknown")}); !errors.Is(err, chunk.ErrUnknownSession) {
			t.Errorf("err = %v, want ErrUnknownSession", err)
		}
		time.Sleep(50 * time.Second)
		log.expect(t, h, 1, 2)
		time.Sleep(15 * time.Second)
		log.expect(t, h, 0, 2)
		if logged.Len() > 0 {
			t.Errorf("logged: %s", logged.String())
		}
	})
}

// TestFeedThatNeverOpenedDoesNotPause checks that a process that starts while the log is unavailable becomes started when the log is back, without a client.
func TestFeedThatNeverOpenedDoesNotPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &openFeeds{Log: memlog.New()}
		log.FailWith(errDown)
		h := start(t, log, log, hub.Config{})
		time.Sleep(time.Hour)
		if err := h.Ready(); !errors.Is(err, errDown) || h.Started() {
			t.Errorf("ready = %v, started = %t", err, h.Started())
		}
		log.FailWith(nil)
		time.Sleep(30 * time.Second)
		log.expect(t, h, 1, 1)
		time.Sleep(time.Minute)
		log.expect(t, h, 0, 1)
	})
}

// TestLogFailsDuringPause checks that clients that arrive while the log is unavailable wait for it, and that this is reported.
func TestLogFailsDuringPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &openFeeds{Log: memlog.New()}
		log.Append(aRoot, chunk.TypeRunStarted, "")
		h := start(t, log, log, hub.Config{})
		time.Sleep(2 * time.Minute)
		log.FailWith(errDown)
		time.Sleep(time.Minute)
		log.expect(t, h, 0, 1) // without clients it is not needed
		limited, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := h.Subscribe(limited, hub.Request{Session: aRoot}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v, want that of the context", err)
		}
		if err := h.Ready(); !errors.Is(err, errDown) {
			t.Errorf("ready = %v, want %v", err, errDown)
		}
		var waiting sync.WaitGroup
		waiting.Go(func() {
			cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot})
			if err != nil {
				t.Error(err)
				return
			}
			defer cur.Close()
			awaitTypes(t, cur, chunk.TypeRunStarted)
		})
		time.Sleep(time.Minute)
		log.FailWith(nil)
		waiting.Wait()
		log.expect(t, h, 1, 2)
	})
}

// TestStreamRecreatedDuringPause checks that a cursor of the old stream is refused.
func TestStreamRecreatedDuringPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		h := start(t, log, log, hub.Config{})
		log.Append(aRoot, chunk.TypeRunStarted, "")
		cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot})
		if err != nil {
			t.Fatal(err)
		}
		awaitTypes(t, cur, chunk.TypeRunStarted)
		req := hub.Request{Session: aRoot, After: chunk.Position{Seq: cur.Position().Seq}, StreamEpoch: cur.StreamEpoch()}
		cur.Close()
		time.Sleep(2 * time.Minute)
		log.Recreate()
		for range 5 {
			log.Append(aRoot, chunk.TypeTextDelta, "")
		}
		if _, err := h.Subscribe(t.Context(), req); !isReason(err, chunk.TruncatedRecreated) {
			t.Errorf("err = %v, want recreated", err)
		}
		time.Sleep(2 * time.Minute)
	})
}

// TestClientsAroundPauses has clients that come and go at the moments when the feed pauses, while a writer writes: each of them gets every record once.
func TestClientsAroundPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &openFeeds{Log: memlog.New()}
		h := start(t, log, log, hub.Config{FeedLinger: time.Second, IdleTTL: time.Second})
		log.Append(aRoot, chunk.TypeRunStarted, "")
		var clients sync.WaitGroup
		for range 2 {
			clients.Go(func() {
				for n := range 15 {
					// The sweep runs each second, so that these are the moments before, at and after a pause.
					time.Sleep(time.Second*time.Duration(2+rand.IntN(3)) + time.Duration(rand.IntN(3)-1)*time.Microsecond)
					if err := readThrough(t.Context(), h, log.End()); err != nil {
						t.Errorf("connection %d: %v", n, err)
					}
				}
			})
		}
		written := make(chan struct{})
		go func() {
			defer close(written)
			for range 2500 {
				time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
				log.Append(aRoot, chunk.TypeTextDelta, "")
			}
		}()
		clients.Wait()
		<-written
		if log.opened.Load() < 2 /* the first clients arrive after a pause */ {
			t.Errorf("feed opened %d times, so this tests nothing", log.opened.Load())
		}
	})
}

// readThrough reads the session from its start through a sequence and three records more.
func readThrough(ctx context.Context, h *hub.Hub, seq chunk.Seq) error {
	cur, err := h.Subscribe(ctx, hub.Request{Session: aRoot})
	if err != nil {
		return err
	}
	defer cur.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for next := uint64(1); next <= uint64(seq)+3; {
		batch, err := cur.Next(ctx, nil)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(batch.Frames)) {
			var got uint64
			if _, err := fmt.Sscan(line, &got); err != nil || got != next {
				return fmt.Errorf("record %q, %w; want %d", line, err, next)
			}
			next++
		}
	}
	return nil
}

package hub_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// start runs a hub that follows the partition until the test ends.
func start(t *testing.T, log hub.Log, feed hub.PartitionLog, cfg hub.Config) *hub.Hub {
	t.Helper()
	return startFeed(t, log, onePartition(feed), cfg)
}

func onePartition(log hub.PartitionLog) hub.Feed {
	return hub.ByPartition(log, 1, func(chunk.Session) int { return 0 })
}

func startFeed(t *testing.T, log hub.Log, feed hub.Feed, cfg hub.Config) *hub.Hub {
	t.Helper()
	cfg.Encode = plain
	h, err := hub.New(log, feed, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := h.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return h
}

var aRoot = chunk.RootSession("t", "r")

// Twenty readers with different speeds read with little memory while a writer
// writes, rolls back steps, and loses its feed: each of them gets contiguous
// ordinals with gaps only where a truncation record explains them.
func TestReadersWithDifferentSpeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		h := start(t, log, log, hub.Config{MaxMemory: 16 << 10, PageBytes: 8 << 10, MaxReads: 3})
		kids := []chunk.Session{aRoot, aRoot.Child("a"), aRoot.Child("b")}
		for _, s := range kids {
			log.Append(s, chunk.TypeRunStarted, "") // the first record of a session, which no cleanup removes
		}
		var readers sync.WaitGroup
		for i := range 20 {
			readers.Go(func() { readToEnd(t, h, time.Duration(i%7)*time.Millisecond) })
		}
		for i := range 800 {
			s := kids[rand.IntN(len(kids))]
			log.AppendAt(s, chunk.TypeTextDelta, int64(rand.IntN(2)), fmt.Sprintf(`"delta":"%0*d"`, rand.IntN(200), i))
			switch rand.IntN(80) {
			case 0:
				log.Cleanup(s, 0, log.End()-20)
			case 1:
				log.CloseFeeds()
			case 2:
				time.Sleep(time.Second)
			}
		}
		log.Append(aRoot, chunk.TypeStreamEnd, "")
		readers.Wait()
		synctest.Wait()
		if s := h.Stats(); s.Cursors != 0 || s.Bytes > 18<<10 {
			t.Errorf("%+v", s)
		}
	})
}

// readToEnd follows the tree and checks it, with a pause after each batch.
//
//tailrace:bubble
func readToEnd(t *testing.T, h *hub.Hub, pause time.Duration) {
	t.Helper()
	cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot})
	if err != nil {
		t.Error(err)
		return
	}
	defer cur.Close()
	seen := make(map[string]uint64)
	gaps := make(map[string]map[uint64]bool) // skipped ordinals
	for {
		batch, err := cur.Next(t.Context(), nil)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Error(err)
			return
		}
		for line := range bytes.Lines(batch.Frames) {
			var seq, ordinal uint64
			var id string
			var typ chunk.Type
			if _, err := fmt.Sscan(string(line), &seq, &ordinal, &id, &typ); err != nil {
				t.Error(err)
			}
			if ordinal <= seen[id] {
				t.Errorf("%s: %d after %d", id, ordinal, seen[id])
			}
			for o := seen[id] + 1; o < ordinal; o++ {
				if gaps[id] == nil {
					gaps[id] = make(map[uint64]bool)
				}
				gaps[id][o] = true
			}
			seen[id] = ordinal
			if typ == chunk.TypeTruncated {
				explain(gaps[id], line)
			}
		}
		time.Sleep(pause)
	}
	for id, missing := range gaps {
		if len(missing) > 0 {
			t.Errorf("%s: %v are missing without a truncation record", id, missing)
		}
	}
}

// explain deletes the ordinals that a truncation record lists.
func explain(missing map[uint64]bool, line []byte) {
	_, list, _ := strings.Cut(string(line), `"removed":[`)
	for entry := range strings.SplitSeq(list, "}") {
		var first, last uint64
		if _, err := fmt.Sscanf(strings.TrimPrefix(entry, ","), `{"first":%d,"last":%d`, &first, &last); err != nil {
			continue
		}
		for o := first; o <= last; o++ {
			delete(missing, o)
		}
	}
}

func TestHubThatDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		log.Append(aRoot, chunk.TypeRunStarted, "")
		h, err := hub.New(log, onePartition(log), hub.Config{Encode: plain})
		if err != nil {
			t.Fatal(err)
		}
		if h.Ready() == nil || h.Started() {
			t.Error("ready or started before Run")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Subscribe(ctx, hub.Request{Session: aRoot}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("before Run: %v", err)
		}
		running, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- h.Run(running) }()
		synctest.Wait()
		if err := h.Ready(); err != nil {
			t.Errorf("while it runs: %v", err)
		}
		if !h.Started() {
			t.Error("not started while it runs")
		}
		cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cur.Next(t.Context(), nil); err != nil {
			t.Error(err)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := cur.Next(t.Context(), nil); !errors.Is(err, hub.ErrClosed) {
			t.Errorf("a cursor after Run: %v", err)
		}
		cur.Close()
		cur.Close()
		if _, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot}); !errors.Is(err, hub.ErrClosed) {
			t.Errorf("after Run: %v", err)
		}
		if s := h.Stats(); s.Cursors != 0 || s.Bytes != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// Next returns when its context ends.
func TestNextEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		log.Append(aRoot, chunk.TypeRunStarted, "")
		h := start(t, log, log, hub.Config{})
		cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot})
		if err != nil {
			t.Fatal(err)
		}
		defer cur.Close()
		if _, err := cur.Next(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		errCanceled := errors.New("canceled by the test")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(errCanceled) })
		began := time.Now()
		if _, err := cur.Next(ctx, nil); !errors.Is(err, errCanceled) || time.Since(began) != time.Minute {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
	})
}

// The number of concurrent reads of the log is limited.
func TestReadsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		var mu sync.Mutex
		now, peak := 0, 0
		for i := range 20 {
			log.Append(chunk.RootSession("t", fmt.Sprint(i)), chunk.TypeTextDelta, "")
		}
		h := start(t, counting{log, func(d int) {
			mu.Lock()
			defer mu.Unlock()
			now += d
			peak = max(peak, now)
		}}, log, hub.Config{MaxReads: 3})
		synctest.Wait()
		var readers sync.WaitGroup
		for i := range 20 {
			readers.Go(func() {
				cur, err := h.Subscribe(t.Context(), hub.Request{Session: chunk.RootSession("t", fmt.Sprint(i))})
				if err != nil {
					t.Error(err)
					return
				}
				defer cur.Close()
				if _, err := cur.Next(t.Context(), nil); err != nil {
					t.Error(err)
				}
			})
		}
		readers.Wait()
		if peak != 3 {
			t.Errorf("%d reads at once, want 3", peak)
		}
	})
}

// counting is a log whose tree reads take a second. It is used in a synctest
// bubble.
type counting struct {
	*memlog.Log

	count func(int)
}

func (c counting) Replay(ctx context.Context, of chunk.Range) iter.Seq2[chunk.Record, error] {
	return func(yield func(chunk.Record, error) bool) {
		c.count(1)
		defer c.count(-1)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
		c.Log.Replay(ctx, of)(yield)
	}
}

// A client that started a read leaves during the read: the others that wait for
// the page still get it. The read ends when no client waits for it.
func TestReadOutlivesItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		for range 10 {
			log.Append(aRoot, chunk.TypeTextDelta, "")
		}
		reading := 0
		h := start(t, counting{log, func(d int) { reading += d }}, log, hub.Config{})
		synctest.Wait()
		leave := func() {
			leaving, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			cur, err := h.Subscribe(leaving, hub.Request{Session: aRoot})
			if err != nil {
				t.Fatal(err)
			}
			defer cur.Close()
			if _, err := cur.Next(leaving, nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the client that left: %v", err)
			}
		}
		var readers sync.WaitGroup
		for range 5 {
			readers.Go(func() {
				time.Sleep(50 * time.Millisecond)
				cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot})
				if err != nil {
					t.Error(err)
					return
				}
				defer cur.Close()
				if batch, err := cur.Next(t.Context(), nil); err != nil || bytes.Count(batch.Frames, []byte("\n")) != 10 {
					t.Errorf("a waiting client: %q, %v", batch.Frames, err)
				}
			})
		}
		leave()
		readers.Wait()
		if s := h.Stats(); s.Reads != 1 {
			t.Errorf("%d reads, want 1", s.Reads)
		}
		time.Sleep(time.Hour) // the topic is evicted
		leave()
		if synctest.Wait(); reading != 0 {
			t.Errorf("%d reads continue without a client", reading)
		}
	})
}

// While the log is slow, Next returns at the tick, so that waiting clients get
// heartbeats.
func TestHeartbeatsWhileTheLogIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		log.Append(aRoot, chunk.TypeTextDelta, "")
		h := start(t, counting{log, func(int) {}}, log, hub.Config{})
		synctest.Wait()
		cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot})
		if err != nil {
			t.Fatal(err)
		}
		defer cur.Close()
		if batch, err := cur.Next(t.Context(), time.After(100*time.Millisecond)); err != nil || batch.Frames != nil {
			t.Errorf("got %q, %v", batch.Frames, err)
		}
		if batch, err := cur.Next(t.Context(), nil); err != nil || len(batch.Frames) == 0 {
			t.Errorf("got %q, %v", batch.Frames, err)
		}
	})
}

// A lagging replica returns fewer records than the leader has promised: the read
// is repeated, so that the last record is not lost.
func TestShortReadIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		for range 3 {
			log.Append(aRoot, chunk.TypeTextDelta, "")
		}
		h := start(t, &lagging{Log: log, times: 3}, log, hub.Config{})
		synctest.Wait()
		cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot})
		if err != nil {
			t.Fatal(err)
		}
		defer cur.Close()
		if batch, err := cur.Next(t.Context(), nil); err != nil || bytes.Count(batch.Frames, []byte("\n")) != 3 {
			t.Errorf("got %q, %v", batch.Frames, err)
		}
	})
}

// lagging is a log whose first reads do not return the last record.
type lagging struct {
	*memlog.Log

	times int
}

func (l *lagging) Replay(ctx context.Context, of chunk.Range) iter.Seq2[chunk.Record, error] {
	if l.times > 0 {
		l.times--
		of.Through--
	}
	return l.Log.Replay(ctx, of)
}

// A feed that delivers a message twice or an older message may have missed
// others: the following records are read from the log.
func TestFeedOutOfOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		for range 3 {
			log.Append(aRoot, chunk.TypeTextDelta, "")
		}
		h := start(t, log, &stuttering{Log: log}, hub.Config{})
		synctest.Wait()
		cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot})
		if err != nil {
			t.Fatal(err)
		}
		defer cur.Close()
		var got []byte
		for range 3 {
			log.Append(aRoot, chunk.TypeTextDelta, "")
			for began := time.Now(); time.Since(began) < 5*time.Second; {
				batch, err := cur.Next(t.Context(), time.After(time.Second))
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, batch.Frames...)
			}
		}
		if n := bytes.Count(got, []byte("\n")); n != 6 {
			t.Errorf("%d records, want 6:\n%s", n, got)
		}
	})
}

// stuttering is a feed that delivers its first message twice.
type stuttering struct{ *memlog.Log }

func (s *stuttering) Feed(ctx context.Context, partition int, after chunk.Seq) iter.Seq2[codec.Stored, error] {
	return func(yield func(codec.Stored, error) bool) {
		first := true
		for m, err := range s.Log.Feed(ctx, partition, after) {
			if !yield(m, err) || (first && err == nil && !yield(m, nil)) {
				return
			}
			first = false
		}
	}
}

// A snapshot may outlive its stream. If its position is after the end of the
// new stream, Subscribe returns an error instead of waiting.
func TestPositionAfterEndOfLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		for range 3 {
			log.Append(aRoot, chunk.TypeTextDelta, "")
		}
		h := start(t, log, log, hub.Config{})
		synctest.Wait()
		for _, scope := range []chunk.Scope{chunk.ScopeTree, chunk.ScopeSession} {
			_, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot, Scope: scope, After: chunk.Position{Seq: 4711, Ordinal: 42}})
			if !isReason(err, chunk.TruncatedFuture) {
				t.Errorf("scope %d: got %v", scope, err)
			}
			log.PauseFeeds() // the log and the snapshot are ahead of the feed
			log.Append(aRoot, chunk.TypeTextDelta, "")
			last := log.Append(aRoot, chunk.TypeTextDelta, "")
			cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot, Scope: scope, After: last.Position()})
			if err != nil {
				t.Fatal(err)
			}
			log.Append(aRoot, chunk.TypeTextDelta, "")
			log.Release()
			if batch, err := cur.Next(t.Context(), nil); err != nil || !bytes.HasPrefix(batch.Frames, fmt.Append(nil, last.Seq+1)) {
				t.Errorf("scope %d: got %q, %v", scope, batch.Frames, err)
			}
			cur.Close()
		}
	})
}

// Each partition has a feed, and each session belongs to one partition.
func TestPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parts := partitioned{memlog.New(), memlog.New(), memlog.New()}
		which := func(s chunk.Session) int { return int(s.Root[0]-'a') % 3 }
		h := startFeed(t, parts, hub.ByPartition(parts, 3, which), hub.Config{Partitions: 3})
		for _, name := range []string{"a", "b", "c"} {
			s := chunk.RootSession("t", name)
			parts[which(s)].Append(s, chunk.TypeTextDelta, `"delta":"`+name+`"`)
			cur, err := h.Subscribe(t.Context(), hub.Request{Session: s})
			if err != nil {
				t.Fatal(err)
			}
			if batch, err := cur.Next(t.Context(), nil); err != nil || !strings.Contains(string(batch.Frames), `"delta":"`+name+`"`) {
				t.Errorf("%s: %q, %v", name, batch.Frames, err)
			}
			cur.Close()
		}
		if _, err := h.Subscribe(t.Context(), hub.Request{Session: chunk.RootSession("t", "unknown")}); err == nil {
			t.Error("subscribed to an unknown session")
		}
		synctest.Wait() // all streams are reached, and all feeds are attached
		parts[1].FailWith(errDown)
		synctest.Wait()
		if err := h.Ready(); !errors.Is(err, errDown) || !strings.Contains(err.Error(), "partition 1") {
			t.Errorf("got %v", err)
		}
		if !h.Started() {
			t.Error("not started since a feed has failed")
		}
	})
}

// TestClosedConnectionIsNoEnd checks that a read of the log that fails with io.EOF, because the server has closed the connection, is not the end of a session.
func TestClosedConnectionIsNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		log.Append(aRoot, chunk.TypeRunStarted, "")
		h := start(t, log, log, hub.Config{})
		cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot})
		if err != nil {
			t.Fatal(err)
		}
		defer cur.Close()
		log.FailWith(fmt.Errorf("read: %w", io.EOF))
		if batch, err := cur.Next(t.Context(), nil); !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			t.Errorf("%q, %v; want an unexpected EOF", batch.Frames, err)
		}
	})
}

// partitioned combines several logs.
type partitioned []*memlog.Log

func (p partitioned) of(s chunk.Session) *memlog.Log { return p[int(s.Root[0]-'a')%3] }

func (p partitioned) Replay(ctx context.Context, of chunk.Range) iter.Seq2[chunk.Record, error] {
	return p.of(of.Session).Replay(ctx, of)
}

func (p partitioned) CheckCursor(ctx context.Context, s chunk.Session, scope chunk.Scope, after chunk.Cursor) (chunk.Position, error) {
	return p.of(s).CheckCursor(ctx, s, scope, after)
}

func (p partitioned) Last(ctx context.Context, s chunk.Session) (chunk.Record, error) {
	return p.of(s).Last(ctx, s)
}

func (p partitioned) Tip(ctx context.Context, n int) (chunk.Tip, error) { return p[n].Tip(ctx, 0) }

func (p partitioned) Feed(ctx context.Context, n int, after chunk.Seq) iter.Seq2[codec.Stored, error] {
	return p[n].Feed(ctx, 0, after)
}

func TestConfigIsChecked(t *testing.T) {
	for want, cfg := range map[string]hub.Config{
		"Encode":     {},
		"Partitions": {Encode: plain, Partitions: -1},
		"MaxMemory":  {Encode: plain, MaxMemory: -1},
		"PageBytes":  {Encode: plain, PageBytes: -1},
		"MaxReads":   {Encode: plain, MaxReads: -1},
		"IdleTTL":    {Encode: plain, IdleTTL: -1},
		"FeedLinger": {Encode: plain, FeedLinger: -1},
	} {
		if _, err := hub.New(nil, nil, cfg); err == nil || !strings.HasPrefix(err.Error(), want+" is ") {
			t.Errorf("%s: got %v", want, err)
		}
	}
	h, err := hub.New(nil, hub.ByPartition(nil, 2, func(chunk.Session) int { return 7 }), hub.Config{Encode: plain, Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot}); err == nil || !strings.Contains(err.Error(), "partition 7 out of range, want less than 2") {
		t.Errorf("got %v", err)
	}
}

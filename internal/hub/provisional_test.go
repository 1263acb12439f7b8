package hub_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// grownLog has a log for each of two generations of one partition. Trees begin in the first one until it is closed.
type grownLog struct {
	logs   [2]*memlog.Log
	closed atomic.Bool
}

func (g *grownLog) Partition(_ context.Context, s chunk.Session) (int, bool, error) {
	closed := g.closed.Load()
	switch {
	case len(g.logs[0].Tree(s.Tree())) > 0:
		return 0, true, nil
	case closed:
		return 1, true, nil
	}
	return 0, false, nil
}

func (g *grownLog) of(s chunk.Session) *memlog.Log {
	n, _, _ := g.Partition(context.Background(), s)
	return g.logs[n]
}

func (g *grownLog) Replay(ctx context.Context, of chunk.Range) iter.Seq2[chunk.Record, error] {
	return g.of(of.Session).Replay(ctx, of)
}

func (g *grownLog) CheckCursor(ctx context.Context, s chunk.Session, scope chunk.Scope, after chunk.Cursor) (chunk.Position, error) {
	return g.of(s).CheckCursor(ctx, s, scope, after)
}

func (g *grownLog) Last(ctx context.Context, s chunk.Session) (chunk.Record, error) {
	return g.of(s).Last(ctx, s)
}

func (g *grownLog) Tip(ctx context.Context, n int) (chunk.Tip, error) { return g.logs[n].Tip(ctx, 0) }

func (g *grownLog) Feed(ctx context.Context, n int, after chunk.Seq) iter.Seq2[codec.Stored, error] {
	return g.logs[n].Feed(ctx, 0, after)
}

func (g *grownLog) FeedRoot(ctx context.Context, n int, root chunk.Session, after chunk.Seq) iter.Seq2[codec.Stored, error] {
	return g.logs[n].FeedRoot(ctx, 0, root, after)
}

// Clients wait for sessions while the partitions grow: each gets all records of its session once and in order, wherever it begins, without connecting again.
func TestSessionsThatBeginWhilePartitionsGrow(t *testing.T) {
	for seed := range uint64(60) {
		for _, roots := range []bool{false, true} {
			t.Run(fmt.Sprintf("seed %d, roots %t", seed, roots), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { growUnderClients(t, rand.New(rand.NewPCG(seed, 0)), roots) })
			})
		}
	}
}

// growUnderClients writes and follows sessions, and closes the first generation at some moment.
//
//tailrace:bubble
func growUnderClients(t *testing.T, r *rand.Rand, roots bool) {
	t.Helper()
	log := &grownLog{logs: [2]*memlog.Log{memlog.New(), memlog.New()}}
	for n := range log.logs {
		for range r.IntN(4) {
			log.logs[n].Append(chunk.RootSession("t", fmt.Sprint("before", n)), chunk.TypeTextDelta, "")
		}
	}
	cfg := hub.Config{Partitions: 2}
	if roots {
		cfg.Roots = log
	}
	h := start(t, log, log, cfg)
	const sessions, records = 6, 3
	type result struct {
		session int
		frames  string
	}
	var written, clients [sessions]int
	results := make(chan result, 3*sessions)
	follow := func(n int) {
		s := chunk.RootSession("t", fmt.Sprint("s", n))
		cur, err := h.Subscribe(t.Context(), hub.Request{Session: s, KeepOpen: true})
		if err != nil {
			t.Error(err)
			return
		}
		clients[n]++
		go func() {
			defer cur.Close()
			var all []byte
			for bytes.Count(all, []byte("\n")) < records {
				batch, err := cur.Next(t.Context(), nil)
				if err != nil {
					t.Errorf("%s: %v", s, err)
					break
				}
				all = append(all, batch.Frames...)
			}
			results <- result{n, string(all)}
		}()
	}
	pause := func() { time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond) }
	closeAt := r.IntN(sessions * (records + 1))
	for step := range sessions * (records + 1) {
		if n := r.IntN(sessions); clients[n] < 2 {
			follow(n)
		}
		if step == closeAt {
			log.closed.Store(true)
		}
		if n := r.IntN(sessions); written[n] < records {
			written[n]++
			s := chunk.RootSession("t", fmt.Sprint("s", n))
			log.of(s).Append(s, chunk.TypeTextDelta, fmt.Sprintf(`"delta":"%d"`, written[n]))
		}
		pause()
	}
	log.closed.Store(true)
	for n := range sessions {
		s := chunk.RootSession("t", fmt.Sprint("s", n))
		for ; written[n] < records; written[n]++ {
			log.of(s).Append(s, chunk.TypeTextDelta, fmt.Sprintf(`"delta":"%d"`, written[n]+1))
			pause()
		}
		follow(n)
	}
	var want [sessions]string
	for n := range sessions {
		s := chunk.RootSession("t", fmt.Sprint("s", n))
		first, second := log.logs[0].Tree(s), log.logs[1].Tree(s)
		if len(first)+len(second) != records || len(first)*len(second) != 0 {
			t.Fatalf("%s has %d and %d records", s, len(first), len(second))
		}
		for _, rec := range append(first, second...) {
			want[n] += string(plain(nil, rec, chunk.ScopeSession))
		}
	}
	for n := range sessions {
		for range clients[n] {
			if r := <-results; r.frames != want[r.session] {
				t.Errorf("session %d: got\n%s\nwant\n%s", r.session, r.frames, want[r.session])
			}
		}
	}
}

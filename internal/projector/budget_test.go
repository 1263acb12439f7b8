package projector_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
)

// partition is one of several Runners with a Budget.
type partition struct {
	*queue

	store *sessionStore
	stop  func()
	log   *storetest.Log
	name  string
}

// newBudgeted returns Runners of partitions that share a Budget.
func newBudgeted(t *testing.T, n, maxSessions, maxMemory int) (*projector.Budget, []*partition) {
	t.Helper()
	budget, err := projector.NewBudget(maxSessions, maxMemory)
	if err != nil {
		t.Fatal(err)
	}
	var all []*partition
	for i := range n {
		p := &partition{queue: newQueue(), store: newSessionStore(), log: storetest.NewLog(), name: fmt.Sprint(i)}
		_, p.stop = start(t, p.queue, p.store, p.log, projector.Config{Budget: budget})
		all = append(all, p)
	}
	return budget, all
}

func (p *partition) session(i int) chunk.Session {
	return chunk.RootSession("acme", fmt.Sprintf("p%s-s%d", p.name, i))
}

// begin starts a run in each of n sessions, with a text.
func (p *partition) begin(t *testing.T, n int, text string) {
	t.Helper()
	for i := range n {
		p.put(p.log.Append(t, p.session(i), 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}),
			p.log.Append(t, p.session(i), 1, chunk.TextDelta{Delta: text}))
	}
}

func (p *partition) saved(t *testing.T, n int) {
	t.Helper()
	if n := p.unacked(); n > 0 {
		t.Errorf("partition %s: %d deliveries are unacknowledged", p.name, n)
	}
	for i := range n {
		storetest.Equal(t, p.session(i).ID, storetest.Stored(t, p.store, p.session(i)), storetest.Fold(t, p.log, p.session(i)))
	}
}

// A Runner that has filled the budget and is idle evicts sessions when another one needs them, and one that ends releases all. The limits were those of each
// partition before.
func TestBudgetIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget, p := newBudgeted(t, 2, 100, 0)
		p[0].begin(t, 100, "a")
		time.Sleep(time.Minute)
		if n, _ := budget.Used(); n != 100 {
			t.Errorf("%d sessions of one Runner in memory, want all", n)
		}
		p[1].begin(t, 80, "b")
		time.Sleep(time.Minute)
		if n, _ := budget.Used(); n > 100 {
			t.Errorf("%d sessions of two Runners in memory, want at most 100", n)
		}
		p[0].saved(t, 100)
		p[1].saved(t, 80)
		p[0].stop()
		if n, memory := budget.Used(); n < 50 || n > 80 || memory <= 0 {
			t.Errorf("%d sessions of the second Runner in memory, %d bytes, want at least its half", n, memory)
		}
		p[1].stop()
		if n, memory := budget.Used(); n != 0 || memory != 0 {
			t.Errorf("%d sessions and %d bytes are left", n, memory)
		}
	})
}

// The memory of the sessions of eight Runners stays within the budget.
func TestBudgetOfMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 1 << 20
		budget, partitions := newBudgeted(t, 8, 0, limit)
		for round := range 3 {
			for _, p := range partitions[:4+2*round] {
				p.begin(t, 20, strings.Repeat("x", 10_000))
			}
			time.Sleep(time.Minute)
			if n, memory := budget.Used(); memory > limit || n < 10 {
				t.Errorf("%d sessions with %d bytes in memory, want at most %d bytes, and no more evicted than needed", n, memory, limit)
			}
		}
		for _, p := range partitions {
			p.saved(t, 20)
			p.stop()
		}
	})
}

// The records that wait for slow sessions are bounded together too: beyond a quarter of the budget they are read from the log.
func TestBudgetOfDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow, texts = 16, 10
		text := strings.Repeat("x", 64<<10)
		budget, partitions := newBudgeted(t, 2, 0, 32<<20)
		for _, p := range partitions {
			p.store.load = func(ctx context.Context, _ chunk.Session) error { return waitFor(ctx, 9*time.Second) }
			for i := range slow {
				p.put(p.log.Append(t, p.session(i), 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}))
			}
		}
		synctest.Wait()
		for _, p := range partitions {
			for range texts {
				for i := range slow {
					p.put(p.log.Append(t, p.session(i), 1, chunk.TextDelta{Delta: text}))
				}
			}
		}
		synctest.Wait()
		// 20 MiB were delivered. The quarter is exceeded by one batch of each Runner, and by the first and the last record of each session.
		if _, memory := budget.Used(); memory > 14<<20 {
			t.Errorf("%d bytes of deliveries in memory", memory)
		}
		time.Sleep(time.Minute)
		for _, p := range partitions {
			p.saved(t, slow)
			p.stop()
		}
		if n, memory := budget.Used(); n != 0 || memory != 0 {
			t.Errorf("%d sessions and %d bytes are left", n, memory)
		}
	})
}

// Sessions that are large are loaded, folded and saved a few at a time: their open messages together would take a multiple of the budget before the first of them is
// evicted. Small sessions do not wait for them.
func TestLargeSessionsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const large, small, limit = 12, 30, 4 << 20
		text := strings.Repeat("x", 600<<10)
		budget, partitions := newBudgeted(t, 2, 0, limit)
		var running, peak, short atomic.Int64
		for _, p := range partitions {
			p.store.load = func(ctx context.Context, s chunk.Session) error {
				if strings.HasPrefix(s.ID, p.name+"-large") {
					for n, most := running.Add(1), peak.Load(); n > most && !peak.CompareAndSwap(most, n); most = peak.Load() {
					}
					defer running.Add(-1)
				} else {
					short.Add(1)
				}
				return waitFor(ctx, time.Second)
			}
			var records []chunk.Record
			begin := func(id, text string) {
				s := chunk.RootSession("acme", id)
				begun := p.log.Append(t, s, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
				written := p.log.Append(t, s, 1, chunk.TextDelta{Delta: text})
				begun.SessionBytes, written.SessionBytes = 100, int64(100+len(text))
				records = append(records, begun, written)
			}
			for i := range large {
				begin(fmt.Sprintf("%s-large%d", p.name, i), text)
			}
			for i := range small {
				begin(fmt.Sprintf("%s-small%d", p.name, i), "x")
			}
			p.put(records...)
		}
		time.Sleep(500 * time.Millisecond)
		if n := running.Load(); n < 2 || short.Load() != 2*small {
			t.Errorf("%d large sessions and %d small ones are loaded at the start", n, short.Load())
		}
		time.Sleep(time.Minute)
		// Half of the budget is for three, and each partition has at least one.
		if n := peak.Load(); n > 4 {
			t.Errorf("%d large sessions at the same time", n)
		}
		if _, memory := budget.Used(); memory > limit {
			t.Errorf("%d bytes in memory", memory)
		}
		for _, p := range partitions {
			p.saved(t, 0)
			for i := range large {
				s := chunk.RootSession("acme", fmt.Sprintf("%s-large%d", p.name, i))
				if at := storetest.Stored(t, p.store, s).Position.Ordinal; at != 2 {
					t.Errorf("session %s is saved up to record %d", s.ID, at)
				}
			}
			p.stop()
		}
	})
}

func TestBudgetRefused(t *testing.T) {
	if _, err := projector.NewBudget(-1, 0); err == nil || !strings.Contains(err.Error(), "MaxSessions") {
		t.Errorf("%v, want the invalid argument", err)
	}
}

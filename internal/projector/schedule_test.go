package projector_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/projector/fold"
)

// sessionStore is a Store of which the calls for some sessions are slow or fail.
type sessionStore struct {
	*storetest.Memory

	mu    sync.Mutex // guards calls
	calls map[chunk.Session][]time.Time
	load  func(ctx context.Context, s chunk.Session) error
	save  func(ctx context.Context, s chunk.Session) error
}

func newSessionStore() *sessionStore {
	ok := func(context.Context, chunk.Session) error { return nil }
	return &sessionStore{Memory: storetest.NewMemory(), calls: make(map[chunk.Session][]time.Time), load: ok, save: ok}
}

func (st *sessionStore) Load(ctx context.Context, s chunk.Session) (fold.Snapshot, projector.Revision, error) {
	if err := st.load(ctx, s); err != nil {
		return fold.Snapshot{}, 0, err
	}
	return st.Memory.Load(ctx, s)
}

func (st *sessionStore) Save(ctx context.Context, snap fold.Snapshot, after projector.Revision) (projector.Revision, error) {
	st.mu.Lock()
	st.calls[snap.Session] = append(st.calls[snap.Session], time.Now())
	st.mu.Unlock()
	if err := st.save(ctx, snap.Session); err != nil {
		return 0, err
	}
	return st.Memory.Save(ctx, snap, after)
}

// saves returns the times of the attempts to save a session.
func (st *sessionStore) saves(s chunk.Session) []time.Time {
	st.mu.Lock()
	defer st.mu.Unlock()
	return append([]time.Time(nil), st.calls[s]...)
}

// waitFor waits a time of the fake clock.
func waitFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestSlowSessionDelaysNoOther loads ten sessions that take nine seconds each, beside others that must be saved
// at their start. The Runner waited for the slow ones before.
func TestSlowSessionDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, store, q := storetest.NewLog(), newSessionStore(), newQueue()
		slow := make(map[chunk.Session]bool)
		for i := range 10 {
			slow[chunk.RootSession("acme", fmt.Sprintf("slow%d", i))] = true
		}
		store.load = func(ctx context.Context, s chunk.Session) error {
			if slow[s] {
				return waitFor(ctx, 9*time.Second)
			}
			return nil
		}
		_, stop := start(t, q, store, log, projector.Config{})
		defer stop()
		for s := range slow {
			q.put(log.Append(t, s, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}))
		}
		synctest.Wait()
		for i := range 8 {
			s := chunk.RootSession("acme", fmt.Sprintf("s%d", i))
			began := time.Now()
			q.put(log.Append(t, s, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}))
			time.Sleep(time.Second)
			if saves := store.saves(s); len(saves) != 1 || saves[0].Sub(began) > time.Millisecond {
				t.Errorf("session %s: saves at %v, want one at its start", s.ID, saves)
			}
		}
		time.Sleep(2 * time.Second)
		for s := range slow {
			storetest.Equal(t, s.ID, storetest.Stored(t, store, s), storetest.Fold(t, log, s))
		}
		if n := q.unacked(); n != 0 {
			t.Errorf("%d deliveries are unacknowledged, want 0", n)
		}
	})
}

// TestSessionThatCannotBeSaved writes to a session for 20 minutes that the store refuses, with redeliveries every 30 seconds. The
// attempts must become rare although deliveries arrive, few deliveries may stay unacknowledged, other sessions must keep their
// rhythm, and the session must be saved when the store accepts it again. The Runner attempted it with every delivery before, and
// kept them all and their redeliveries.
func TestSessionThatCannotBeSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, store, q := storetest.NewLog(), newSessionStore(), newQueue()
		bad, good := chunk.RootSession("acme", "bad"), chunk.RootSession("acme", "good")
		var refuse atomic.Bool
		refuse.Store(true)
		store.save = func(_ context.Context, s chunk.Session) error {
			if s == bad && refuse.Load() {
				return errors.New("refused")
			}
			return nil
		}
		_, stop := start(t, q, store, log, projector.Config{SaveAfter: 500 * time.Millisecond})
		defer stop()
		q.put(log.Append(t, bad, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}))
		q.put(log.Append(t, good, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}))
		highest := 0 // 4 of the bad session: the first and the last one of those taken and of its inbox
		for i := range 1200 {
			q.put(log.Append(t, bad, 1, chunk.TextDelta{Delta: "b"}))
			q.put(log.Append(t, good, 1, chunk.TextDelta{Delta: "g"}))
			if i%30 == 0 {
				q.redeliver()
			}
			time.Sleep(time.Second)
			highest = max(highest, q.unacked())
		}
		if highest > 5 {
			t.Errorf("up to %d deliveries were unacknowledged, want at most 5", highest)
		}
		// 10 s is the longest delay between two attempts.
		if n := len(store.saves(bad)); n < 100 || n > 140 {
			t.Errorf("%d attempts to save the bad session in 20 minutes, want about 125", n)
		}
		if n := len(store.saves(good)); n < 1200 {
			t.Errorf("%d saves of the good session in 20 minutes, want one per second", n)
		}
		refuse.Store(false)
		time.Sleep(11 * time.Second)
		storetest.Equal(t, "bad", storetest.Stored(t, store, bad), storetest.Fold(t, log, bad))
		if n := q.unacked(); n != 0 {
			t.Errorf("%d deliveries are unacknowledged, want 0", n)
		}
	})
}

// TestDeadLettersFailWhileDeliveriesArrive checks that a record is skipped after five attempts to write its dead letter although
// the session has deliveries between the attempts. Each delivery began to count from zero before.
func TestDeadLettersFailWhileDeliveriesArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, store, q := storetest.NewLog(), newSessionStore(), newQueue()
		dead := &deadLetters{failures: 1 << 30}
		r, stop := start(t, q, store, log, projector.Config{DeadLetter: dead})
		defer stop()
		q.put(log.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}))
		q.put(log.AppendRaw(s1, chunk.TypeTextDelta, []byte("{")))
		for range 3000 {
			q.put(log.Append(t, s1, 1, chunk.TextDelta{Delta: "a"}))
			time.Sleep(2 * time.Millisecond)
		}
		synctest.Wait()
		if r.Stats().Skipped != 1 {
			t.Errorf("%d records skipped after %d attempts, want 1", r.Stats().Skipped, dead.tries)
		}
		time.Sleep(6 * time.Second) // more than SaveAfter
		storetest.Equal(t, "rest", storetest.Stored(t, store, s1), storetest.Fold(t, log, s1))
	})
}

// TestRecordsOfASlowSessionAreBounded delivers 20 MiB to a session whose load takes nine seconds. The Runner keeps 8 MiB and
// reads the rest from the log.
func TestRecordsOfASlowSessionAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, store, q := storetest.NewLog(), newSessionStore(), newQueue()
		store.load = func(ctx context.Context, _ chunk.Session) error { return waitFor(ctx, 9*time.Second) }
		_, stop := start(t, q, store, log, projector.Config{})
		defer stop()
		q.put(log.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}))
		synctest.Wait()
		text := strings.Repeat("x", 64<<10)
		for range 320 {
			q.put(log.Append(t, s1, 1, chunk.TextDelta{Delta: text}))
		}
		synctest.Wait()
		if n := q.unacked(); n > 1+8<<20/(64<<10) {
			t.Errorf("%d deliveries are unacknowledged while the session is loaded, want at most 8 MiB", n)
		}
		time.Sleep(10 * time.Second)
		storetest.Equal(t, "slow", storetest.Stored(t, store, s1), storetest.Fold(t, log, s1))
		if n := q.unacked(); n != 0 {
			t.Errorf("%d deliveries are unacknowledged, want 0", n)
		}
	})
}

// TestManyActiveSessions has twice as many active sessions as fit, with saves of 10 ms. The Runner saved them one after the other
// before it took the next delivery.
func TestManyActiveSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sessions = 2000
		log, store, q := storetest.NewLog(), newSessionStore(), newQueue()
		store.save = func(ctx context.Context, _ chunk.Session) error { return waitFor(ctx, 10*time.Millisecond) }
		_, stop := start(t, q, store, log, projector.Config{MaxSessions: sessions / 2})
		defer stop()
		began := time.Now()
		for i := range sessions {
			q.put(log.Append(t, chunk.RootSession("acme", fmt.Sprintf("s%d", i)), 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}))
		}
		for q.unacked() > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		if d := time.Since(began); d > time.Second {
			t.Errorf("saved after %s, want less than 1s", d)
		}
	})
}

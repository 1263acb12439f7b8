package hub_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// waiter is a cursor with the channel that its last poll returned.
type waiter struct {
	cur  *hub.Cursor
	wait <-chan struct{}
}

// poll takes records until there are no more.
func (w *waiter) poll(t *testing.T) (records int) {
	t.Helper()
	for {
		batch, wait, err := w.cur.Poll(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if wait != nil {
			w.wait = wait
			return records
		}
		records += batch.Records
	}
}

func (w *waiter) isWoken() bool {
	select {
	case <-w.wait:
		return true
	default:
		return false
	}
}

// waiters returns cursors that wait at the end of the session of the log.
func waiters(t *testing.T, h *hub.Hub, log *memlog.Log, n int) []*waiter {
	t.Helper()
	log.Append(aRoot, chunk.TypeRunStarted, "")
	all := make([]*waiter, n)
	for i := range all {
		cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cur.Close)
		all[i] = &waiter{cur: cur}
	}
	for _, w := range all {
		for records := w.poll(t); records == 0; records += w.poll(t) {
			<-w.wait // for the read of the log
		}
	}
	return all
}

func appendDelta(log *memlog.Log) {
	log.Append(aRoot, chunk.TypeTextDelta, `"delta":"x"`)
	synctest.Wait()
}

// Cursors are woken again when all of the last wake-up have polled, and each gets all that has come meanwhile.
func TestOneWakeUpForAllReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		all := waiters(t, start(t, log, log, hub.Config{}), log, 3)
		a, b, c := all[0], all[1], all[2]
		appendDelta(log)
		for i, w := range all {
			if !w.isWoken() {
				t.Fatalf("cursor %d is not woken by the first record", i)
			}
		}
		if a.poll(t) != 1 || b.poll(t) != 1 {
			t.Fatal("a cursor did not get the first record")
		}
		appendDelta(log)
		appendDelta(log)
		if a.isWoken() || b.isWoken() {
			t.Fatal("a cursor is woken although another one has not polled since the last wake-up")
		}
		if got := c.poll(t); got != 3 {
			t.Fatalf("the last cursor got %d records, want 3", got)
		}
		if !a.isWoken() || !b.isWoken() {
			t.Fatal("a cursor is not woken after all have polled")
		}
		if c.isWoken() {
			t.Fatal("a cursor is woken that has all records")
		}
		if a.poll(t) != 2 || b.poll(t) != 2 {
			t.Fatal("a cursor did not get the records that came meanwhile")
		}
		appendDelta(log)
		if !c.isWoken() {
			t.Fatal("the last cursor missed a record")
		}
	})
}

// A client that reads slowly, that leaves, or whose topic is dropped, does not hold the others back.
func TestWakeUpWithoutAReader(t *testing.T) {
	for name, test := range map[string]struct {
		leave func(log *memlog.Log, slow *waiter)
		after time.Duration
	}{
		"slow":        {leave: func(*memlog.Log, *waiter) {}, after: 5 * time.Millisecond},
		"leaves":      {leave: func(_ *memlog.Log, slow *waiter) { slow.cur.Close() }},
		"other topic": {leave: func(log *memlog.Log, _ *waiter) { log.Recreate() }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := memlog.New()
				all := waiters(t, start(t, log, log, hub.Config{}), log, 2)
				fast, slow := all[0], all[1]
				appendDelta(log)
				if fast.poll(t) != 1 {
					t.Fatal("the fast cursor did not get the first record")
				}
				begin := time.Now()
				appendDelta(log)
				if fast.isWoken() {
					t.Fatal("the fast cursor is woken at once")
				}
				test.leave(log, slow)
				<-fast.wait
				if got := time.Since(begin); got > test.after {
					t.Fatalf("woken after %s, want %s", got, test.after)
				}
				if slow.cur.Close(); name == "other topic" {
					return
				}
				if fast.poll(t) != 1 {
					t.Fatal("the fast cursor did not get the second record")
				}
				appendDelta(log)
				if !fast.isWoken() {
					t.Fatal("the only cursor that is left waits for another one")
				}
			})
		})
	}
}

// Cursors that end their wait without being woken do not count.
func TestWakeUpAfterAWaitWasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		all := waiters(t, start(t, log, log, hub.Config{}), log, 3)
		a, b, c := all[0], all[1], all[2]
		for range 3 {
			a.poll(t) // for a heartbeat
		}
		b.cur.Close()
		appendDelta(log)
		a.poll(t)
		c.poll(t)
		for i := range 3 {
			appendDelta(log)
			if !a.isWoken() || !c.isWoken() {
				t.Fatalf("record %d wakes no cursor", i+2)
			}
			if a.poll(t) != 1 || c.poll(t) != 1 {
				t.Fatal("a cursor did not get a record")
			}
		}
	})
}
